# SPDX-License-Identifier: Apache-2.0
"""Tools of the reproductions: stand-ins for unneeded imports, and ranks without lossgrid.

Stand-ins are named here once; a module that is installed stays as it is.
"""
import os
import sys
import tempfile
import typing
import warnings

import typing_extensions

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # the formulas are the same, compiled or not
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore")

import lossgrid  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from lossgrid import stubs  # noqa: E402
from lossgrid.errors import BadInput  # noqa: E402

typing.TypedDict = typing_extensions.TypedDict  # pydantic insists on it before Python 3.12

stubs.install(
    "ray", "hydra", "codetiming", "datasets", "pyarrow", "torchdata", "peft", "pandas", "mbridge",
    "megatron.bridge", "vllm", "sglang", "dill", "pylatexenc", "wandb", "torchvision", "numba",
    "cachetools", "aiohttp", "openai", "PIL", "loguru", "jaxtyping", "fastapi", "uvicorn",
    "sqlmodel", "jax", "flax", "skyrl_gym", "tensorboard", "tensorboardX", "evaluate",
    "func_timeout", "deepspeed", "spmd_types",
    "ring_flash_attn", "optree", "torchmetrics", "aiofiles", "uvloop", "setproctitle",
    "swanlab", "trackio", "math_verify", "word2number", "json_repair", "qwen_vl_utils",
    "prettytable", "tyro", "torchao", "werkzeug", "lark", "requests", "matplotlib", "h5py",
    "bitsandbytes", "pybase64", "zmq", "msgspec", "flask", "nvidia_cudnn_frontend", "tenacity",
    "mistral_common", "cookiecutter", "pebble", "pynvml", "nltk", "litellm", "anthropic",
    "qwen_agent", "loralib", "optimum", "cloudpathlib", "hf_transfer")
stubs.no_cuda()


def nemo_rl():
    """Makes nemo_rl importable from the folder that NEMO_RL_SOURCE names, or ends with one line."""
    stubs.install("google", "mlflow", "prometheus_client", "pynvml", "megatron.bridge",
                  "megatron.core.transformer.moe.moe_logging")
    import tensorboard
    tensorboard.__version__ = "2"  # torch refuses the version of stand-ins
    try:
        show("nemo_rl", lossgrid.source("NEMO_RL_SOURCE", "nemo_rl"))
    except BadInput as reason:
        sys.exit(str(reason))


def flash_attn():
    """Makes a stand-in for flash_attn, after transformers has asked whether it is there."""
    import transformers.modeling_utils  # noqa: F401
    stubs.install("flash_attn")


def show(what, got, want=None):
    """Prints a measured number beside the right one."""
    got, want = (f"{x:.7g}" if isinstance(x, float) else x for x in (got, want))
    print(f"{what}: {got}" + ("" if want is None else f" (right: {want})"), flush=True)


def gradient(loss, *inputs):
    """Returns the gradients of ``loss`` as one detached tensor, or a list of several."""
    found = torch.autograd.grad(loss, inputs)
    return found[0] if len(found) == 1 else list(found)


def _rank(rank, function, size, store, arguments):
    dist.init_process_group("gloo", rank=rank, world_size=size, init_method="file://" + store)
    function(rank, *arguments)
    dist.barrier()
    dist.destroy_process_group()


def ranks(size, function, *arguments):
    """Calls ``function(rank, *arguments)`` in ``size`` processes that form a group (gloo)."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            _rank, (function, size, os.path.join(folder, "store"), arguments), nprocs=size)
    sys.stdout.flush()

# SPDX-License-Identifier: Apache-2.0
"""verl: the chunked entropy of Megatron has no backward beyond one chunk, and takes no [T, V]."""
import support
import torch
from support import ranks, show


def run(rank):
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel()
    from verl.utils.megatron.tensor_parallel import vocab_parallel_entropy_with_chunking as entropy
    for shape, chunk in (((1, 32, 64), 32), ((1, 32, 64), 16), ((32, 64), 16)):
        logits = torch.randn(shape, requires_grad=True)
        try:
            entropy(logits * 1, chunk).sum().backward()
            show(f"logits {shape}, chunk {chunk}", "has a gradient")
        except (RuntimeError, IndexError) as error:
            show(f"logits {shape}, chunk {chunk}", f"{type(error).__name__}: {str(error)[:90]}",
                 "has a gradient")


if __name__ == "__main__":
    ranks(1, run)

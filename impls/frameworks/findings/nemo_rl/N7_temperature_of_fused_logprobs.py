# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL: with fused linear log-probabilities the temperature divides these, not the logits."""
import support
import torch
import torch.distributed as dist
from support import gradient, nemo_rl, ranks, show

S, H, V = 33, 16, 64


def run(rank):
    nemo_rl()
    from megatron.core import parallel_state
    from nemo_rl.algorithms import loss as losses
    from nemo_rl.algorithms.logits_sampling_utils import TrainingSamplingParams
    from nemo_rl.distributed import model_utils
    from nemo_rl.distributed.batched_data_dict import BatchedDataDict
    from nemo_rl.models.megatron import train
    from nemo_rl.models.megatron.data import ProcessedMicrobatch
    parallel_state.initialize_model_parallel()
    torch.manual_seed(1)
    ids, weight = torch.randint(V, (1, S)), torch.randn(V, H)
    hidden = torch.randn(S, 1, H)

    def fused(labels, **_):
        """Last lines of the fused forward of a model, on its hidden states."""
        return model_utils.from_parallel_hidden_states_to_logprobs(
            x, weight, False, labels, 0, V, dist.group.WORLD, chunk_size=16)

    for temperature in (1.0, 0.7):
        x = hidden.clone().requires_grad_()
        data = BatchedDataDict(input_ids=ids, token_mask=torch.ones(1, S), sample_mask=torch.ones(1))
        config = {"sequence_packing": {"enabled": False}}
        output, loss_of = train.forward_with_post_processing_fn(
            iter([ProcessedMicrobatch(data, ids, ids, None, None, None, None)]), fused,
            train.LossPostProcessor(losses.NLLLossFn(use_fused_linear_logprobs=True), config),
            global_valid_seqs=torch.tensor(1.0), global_valid_toks=torch.tensor(S - 1.0),
            sampling_params=TrainingSamplingParams(temperature=temperature),
            use_fused_linear_logprobs=True)
        loss, _ = loss_of(output)
        z = hidden.clone().requires_grad_()
        rows = (z[:-1, 0] @ weight.t() / temperature).log_softmax(1)
        want = rows.gather(1, ids[0, 1:, None])[:, 0]
        show(f"temperature {temperature}: largest error of a log-probability",
             float((output[0] - want).abs().max()), 0.0)
        show(f"temperature {temperature}: loss", float(loss), float(-want.mean()))
        g, right = gradient(loss, x), gradient(-want.mean(), z)
        show(f"temperature {temperature}: relative error of the gradient of the hidden states",
             float((g - right).norm() / right.norm()), 0.0)


if __name__ == "__main__":
    ranks(1, run)

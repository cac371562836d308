# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL: draft training masks rows by the token before their target, and its teacher is scaled."""
from types import SimpleNamespace as Namespace

import support
import torch
from support import gradient, nemo_rl, ranks, show

S, V, PROMPT, END = 10, 16, 3, 8  # tokens 3 to 7 are the response, 8 and 9 padding


def run(rank):
    nemo_rl()
    from megatron.core import parallel_state
    from nemo_rl.algorithms import loss as losses
    from nemo_rl.algorithms.logits_sampling_utils import TrainingSamplingParams
    from nemo_rl.distributed.batched_data_dict import BatchedDataDict
    from nemo_rl.models.megatron import train
    from nemo_rl.models.megatron.data import ProcessedMicrobatch
    parallel_state.initialize_model_parallel()
    torch.manual_seed(1)
    ids, logits = torch.randint(V, (1, S)), torch.randn(1, S, V)
    mask = torch.zeros(1, S)
    mask[0, PROMPT:END] = 1

    def student_gradient(student, temperature):
        """Gradient of the draft loss by the real forward step, of a model that returns logits."""
        data = BatchedDataDict(input_ids=ids, token_mask=mask, sample_mask=torch.ones(1),
                               student_logits=student.requires_grad_())
        config = {"sequence_packing": {"enabled": False}, "draft": {"loss_weight": 1.0}}
        output, loss_of = train.forward_with_post_processing_fn(
            iter([ProcessedMicrobatch(data, ids, ids, None, None, None, None)]),
            lambda **_: logits.clone(), train.LossPostProcessor(losses.NLLLossFn(), config),
            global_valid_seqs=torch.tensor(1.0), global_valid_toks=mask[:, 1:].sum(),
            sampling_params=TrainingSamplingParams(temperature=temperature))
        return gradient(loss_of(output)[0], student)[0]

    trained = student_gradient(torch.randn(1, S, V), 1.0).norm(dim=1).nonzero()[:, 0].tolist()
    show("rows of the draft that are trained (row t has target t + 2)", trained,
         [t for t in range(S - 2) if mask[0, t + 2]])
    equal = logits.roll(-1, 1)  # each row has the teacher's logits for its target
    for temperature in (1.0, 0.5):
        g = student_gradient(equal.clone(), temperature)
        show(f"temperature {temperature}: gradient of a student equal to its teacher",
             float(g.norm()), 0.0)


if __name__ == "__main__":
    ranks(1, run)

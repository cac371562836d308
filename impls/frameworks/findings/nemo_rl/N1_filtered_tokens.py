# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL: a token outside of the policy's top-k has log-probability 0 and stays in the mask."""
import support
import torch
from support import gradient, nemo_rl, show

nemo_rl()
from nemo_rl.algorithms.logits_sampling_utils import TrainingSamplingParams
from nemo_rl.algorithms.loss import ClippedPGLossConfig, ClippedPGLossFn, prepare_loss_input
from nemo_rl.algorithms.utils import mask_out_neg_inf_logprobs
from nemo_rl.distributed.batched_data_dict import BatchedDataDict

T, V, K, OUTSIDE = 8, 16, 4, 3  # token OUTSIDE is the least likely one, the others are the likeliest
torch.manual_seed(1)
logits = torch.randn(1, T, V)
ids = torch.zeros(1, T, dtype=torch.long)
ids[0, 1:] = logits[0, :-1].argmax(1)
ids[0, OUTSIDE] = logits[0, OUTSIDE - 1].argmin()


def outcome(mask, previous):
    """Returns loss, gradient and token_mult_prob_error of the real functions."""
    x = logits.clone().requires_grad_()
    data = BatchedDataDict(
        input_ids=ids, token_mask=mask, sample_mask=torch.ones(1), prev_logprobs=previous,
        generation_logprobs=torch.full((1, T), -1.0), advantages=torch.ones(1, T))
    data["generation_logprobs"][0, OUTSIDE] = -5.0  # as the sampler has it: finite
    function = ClippedPGLossFn(ClippedPGLossConfig(
        reference_policy_kl_penalty=0, use_importance_sampling_correction=True))
    given, data = prepare_loss_input(x, data, function,
                                     sampling_params=TrainingSamplingParams(top_k=K))
    loss, metrics = function(data=data, global_valid_seqs=torch.tensor(1.0),
                             global_valid_toks=torch.tensor(T - 1.0), **given)
    return float(loss), gradient(loss, x), metrics["token_mult_prob_error"]


mask = torch.ones(1, T)
kept = mask.clone()
kept[0, OUTSIDE] = 0
inside = torch.full((1, T), -1.0)
filtered = inside.clone()
filtered[0, OUTSIDE] = -torch.inf
filtered = mask_out_neg_inf_logprobs(filtered, mask, "prev_logprobs")
show("log-probability of the token by the previous policy", float(filtered[0, OUTSIDE]))
for name, previous in (("both policies", filtered), ("the current one", inside)):
    loss, g, error = outcome(mask, previous)
    want, right, right_error = outcome(kept, previous)
    show(f"outside of {name}: loss", loss, want)
    show(f"outside of {name}: token_mult_prob_error", error, right_error)
    show(f"outside of {name}: gradient of its row, norm of that of the others",
         (float(g[0, OUTSIDE - 1].norm()), float(g.norm())), (0.0, float(right.norm())))

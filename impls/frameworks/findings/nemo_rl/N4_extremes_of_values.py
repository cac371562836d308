# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL: extremes of values are 0 where nothing is valid, and are added up by sequence packing."""
import support
import torch
from support import nemo_rl, ranks, show


def run(rank):
    nemo_rl()
    from nemo_rl.algorithms.loss import MseValueLossConfig, MseValueLossFn, SequencePackingLossWrapper
    from nemo_rl.distributed.batched_data_dict import BatchedDataDict
    values = torch.tensor([[5.0, 6.0, 7.0], [2.0, 3.0, 4.0]])
    function = MseValueLossFn(MseValueLossConfig())

    def metrics(mask, packed):
        data = BatchedDataDict(token_mask=mask, sample_mask=torch.ones(2), returns=values)
        counts = torch.tensor(2.0), torch.tensor(6.0)
        if not packed:
            return function(values, data, *counts)[1]
        wrapper = SequencePackingLossWrapper(
            function, lambda logits, data, **_: ({"logits": logits}, data), torch.tensor([0, 3, 6]))
        return wrapper(values.view(1, 6), data, *counts)[1]

    def logged(*microbatches):
        """Returns critic/values_min and _max: ppo.py takes these of those of the microbatches."""
        return (min(one["values_min"] for one in microbatches),
                max(one["values_max"] for one in microbatches))

    full, none = torch.ones(2, 3), torch.zeros(2, 3)
    show("two sequences, not packed", logged(metrics(full, False)), (2.0, 7.0))
    show("two sequences, packed", logged(metrics(full, True)), (2.0, 7.0))
    show("and a microbatch without a valid token", logged(metrics(full, False), metrics(none, False)),
         (2.0, 7.0))


if __name__ == "__main__":
    ranks(1, run)

# SPDX-License-Identifier: Apache-2.0
"""Problems of the fake host: a packed batch, its truth in float64, and arenas of all ranks."""
from __future__ import annotations

import mmap
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from fake_host import World
from lossgrid.layout import own_rows
from lossgrid.messages import Message
from lossgrid.problem import Cut

_NAMES = {torch.float64: "float64", torch.float32: "float32", torch.bfloat16: "bfloat16",
          torch.int64: "int64", torch.uint8: "uint8"}


class MemoryFile:
    """A memory file with arrays in it, and views of them on this side."""

    def __init__(self, arrays: Dict[str, torch.Tensor]) -> None:
        places: Dict[str, Any] = {}
        offset = 64
        for name, tensor in arrays.items():
            places[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape),
                            "offset": offset}
            offset += -(-tensor.numel() * tensor.element_size() // 64) * 64
        self.descriptor = os.memfd_create("arena")
        os.ftruncate(self.descriptor, offset + 64)
        self.memory = mmap.mmap(self.descriptor, offset + 64)
        self.places = places
        self.views: Dict[str, torch.Tensor] = {}
        for name, tensor in arrays.items():
            if tensor.numel() == 0:
                self.views[name] = tensor
                continue
            view = torch.frombuffer(self.memory, dtype=tensor.dtype, count=tensor.numel(),
                                    offset=places[name]["offset"]).view(tensor.shape)
            view.copy_(tensor)
            self.views[name] = view


class Case:
    """A packed batch of random ids and logits; every position of a sequence is trained on but
    those that ``masked`` names by (sequence, token)."""

    def __init__(self, lengths: Sequence[int], vocab: int, grid: Tuple[int, int, int] = (1, 1, 1),
                 dtype: torch.dtype = torch.float32, seed: int = 0,
                 masked: Sequence[Tuple[int, int]] = (), objective: Optional[Message] = None,
                 hidden: int = 0, poison: float = 3.0, scale: float = 2.0) -> None:
        self.tp, self.cp, self.dp = grid
        self.lengths, self.vocab, self.dtype, self.hidden = list(lengths), vocab, dtype, hidden
        self.objective = objective or {"kind": "nll"}
        self.poison = poison
        multiple = 2 * self.cp if self.cp > 1 else 1
        self.cu, self.cu_padded = [0], [0]
        for length in lengths:
            self.cu.append(self.cu[-1] + length)
            self.cu_padded.append(self.cu_padded[-1] + -(-length // multiple) * multiple)
        self.rows = self.cu_padded[-1]
        generator = torch.Generator().manual_seed(seed)
        self.generator = generator
        self.ids = torch.zeros(self.rows, dtype=torch.int64)
        self.targets = torch.full((self.rows,), -1, dtype=torch.int64)
        self.real = torch.zeros(self.rows, dtype=torch.uint8)
        self.token_mask = torch.zeros(self.rows, dtype=torch.uint8)
        self.valid = torch.zeros(self.rows, dtype=torch.uint8)
        self.sequence = torch.zeros(self.rows, dtype=torch.int64)
        for i, length in enumerate(lengths):
            begin, end = self.cu_padded[i], self.cu_padded[i + 1]
            self.sequence[begin:end] = i
            self.real[begin:begin + length] = 1
            self.ids[begin:begin + length] = torch.randint(vocab, (length,), generator=generator)
            self.token_mask[begin:begin + length] = 1
            for sequence, token in masked:
                if sequence == i:
                    self.token_mask[begin + token] = 0
            if length > 1:
                self.targets[begin:begin + length - 1] = self.ids[begin + 1:begin + length]
                self.valid[begin:begin + length - 1] = \
                    self.token_mask[begin + 1:begin + length]
        self.upstream = torch.randn(self.rows, generator=generator) * self.valid
        self.upstream_entropy = torch.randn(self.rows, generator=generator) * self.valid
        if hidden:
            self.states = torch.randn(self.rows, hidden, generator=generator).to(dtype)
            self.weight = torch.randn(vocab, hidden, generator=generator).to(dtype)
            self.logits = self.states.double() @ self.weight.double().t()
        else:
            self.logits = (torch.randn(self.rows, vocab, generator=generator) * scale).to(dtype)
        self.weight_layout = "vocab_hidden"
        self.table: Optional[torch.Tensor] = None
        self.extra: Dict[str, torch.Tensor] = {}
        self.files: List[MemoryFile] = []

    def transpose_weight(self) -> None:
        self.weight_layout = "hidden_vocab"

    def become_bigram(self) -> None:
        """Makes logits of a table [V, V]: row v holds the logits after id v."""
        self.table = torch.randn(self.vocab, self.vocab, generator=self.generator).to(self.dtype)
        self.logits = self.table[self.ids]

    @property
    def size(self) -> int:
        return self.tp * self.cp * self.dp

    @property
    def width(self) -> int:
        return -(-self.vocab // self.tp)

    def columns(self, tp_rank: int) -> Tuple[int, int]:
        begin = min(tp_rank * self.width, self.vocab)
        return begin, min(begin + self.width, self.vocab)

    def own_rows(self, cp_rank: int) -> List[int]:
        return own_rows(Cut(), self.cu_padded, self.cp, cp_rank)

    def add_token_array(self, name: str, tokens: torch.Tensor) -> None:
        """Adds an array about tokens, and the same about the token that each row predicts."""
        rows = torch.zeros(self.rows)
        rows[:-1] = tokens[1:]
        self.extra["tokens." + name] = tokens.float()
        self.extra["rows." + name] = torch.where(self.targets >= 0, rows, torch.zeros(1))

    # Truth.

    def truth(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """Returns log-probabilities and entropies [rows] in float64, 0 where nothing follows."""
        return self._truth(self.logits.double())

    def _truth(self, logits: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        logits = torch.where((self.targets >= 0)[:, None], logits, torch.zeros_like(logits))
        lp = torch.log_softmax(logits, 1)
        picked = lp.gather(1, self.targets.clamp(min=0)[:, None])[:, 0]
        entropy = -(lp.exp() * lp.masked_fill(torch.isinf(lp), 0)).sum(1)
        zero = torch.zeros_like(picked)
        predicts = self.targets >= 0
        return torch.where(predicts, picked, zero), torch.where(predicts, entropy, zero)

    def gradient(self, entropy: bool = False) -> torch.Tensor:
        """Returns d sum(upstream * outputs) / d logits [rows, V] in float64."""
        logits = self.logits.double().clone().requires_grad_()
        lp, h = self._truth(logits)
        total = (lp * self.upstream.double()).sum()
        if entropy:
            total = total + (h * self.upstream_entropy.double()).sum()
        total.backward()
        assert logits.grad is not None
        return logits.grad

    # The protocol.

    def problem(self) -> Message:
        return {"grid": {"tp": self.tp, "cp": self.cp, "dp": self.dp}, "vocab": self.vocab,
                "hidden": self.hidden, "dtype": _NAMES[self.dtype], "logit_scale": 1.0,
                "logit_softcap": 0.0, "temperature": 1.0,
                "weight_layout": self.weight_layout, "sequence_parallel": False, "device": "cpu",
                "sequences": len(self.lengths), "tokens": self.cu[-1],
                "padded_tokens": self.rows, "microbatch": 0, "microbatches": 1,
                "objective": self.objective, "an_extension": 1,
                "denominators": {"valid_tokens": int(self.valid.sum()),
                                 "valid_sequences": len(self.lengths), "positive_tokens": 0}}

    def arrays(self, rank: int, rows: str) -> Dict[str, torch.Tensor]:
        tp_rank, cp_rank = rank % self.tp, rank // self.tp % self.cp
        own = torch.tensor(self.own_rows(cp_rank), dtype=torch.int64)
        begin, end = self.columns(tp_rank)
        out = len(own) if rows == "shard" else self.rows
        places = own if rows == "shard" else torch.arange(self.rows)
        arrays = {
            "cu_seqlens": torch.tensor(self.cu), "cu_seqlens_padded": torch.tensor(self.cu_padded),
            "lengths": torch.tensor(self.lengths, dtype=torch.int64), "positions": own,
            "sequence": self.sequence, "ids_padded": self.ids, "targets": self.targets,
            "valid": self.valid, "real": self.real, "token_mask": self.token_mask,
            "sample_mask": torch.ones(len(self.lengths), dtype=torch.uint8),
            "out.logprobs": torch.full((out,), 7.0), "out.entropy": torch.full((out,), 7.0),
            "upstream.logprobs": self.upstream[places].clone(),
            "upstream.entropy": self.upstream_entropy[places].clone(), **self.extra}
        if self.hidden:
            weight = torch.full((self.width, self.hidden), self.poison).to(self.dtype)
            weight[:end - begin] = self.weight[begin:end]
            if self.weight_layout == "hidden_vocab":
                weight = weight.t().contiguous()
            arrays.update({"hidden": self.states[own].clone(), "weight": weight,
                           "grad.hidden": torch.full_like(self.states[own], 7.0),
                           "grad.weight": torch.full(weight.shape, 7.0)})
        elif self.table is not None:
            weight = torch.full((self.width, self.vocab), self.poison).to(self.dtype)
            weight[:end - begin] = self.table.t()[begin:end]
            arrays.update({"weight": weight, "grad.weight": torch.full(weight.shape, 7.0)})
        else:
            shard = torch.full((len(own), self.width), self.poison).to(self.dtype)
            shard[:, :end - begin] = self.logits[own][:, begin:end]
            arrays.update({"logits": shard, "grad.logits": torch.full_like(shard, 7.0)})
        return arrays

    def begin(self, world: World, name: str, rows: str = "shard", **request: Any) -> None:
        self.files = [MemoryFile(self.arrays(worker.rank, rows)) for worker in world.workers]
        for worker, file in zip(world.workers, self.files):
            worker.send("begin", (file.descriptor,), implementation=name,
                        problem=self.problem(), arrays=file.places,
                        **{"options": {}, "threads": 1, **request})
        world.receive()

    def views(self, rank: int) -> Dict[str, torch.Tensor]:
        return self.files[rank].views

    # Returned arrays, brought together.

    def joined_rows(self, name: str) -> torch.Tensor:
        """Returns [rows] of an output by own rows, of the first TP and DP rank."""
        whole = torch.full((self.rows,), float("nan"))
        for cp_rank in range(self.cp):
            whole[self.own_rows(cp_rank)] = self.views(cp_rank * self.tp)[name]
        return whole

    def joined_gradient(self) -> torch.Tensor:
        """Returns [rows, V] of grad.logits over TP and CP."""
        whole = torch.full((self.rows, self.vocab), float("nan"), dtype=torch.float64)
        for cp_rank in range(self.cp):
            for tp_rank in range(self.tp):
                begin, end = self.columns(tp_rank)
                part = self.views(cp_rank * self.tp + tp_rank)["grad.logits"]
                rows = torch.tensor(self.own_rows(cp_rank), dtype=torch.int64)
                whole[rows[:, None], torch.arange(begin, end)[None, :]] = \
                    part[:, :end - begin].double()
        return whole

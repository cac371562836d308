# SPDX-License-Identifier: Apache-2.0
"""A bundle (README.md, Bring your own batch) as a cross entropy of other libraries takes it.

Read without PyTorch: header, rules and targets. Large tensors become PyTorch's on demand, straight
from the mapped file.
"""

import array
import json
import math
import mmap
import os
import struct

IGNORED = -100  # what every peer takes for "no target"
HEADER_LIMIT = 100_000_000
ELEMENT_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "I64": 8, "I32": 4}
TYPE_CODES = {"F32": "f", "I32": "i", "I64": "q"}
DTYPES = {"F32": "f32", "BF16": "bf16"}


class BadInput(Exception):
    """One line that names the thing and the rule."""


class Bundle:
    """One batch: `tokens` rows, of which `valid_tokens` have a target.

    targets[t] is the id that row t predicts, or IGNORED; `cu_seqlens` as in the file. `hidden` is
    0 where the bundle holds logits. `case_text` is that of `lossgrid export`, or names the file.
    """

    def __init__(self, path):
        self.path = path
        self.name = os.path.splitext(os.path.basename(path))[0]
        self._read_header()
        self._read_objective()
        self._read_shapes()
        self._read_targets()
        self.case_text = self._metadata.get("case") or f"bundle {self.name}"

    def has(self, name):
        return name in self._entries

    def tensor(self, torch, name, device):
        """Tensor `name` in its own dtype."""
        entry = self._entries[name]
        kinds = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16}
        shape = entry["shape"]
        if math.prod(shape) == 0:
            return torch.zeros(shape, dtype=kinds[entry["dtype"]], device=device)
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(self._bytes, dtype=torch.uint8, count=end - begin,
                                offset=self._data + begin)
        # A copy, even on the processor: aligned, and what writes to it leaves the file alone.
        return flat.clone().to(device).view(kinds[entry["dtype"]]).view(shape)

    def place(self, row):
        """(sequence, offset in it) of a row."""
        sequence = max(k for k, begin in enumerate(self.cu_seqlens[:-1]) if begin <= row)
        return sequence, row - self.cu_seqlens[sequence]

    def _refuse(self, message):
        raise BadInput(f"{self.path}: {message}")

    def _read_header(self):
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < 8:
                    self._refuse(f"{size} bytes are no safetensors file")
                # Private: PyTorch wants memory that may be written to.
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except OSError as error:
            self._refuse(error.strerror)
        (length,) = struct.unpack("<Q", self._bytes[:8])
        if length > min(size - 8, HEADER_LIMIT):
            self._refuse(f"a header of {length} bytes, the file has {size}")
        self._data = 8 + length
        try:
            entries = json.loads(self._bytes[8:self._data])
            self._metadata = entries.pop("__metadata__", {})
            for name, entry in entries.items():
                begin, end = entry["data_offsets"]
                wanted = math.prod(entry["shape"]) * ELEMENT_BYTES[entry["dtype"]]
                if begin < 0 or end - begin != wanted or end > size - self._data:
                    self._refuse(f"tensor {name}: bytes {begin} to {end} do not hold "
                                 f"{entry['dtype']} {entry['shape']}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._refuse(f"its header is none of safetensors ({error!r})")
        self._entries = entries
        if self._metadata.get("format") != "lossgrid.bundle/1":
            self._refuse("__metadata__.format is not 'lossgrid.bundle/1'")

    def _read_objective(self):
        try:
            objective = json.loads(self._metadata.get("objective", ""))
        except ValueError:
            objective = None
        if objective not in ({"kind": "nll"}, {"kind": "nll", "token_level_loss": True}):
            self._refuse("the objective is not nll over tokens, which is all that peers compute")

    def _shape(self, name, dtypes, axes):
        if name not in self._entries:
            self._refuse(f"tensor {name} is missing")
        entry = self._entries[name]
        if entry["dtype"] not in dtypes or len(entry["shape"]) != axes:
            self._refuse(f"tensor {name}: {entry['dtype']} with {len(entry['shape'])} axes, must "
                         f"be {' or '.join(dtypes)} with {axes}")
        return entry["shape"]

    def _read_shapes(self):
        (self.tokens,) = self._shape("input_ids", ("I32", "I64"), 1)
        if self.has("logits"):
            rows, self.vocab = self._shape("logits", DTYPES, 2)
            self.hidden = 0
            self.dtype = DTYPES[self._entries["logits"]["dtype"]]
        else:
            rows, self.hidden = self._shape("hidden", DTYPES, 2)
            self.vocab, size = self._shape("weight", DTYPES, 2)
            if size != self.hidden:
                self._refuse(f"tensor weight: {size} columns, hidden has {self.hidden}")
            kinds = {self._entries[name]["dtype"] for name in ("hidden", "weight")}
            self.dtype = "bf16" if kinds == {"BF16"} else "f32"
        if rows != self.tokens:
            self._refuse(f"{rows} rows for {self.tokens} input_ids")

    def _numbers(self, name):
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        numbers = array.array(TYPE_CODES[entry["dtype"]])
        numbers.frombytes(self._bytes[self._data + begin:self._data + end])
        return numbers.tolist()

    def _read_targets(self):
        self._shape("cu_seqlens", ("I32",), 1)
        self._shape("token_mask", ("F32",), 1)
        cu = self.cu_seqlens = self._numbers("cu_seqlens")
        if not cu or cu[0] != 0 or cu[-1] != self.tokens or sorted(cu) != cu:
            self._refuse(f"cu_seqlens must rise from 0 to {self.tokens}")
        ids, mask = self._numbers("input_ids"), self._numbers("token_mask")
        if any(not 0 <= one < self.vocab for one in ids):
            self._refuse(f"input_ids must lie in [0, {self.vocab})")
        sample_mask = [1.0] * (len(cu) - 1)
        if self.has("sample_mask"):
            self._shape("sample_mask", ("F32",), 1)
            sample_mask = self._numbers("sample_mask")
        if len(mask) != self.tokens or len(sample_mask) != len(cu) - 1:
            self._refuse("token_mask or sample_mask has another length than the batch")
        self.targets = [IGNORED] * self.tokens
        for sequence, (begin, end) in enumerate(zip(cu, cu[1:])):
            for row in range(begin, end - 1):
                if mask[row + 1] and sample_mask[sequence]:
                    self.targets[row] = ids[row + 1]
        self.valid_tokens = sum(target != IGNORED for target in self.targets)
        if self.valid_tokens == 0:
            self._refuse("no token is trained on: peers have no mean of nothing")
        whole = self._metadata.get("global_valid_toks", str(self.valid_tokens))
        if whole != str(self.valid_tokens):
            self._refuse(f"global_valid_toks = {whole}, and peers divide by the "
                         f"{self.valid_tokens} tokens of the batch")

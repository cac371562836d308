# SPDX-License-Identifier: Apache-2.0
"""Checks peers on a bundle and times those that are right, beside what the device reaches."""

import glob
import time

from peers.losses import one_line
from peers.sampling import Rule, take_samples
from peers.truth import Truth

BYTES = {"f32": 4, "bf16": 2}


class Device:
    """"cpu" or "cuda": its clock and its caches."""

    def __init__(self, torch, name):
        self.torch, self.name = torch, name
        self._walked = None
        if name == "cuda":
            self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def synchronise(self):
        if self.name == "cuda":
            self.torch.cuda.synchronize()

    def time_call(self, call):
        """ns; on a GPU between two events around what the call launches."""
        if self.name == "cpu":
            start = time.perf_counter_ns()
            call()
            return time.perf_counter_ns() - start
        self.synchronise()
        self._begin.record()
        call()
        self._end.record()
        self.synchronise()
        return round(self._begin.elapsed_time(self._end) * 1e6)

    def last_level_cache_bytes(self):
        if self.name == "cuda":
            properties = self.torch.cuda.get_device_properties(0)
            return getattr(properties, "L2_cache_size", 64 << 20)
        largest = 0
        for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
            units = {"K": 1 << 10, "M": 1 << 20}
            largest = max(largest, int(text.rstrip("KM")) * units.get(text[-1:], 1))
        return largest or 32 << 20

    def empty_cache(self):
        """Reads a quarter more than the last-level cache holds."""
        if self._walked is None:
            words = self.last_level_cache_bytes() * 5 // 16
            self._walked = self.torch.ones(words, device=self.name)
        self._walked.sum()

    def memory_of(self, call):
        """Bytes beyond what was there before, at the peak of a call; None on the processor."""
        if self.name == "cpu":
            call()
            return None
        self.synchronise()
        before = self.torch.cuda.memory_allocated()
        self.torch.cuda.reset_peak_memory_stats()
        call()
        self.synchronise()
        return self.torch.cuda.max_memory_allocated() - before


class PeerItem:
    """forward, backward, then both once more; of a peer in one pass both alone."""

    def __init__(self, peer, loss, case):
        self.peer, self._loss, self._case, self._cold = peer, loss, case, False
        self.phases = ("forward_backward",) if peer.one_pass else (
            "forward", "backward", "forward_backward")
        self.steps = len(self.phases)
        self.wrong = ""  # of the last round
        self._value = self._gradients = None

    def begin_timing(self, cold):
        self._cold, self.wrong = cold, ""

    def prepare(self, step):
        if self.phases[step] != "backward":
            self._value = self._gradients = None
        if self.peer.writes_logits and self._case.source is not None:
            with self._case.torch.no_grad():
                self._case.inputs["logits"].copy_(self._case.source)
        if self._cold:
            self._case.device.empty_cache()
            self._case.device.synchronise()

    def run(self, step):
        if self.phases[step] != "backward":
            self._value = self._loss(self._case.inputs, self._case.targets)
        if self.phases[step] != "forward":
            self._gradients = self._case.torch.autograd.grad(
                self._value, list(self._case.inputs.values()))

    def finish(self, step):
        if self.phases[step] == "forward":
            return
        checks = self.checks()
        self.wrong = self.wrong or why_wrong(checks)

    def checks(self):
        """Of the outputs that are there."""
        truth, rounds = self._case.truth, self.peer.rounds_logits
        return truth.check_loss(self._value, rounds) + truth.check_gradients(
            dict(zip(self._case.inputs, self._gradients)), rounds,
            self.peer.chunk_adds(self._case.bundle))

    def run_once(self):
        """All of it, untimed: (checks, peak bytes or None)."""
        last = self.steps - 1
        self.prepare(last)
        peak = self._case.device.memory_of(lambda: self.run(last))
        checks = self.checks()
        self._value = self._gradients = None
        return checks, peak


class CeilingItem:
    steps = 1

    def __init__(self, name, run, moved_bytes=0, flops=0):
        self.name, self._run, self.bytes, self.flops = name, run, moved_bytes, flops

    def prepare(self, _):
        pass

    def run(self, _):
        self._run()

    def finish(self, _):
        pass


def why_wrong(checks):
    return "; ".join(
        f"{check['name']}: ratio " + ("inf" if check["ratio"] is None else f"{check['ratio']:.3g}")
        for check in checks if not check["passed"])


class Case:
    """A bundle on a device: inputs, targets and truth."""

    def __init__(self, device, bundle):
        torch = self.torch = device.torch
        self.device, self.bundle = device, bundle
        names = ("hidden", "weight") if bundle.hidden else ("logits",)
        kind = torch.bfloat16 if bundle.dtype == "bf16" else torch.float32
        given = {name: bundle.tensor(torch, name, device.name).to(kind) for name in names}
        # Of logits a copy, which some peers write over.
        self.source = given.get("logits")
        self.inputs = {name: (tensor.clone() if name == "logits" else tensor.detach())
                       .requires_grad_() for name, tensor in given.items()}
        self.targets = torch.tensor(bundle.targets, device=device.name)
        with torch.no_grad():
            self.truth = Truth(torch, bundle, given, device.name)

    def ceilings(self):
        torch, bundle = self.torch, self.bundle
        if bundle.hidden:
            return self._product_ceilings()
        size = self.source.numel() * self.source.element_size()
        words = torch.ones(size // 4 + 1, device=self.device.name)
        other, total = torch.ones_like(words), torch.ones((), device=self.device.name)
        return [CeilingItem("read", lambda: torch.sum(words, 0, out=total), size),
                CeilingItem("copy", lambda: other.copy_(words), 2 * size),
                CeilingItem("update", lambda: words.mul_(-1.0), 2 * size)]

    def _product_ceilings(self):
        """The three products on as many rows as make a quarter of a GiB of logits."""
        torch, bundle = self.torch, self.bundle
        rows = max(1, min(bundle.tokens, (1 << 28) // (bundle.vocab * BYTES[bundle.dtype])))
        hidden, weight = (self.inputs[name].detach() for name in ("hidden", "weight"))
        hidden = hidden[:rows]
        logits = hidden @ weight.T
        flops = 2 * rows * bundle.hidden * bundle.vocab
        outs = [torch.empty_like(logits), torch.empty_like(hidden), torch.empty_like(weight)]
        products = (("gemm_logits", lambda: torch.mm(hidden, weight.T, out=outs[0])),
                    ("gemm_hidden", lambda: torch.mm(logits, weight, out=outs[1])),
                    ("gemm_weight", lambda: torch.mm(logits.T, hidden, out=outs[2])))
        return [CeilingItem(name, run, flops=flops) for name, run in products]


def try_peer(peer, case):
    """("passed", item, checks, peak) or (status, reason, checks, None)."""
    torch = case.torch
    try:
        item = PeerItem(peer, peer.make(torch, case.bundle), case)
        checks, peak = item.run_once()
    except torch.cuda.OutOfMemoryError as error:
        return "out_of_memory", one_line(error), [], None
    except Exception as error:  # of any library
        return "error", one_line(error), [], None
    wrong = why_wrong(checks)
    return ("failed", wrong, checks, None) if wrong else ("passed", item, checks, peak)


def time_case(case, items, rule: Rule, cold):
    """Samples of the items and of the ceilings, taken in the same rounds."""
    ceilings = case.ceilings()
    for item in items:
        item.begin_timing(cold)
    return ceilings, take_samples(items + ceilings, rule, case.device.time_call)

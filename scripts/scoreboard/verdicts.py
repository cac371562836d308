# SPDX-License-Identifier: Apache-2.0
"""The verdict on a trial of a foreign loss: right, less precise, wrong, raises or unsupported.

A trial is right if it passed. One that failed is less precise where everything that failed is off by
less than a tenth: the loss relative to its value; log-probabilities, entropies and metrics relative to
theirs, or to one nat where that is more; a gradient of hidden states or weight by its relative L2 error
and its scale; a gradient of logits by its scale and its worst element relative to 1 / (number of
trained tokens), the most that one token of a mean has. Otherwise it is wrong.
"""

from dataclasses import dataclass

LESS_PRECISE_BELOW = 0.1
_ORDER = ("unsupported", "right", "less precise", "wrong", "raises")
# Invariants that rounding breaks; any other one is broken by an error.
_OF_ROUNDING = {"gradient_rows_sum_to_zero"}


@dataclass(frozen=True)
class Verdict:
    """kind is one of _ORDER, factor the worst error over its bound, text the worst element or the
    reason."""

    kind: str
    factor: float = 0.0
    text: str = ""
    reproduce: str = ""

    def rank(self):
        return (_ORDER.index(self.kind), self.factor)


def _relative_error(check, trial):
    """Returns the error of a failed check relative to the scale of what it is about."""
    name, worst = check["name"], check["worst"] or {}
    got, want = worst.get("got"), worst.get("want")
    if got is None or want is None or check["ratio"] is None:
        return float("inf")
    for gradient, scale in trial["gradient_scale"].items():
        if not name.startswith(gradient):
            continue
        off = abs(scale - 1)
        if gradient in trial["relative_l2"]:
            return max(off, trial["relative_l2"][gradient])
        if name == gradient:
            return max(off, abs(got - want) * max(1, trial["batch"]["valid_tokens"]))
        return off
    if name.startswith(("logprobs", "entropy", "metric.")):
        return abs(got - want) / max(1, abs(want))
    return abs(got - want) / max(abs(want), 1e-30)


def _element(check):
    worst = check["worst"] or {}
    places = [f"{word} {worst[key]}" for key, word in
              (("rank", "rank"), ("sequence", "sequence"), ("token", "token"), ("vocab_id", "id"))
              if worst.get(key) is not None]
    got, want = ("not finite" if worst.get(key) is None else f"{worst[key]:.6g}"
                 for key in ("got", "want"))
    return f"{check['name']} at {', '.join(places)}: got {got}, want {want}"


def verdict_of(trial):
    """Returns the verdict on an expanded trial (lossgrid.testing.reports.expanded)."""
    status, line = trial["status"], trial.get("reproduce", "")
    if status == "passed":
        return Verdict("right")
    if status in ("skipped", "not_run"):
        return Verdict("unsupported", text=trial.get("reason", ""))
    if status != "failed":
        return Verdict("raises", text=trial.get("reason", ""), reproduce=line)
    failed = [check for check in trial["checks"] if not check["passed"]]
    broken = [one for one in trial["invariants"] if one.get("status") == "failed"]
    if not failed and not broken and trial.get("reason", "").startswith("skipped"):
        return Verdict("unsupported", text=trial["reason"])
    if not failed:
        return Verdict("wrong", float("inf"), trial.get("reason", ""), line)
    factor = max(float("inf") if check["ratio"] is None else check["ratio"] for check in failed)
    worst = max(failed, key=lambda check: (_relative_error(check, trial), check["ratio"] or 0))
    small = _relative_error(worst, trial) < LESS_PRECISE_BELOW and \
        all(one["name"] in _OF_ROUNDING for one in broken)
    return Verdict("less precise" if small else "wrong", factor, _element(worst), line)

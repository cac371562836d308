# SPDX-License-Identifier: Apache-2.0
"""The timing protocol of harness/measure/, for one rank: rounds in which everything runs once in a
random order, warm-up rounds that are not kept, no sample dropped, and the same rule to end."""

import math
import random
import time
from dataclasses import dataclass

FEWEST_DISTINCT = 10
WARM_UP_NS = 20_000_000


def quantile(samples, p):
    """By linear interpolation between the two nearest samples (Hyndman and Fan's definition 7)."""
    ordered = sorted(samples)
    place = (len(ordered) - 1) * p
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(samples):
    return quantile(samples, 0.5)


def stderr_ratio_of_median(samples):
    """Standard error of the median / median, from two order statistics (McKean and Schrader)."""
    if len(samples) < 2:
        return math.inf
    z = 2.5758293035489004
    ordered = sorted(samples)
    n = len(ordered)
    k = max(1, math.floor((n + 1) / 2 - z * math.sqrt(n / 4) + 0.5))
    return (ordered[n - k] - ordered[k - 1]) / (2 * z) / median(ordered)


@dataclass
class Rule:
    """When enough was measured."""
    min_samples: int = 10
    max_seconds: float = 30.0
    target_stderr: float = 0.01
    max_samples: int = 1000
    order_seed: int = 1


@dataclass
class Samples:
    by_item: list          # [items][steps][rounds], ns
    warm_up_rounds: int
    rounds: int
    stopped_by: str        # "target", "time_budget", "most_samples"


def take_samples(items, rule, time_call, clock_ns=time.perf_counter_ns):
    """Items have `steps` (how many) and prepare(step), run(step), finish(step): before, in and
    after the timed part; finish only in the last round. `time_call` calls a function, returns ns.
    """
    order_of_round = random.Random(rule.order_seed)

    def run_round(last):
        taken = [[0] * item.steps for item in items]
        for k in order_of_round.sample(range(len(items)), len(items)):
            for step in range(items[k].steps):
                items[k].prepare(step)
                taken[k][step] = max(1, time_call(lambda: items[k].run(step)))
                if last:
                    items[k].finish(step)
        return taken

    warm_up_rounds = 0
    start = clock_ns()
    while warm_up_rounds == 0 or clock_ns() - start < WARM_UP_NS:
        run_round(last=False)
        warm_up_rounds += 1

    samples = Samples([[[] for _ in range(item.steps)] for item in items], warm_up_rounds, 0, "")
    start = clock_ns()
    while True:
        last = samples.stopped_by != ""
        for kept, taken in zip(samples.by_item, run_round(last)):
            for column, ns in zip(kept, taken):
                column.append(ns)
        samples.rounds += 1
        if last:
            return samples
        known = all(stderr_ratio_of_median(column) <= rule.target_stderr
                    for item in samples.by_item for column in item)
        if samples.rounds + 1 >= rule.min_samples and known:
            samples.stopped_by = "target"
        elif clock_ns() - start >= rule.max_seconds * 1e9:
            samples.stopped_by = "time_budget"
        elif samples.rounds + 1 >= rule.max_samples:
            samples.stopped_by = "most_samples"

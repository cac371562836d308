# SPDX-License-Identifier: Apache-2.0
"""The table of a run by folder, and its survivors, in Markdown."""

import collections
import os

NOTICED = ("killed", "timeout")
HEADER = ("| folder | mutants | killed | survived | score | equivalent | not compiled |\n"
          "|---|---|---|---|---|---|---|\n")


def score_percent(counts):
    noticed = sum(counts[verdict] for verdict in NOTICED)
    judged = noticed + counts["survived"]
    return f"{100 * noticed / judged:.0f} %" if judged else "-"


def table(results):
    """Returns the table by folder; equivalent mutants and those that do not compile are no part of the
    score, killed / (killed + survived)."""
    folders = collections.defaultdict(collections.Counter)
    for result in results:
        for name in (os.path.dirname(result["file"]), "all"):
            folders[name][result["verdict"]] += 1
    text = HEADER
    for name in sorted(folders, key=lambda name: (name == "all", name)):
        counts = folders[name]
        text += (f"| {'**all**' if name == 'all' else f'`{name}`'} | {counts.total()} "
                 f"| {sum(counts[verdict] for verdict in NOTICED)} | {counts['survived']} "
                 f"| {score_percent(counts)} | {counts['equivalent']} | {counts['does_not_compile']} |\n")
    return text


def programs(results):
    """Returns a line with the number of mutants that each program killed, run in the order of targets.json."""
    counts = collections.Counter(result["program"] for result in results if result["verdict"] in NOTICED)
    return "killed by " + ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) + "\n"


def survivors(results):
    text = ""
    for result in results:
        if result["verdict"] == "survived":
            text += (f"{result['file']}:{result['line']}\n- {result['old']}\n+ {result['new']}\n")
    return text

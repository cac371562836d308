# SPDX-License-Identifier: Apache-2.0
"""The sample of mutants: one for each drawn line, by universalmutator with the rules beside."""

import contextlib
import dataclasses
import fnmatch
import io
import os
import random
import sys


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str  # from the root of the repository
    line: int  # from 1
    old: str
    new: str
    rule: str


def chosen_files(root, patterns):
    """Returns the files that match a pattern and none of those with a leading `!`."""
    found = []
    for folder, _, names in os.walk(root):
        paths = [os.path.relpath(os.path.join(folder, name), root) for name in names]
        found += [path for path in paths if _is_chosen(path, patterns)]
    return sorted(found)


def _is_chosen(path, patterns):
    is_in = False
    for pattern in patterns:  # the last one that matches decides
        if fnmatch.fnmatchcase(path, pattern.removeprefix("!")):
            is_in = not pattern.startswith("!")
    return is_in


def all_mutants(root, files, rules):
    """Returns the mutants of every line that has some: {(file, line): [Mutant]}."""
    from universalmutator import mutator  # of the venv that scripts/setup makes

    by_line = {}
    for path in files:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            source = file.readlines()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            made = mutator.mutants_regexp(source, ruleFiles=[rules], ignorePatterns=[],
                                          ignoreStringOnly=True)
        if "COULD NOT" in printed.getvalue() or "WARNING" in printed.getvalue():
            sys.exit(f"mutate: universalmutator: {printed.getvalue()}")
        for line, new, rule, _ in made:
            mutant = Mutant(path, line, source[line - 1].strip(), new.strip(), rule[0])
            if mutant.new != mutant.old:
                by_line.setdefault((path, line), []).append(mutant)
    return by_line


def drawn(by_line, number, seed):
    """Returns `number` mutants, at most one of a line. A longer sample of the same seed opens with a
    shorter one."""
    random_order = random.Random(seed)
    lines = sorted(by_line)
    random_order.shuffle(lines)
    return [random_order.choice(by_line[line]) for line in lines][:number]

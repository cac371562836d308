# SPDX-License-Identifier: Apache-2.0
"""The verdict on one mutant: programs run one after the other until one of them notices it."""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time

from .building import DoesNotCompile, same_content

# Lines by which programs name what noticed a mutant: a trial of lossgrid, a test of GoogleTest.
NOTICED = re.compile(r"^(?:failed|error|timeout|crashed|out of memory): (.+)$|^\[  FAILED  \] ([^\s,]+)",
                     re.MULTILINE)
MEMORY_BYTES = 8 << 30  # of a mutant that allocates without an end


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def read_suite(path):
    """Returns a suite with the cases and skips of the parts that join it (harness/problem/case/suite.h)."""
    suite = read_json(path)
    if "parts" not in suite:
        return suite
    folder = os.path.join(os.path.dirname(path), suite.pop("parts"))
    files = sorted(os.path.join(at, "cases.json") for at, _, names in os.walk(folder) if "cases.json" in names)
    for part in map(read_json, files):
        if part["joins"] == suite["name"]:
            suite["cases"] += part["cases"]
            suite["skips"] = suite.get("skips", []) + part.get("skips", [])
    return suite


class Step:
    """A program with its arguments, or `lossgrid run` on a suite. `first_for` is a pattern of files for
    which it runs before others."""

    def __init__(self, program, arguments="", suite="", first_for=""):
        self.program = program
        self.arguments = shlex.split(arguments)
        self.suite = suite  # path in the repository
        self.first_for = first_for
        self.seconds = 0.0  # of the original program

    def name(self):
        return " ".join(filter(None, [self.program, *self.arguments, self.suite]))

    def arguments_for(self, only, source, folder):
        """Returns the arguments for a file that only some trials reach, None where none of them do."""
        if not self.suite:
            return self.arguments
        suite = read_suite(os.path.join(source, self.suite))
        suite["implementations"] = [name for name in suite["implementations"]
                                    if re.match(only.get("implementations", ""), name)]
        suite["cases"] = [case for case in suite["cases"]
                          if re.match(only.get("objective", ""), case.get("objective", {"kind": "nll"})["kind"])]
        if not suite["implementations"] or not suite["cases"]:
            return None
        path = os.path.join(folder, os.path.basename(self.suite))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(suite, file)
        return [*self.arguments, "--suite", path]


class Target:
    """Files to mutate, and the steps of which one has to notice."""

    def __init__(self, files, steps, only=(), least_deadline_s=60):
        self.least_deadline_s = least_deadline_s
        self.files = files
        self.steps = [Step(**step) for step in steps]
        self._only = only

    def only(self, path):
        """Returns what reaches a file: patterns of implementations and objectives."""
        return next((only for only in self._only if re.match(only["file"], path)), {})


def run_step(path, arguments, folder, deadline):
    """Returns what noticed the mutant, "timeout" beyond `deadline` seconds; "" if nothing did."""
    environment = {**os.environ, "GTEST_FAIL_FAST": "1", "GTEST_BRIEF": "1", "GOMP_SPINCOUNT": "1000"}
    with open(os.path.join(folder, "output"), "w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen([path, *arguments], cwd=folder, env=environment, stdout=output,
                                   stderr=output, stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=_limit_memory)
        try:
            status = process.wait(deadline)
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            _end_group(process)
        output.seek(0)
        found = NOTICED.search(output.read())
    if status == 0:
        return ""
    return next(text for text in found.groups() if text) if found else f"exit status {status}"


def _limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_group(process):
    """Ends the process and those that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def judge(mutant, build, target, folder):
    """Returns the result of a mutant. `folder` belongs to this worker."""
    began = time.monotonic()
    result = {"file": mutant.file, "line": mutant.line, "old": mutant.old, "new": mutant.new,
              "rule": mutant.rule, "by": "", "program": ""}
    try:
        result.update(_verdict(mutant, build, target, folder))
    except DoesNotCompile as error:
        result.update(verdict="does_not_compile", by=str(error)[:200])
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def _verdict(mutant, build, target, folder):
    overlay = os.path.join(folder, "overlay")
    shutil.rmtree(overlay, ignore_errors=True)
    _write(mutant, build.source, overlay)
    made = {}  # {unit: object}; the units of a step are compiled when its turn comes, a header's are many
    differing = {}
    for step in sorted(target.steps, key=lambda step: not _is_first(step, mutant.file)):
        arguments = step.arguments_for(target.only(mutant.file), build.source, folder)
        if arguments is None:
            continue
        for unit in build.units_of[mutant.file]:
            if unit in build.linked[step.program] and unit not in made:
                made[unit] = os.path.join(folder, "objects", unit)
                build.compile(unit, overlay, made[unit])
                if not same_content(made[unit], build.original(unit)):
                    differing[unit] = made[unit]
        program = os.path.join(folder, os.path.basename(step.program))
        if not build.link(step.program, differing, program):
            continue
        noticed = run_step(program, arguments, folder, target.least_deadline_s + 10 * step.seconds)
        if noticed:
            return {"verdict": "timeout" if noticed == "timeout" else "killed", "by": noticed,
                    "program": step.program}
    return {"verdict": "survived" if differing else "equivalent"}


def _is_first(step, path):
    return bool(step.first_for) and re.search(step.first_for, path) is not None


def _write(mutant, source, overlay):
    """Writes the file with the mutated line, in its place below `overlay`."""
    with open(os.path.join(source, mutant.file), encoding="utf-8") as file:
        lines = file.readlines()
    line = lines[mutant.line - 1]
    lines[mutant.line - 1] = line[:len(line) - len(line.lstrip())] + mutant.new + "\n"
    path = os.path.join(overlay, mutant.file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)

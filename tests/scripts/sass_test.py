#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the machine code of the kernels of plain rows on sm_90a: sass_test.py OBJECT, the object
file of cuda_rows.cu. None keeps registers in memory, and the loop over a row asks for its four vectors
before it computes anything and has few instructions an element: at the rate at which memory gives
bfloat16 logits, a multiprocessor of an H200 can issue about 15 of them (an estimate, not measured).
Exit status: 0, 1, 77 no cuobjdump (of a CUDA toolkit or of Triton in the environment of the tests)."""

import glob
import os
import re
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
OF_TRITON = os.path.join(ROOT, "build/venv/lib/python3*/site-packages/triton/backends/nvidia/bin/cuobjdump")
# By kernel and dtype: elements of a turn of a thread, and the most instructions an element.
LIMITS = {("StatisticsKernelIfLb0E", 16): 7.5, ("StatisticsKernelINS_4bf16ELb0E", 32): 8.0,
          ("GradientKernelIfE", 16): 6.0, ("GradientKernelINS_4bf16EE", 32): 7.0}


def cuobjdump():
    found = [shutil.which("cuobjdump"), *glob.glob(OF_TRITON)]
    return next(filter(None, found), None)


def kernels_of(text):
    """Returns by function its instructions as (address, operation, operands)."""
    kernels = {}
    for line in text.splitlines():
        begun = re.match(r"\s*Function : (\S+)", line)
        if begun:
            instructions = kernels.setdefault(begun[1], [])
            continue
        found = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+ )?(\S+)\s*(.*?);", line)
        if found and kernels:
            instructions.append((int(found[1], 16), found[2], found[3]))
    return kernels


def turn_of(instructions):
    """Returns the operations of the shortest loop that reads four vectors."""
    loops = []
    for address, operation, operands in instructions:
        target = re.search(r"0x([0-9a-f]+)$", operands.strip()) if operation.startswith("BRA") else None
        if not target or int(target[1], 16) >= address:
            continue
        body = [operation for at, operation, _ in instructions if int(target[1], 16) <= at <= address]
        if sum(map(is_vector_load, body)) == 4:
            loops.append(body)
    return min(loops, key=len)


def is_vector_load(operation):
    return operation.startswith("LDG") and ".128" in operation


class Sass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        printed = subprocess.run([cuobjdump(), "-sass", "-arch", "sm_90a", OBJECT], check=True,
                                 capture_output=True, text=True).stdout
        cls.kernels = kernels_of(printed)

    def turns(self):
        for (name, elements), limit in LIMITS.items():
            [kernel] = [kernel for kernel in self.kernels if f"{len(name.split('I')[0])}{name}" in kernel]
            yield name, turn_of(self.kernels[kernel]), elements, limit

    def test_none_keeps_registers_in_memory(self):
        plain = {kernel: instructions for kernel, instructions in self.kernels.items()
                 if re.search(r"\d(Statistics|Gradient|ForwardBackward)Kernel", kernel)}
        self.assertEqual(len(plain), 15)  # ForwardBackward for blocks and for clusters
        for kernel, instructions in plain.items():
            spills = [operation for _, operation, _ in instructions if operation.startswith(("STL", "LDL"))]
            self.assertEqual(spills, [], kernel)

    def test_the_vectors_of_a_turn_are_asked_for_before_anything_is_computed(self):
        for name, turn, _, _ in self.turns():
            with self.subTest(name):
                last = max(k for k, operation in enumerate(turn) if is_vector_load(operation))
                computed = [operation for operation in turn[:last] if operation.startswith(
                    ("MUFU", "FADD", "FMUL", "FFMA", "FMNMX", "STG"))]
                self.assertEqual(computed, [])

    def test_a_turn_has_few_instructions(self):
        for name, turn, elements, limit in self.turns():
            with self.subTest(name):
                self.assertLessEqual(len(turn) / elements, limit)


if __name__ == "__main__":
    if cuobjdump() is None:
        print("sass: skipped: no cuobjdump here")
        sys.exit(77)
    OBJECT = sys.argv[1]
    unittest.main(argv=sys.argv[:1])

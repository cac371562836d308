#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the machine code of kernels on sm_90a: sass_test.py ROWS [PRODUCTS], the object files of
cuda_rows.cu and, where there is CUTLASS, of cuda_products.cu. Kernels of plain rows keep no registers in
memory, and the loop over a row asks for its four vectors before it computes anything and has few
instructions an element: at the rate at which memory gives bfloat16 logits, a multiprocessor of an H200
can issue about 15 of them (an estimate, not measured). The product by tiles has its sums in registers.
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


def is_spill(operation):
    return operation.startswith(("STL", "LDL"))


def kernels_in(file):
    return kernels_of(subprocess.run([cuobjdump(), "-sass", "-arch", "sm_90a", file], check=True,
                                     capture_output=True, text=True).stdout)


class Rows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = kernels_in(OBJECTS[0])

    def turns(self):
        for (name, elements), limit in LIMITS.items():
            [kernel] = [kernel for kernel in self.kernels if f"{len(name.split('I')[0])}{name}" in kernel]
            yield name, turn_of(self.kernels[kernel]), elements, limit

    def test_none_keeps_registers_in_memory(self):
        plain = {kernel: instructions for kernel, instructions in self.kernels.items()
                 if re.search(r"\d(Statistics|Gradient|ForwardBackward)Kernel", kernel)}
        self.assertEqual(len(plain), 15)  # ForwardBackward for blocks and for clusters
        for kernel, instructions in plain.items():
            spills = [operation for _, operation, _ in instructions if is_spill(operation)]
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


class Products(unittest.TestCase):
    """One kernel, whose sums of 64 x 256 elements a warpgroup stay in registers until the exponentials."""

    def test_tiles_go_from_tensor_cores_to_exponentials_without_memory(self):
        if len(OBJECTS) < 2:
            self.skipTest("this build has no CUTLASS")
        [instructions] = kernels_in(OBJECTS[1]).values()
        operations = [operation for _, operation, _ in instructions]
        self.assertEqual([operation for operation in operations if is_spill(operation)], [])
        self.assertEqual([operation for operation in operations if operation.startswith("CALL")], [])
        products = [operation for operation in operations if operation.startswith("HGMMA.64x256x16.F32.BF16")]
        # A turn of 64 along the hidden size, without a first one that clears and in the loop.
        self.assertEqual(len(products), 8)
        self.assertTrue(any(operation.startswith("UTMALDG") for operation in operations))
        # 128 elements a thread, and four changes of a maximum for each of its two rows.
        exponentials = [operation for operation in operations if operation.startswith("MUFU.EX2")]
        self.assertEqual(len(exponentials), 128 + 2 * 4)
        # No logits: sums, maxima and targets alone.
        self.assertFalse([operation for operation in operations
                          if operation.startswith("STG") and (".64" in operation or ".128" in operation)])


if __name__ == "__main__":
    if cuobjdump() is None:
        print("sass: skipped: no cuobjdump here")
        sys.exit(77)
    OBJECTS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])

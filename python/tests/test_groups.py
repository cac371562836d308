# SPDX-License-Identifier: Apache-2.0
"""Ranks of grids, one world under several grids, and Megatron's parallel state."""
import os
import tempfile
import unittest

from lossgrid import shared_group
from lossgrid.groups import axis_ranks
from lossgrid.problem import Grid

import shared
from fake_host import PACKAGE, Host, HostError
from fake_problem import Case

# Groups of Megatron-core's parallel_state for ranks in the order tp-cp-dp.
FAKE_MEGATRON = """
import torch.distributed as dist
_GROUPS = None
made = []

def model_parallel_is_initialized():
    return _GROUPS is not None

def destroy_model_parallel():
    global _GROUPS
    _GROUPS = None

def initialize_model_parallel(tensor_model_parallel_size=1, context_parallel_size=1):
    global _GROUPS
    assert _GROUPS is None
    sizes = (tensor_model_parallel_size, context_parallel_size)
    assert sizes not in made, f"groups of {sizes} are made again"
    made.append(sizes)
    tp, cp, size = tensor_model_parallel_size, context_parallel_size, dist.get_world_size()
    axes = [(tp, 1), (cp, tp), (size // tp // cp, tp * cp)]
    _GROUPS = []
    for count, stride in axes:
        for first in range(size):
            if first // stride % count == 0:
                ranks = [first + stride * i for i in range(count)]
                group = dist.new_group(ranks)
                if dist.get_rank() in ranks:
                    _GROUPS.append(group)

def get_tensor_model_parallel_group():
    return _GROUPS[0]

def get_context_parallel_group():
    return _GROUPS[1]

def get_data_parallel_group():
    return _GROUPS[2]
"""


class Ranks(unittest.TestCase):
    def test_the_tp_rank_changes_fastest(self) -> None:
        grid = Grid(2, 2, 2)
        self.assertEqual(axis_ranks(grid, "tp"), [(0, 1), (2, 3), (4, 5), (6, 7)])
        self.assertEqual(axis_ranks(grid, "cp"), [(0, 2), (1, 3), (4, 6), (5, 7)])
        self.assertEqual(axis_ranks(grid, "dp"), [(0, 4), (1, 5), (2, 6), (3, 7)])

    def test_one_world_under_several_grids(self) -> None:
        world = shared.world(4)
        for grid in ((4, 1, 1), (1, 2, 2), (2, 1, 2), (4, 1, 1)):
            case = Case([9], 10, grid)
            case.begin(world, "vocab_parallel")
            world.ask("forward", grad=False, barrier=True)
            self.assertLess(float((case.joined_rows("out.logprobs") - case.truth()[0]).abs().max()),
                            1e-5)

    def test_a_grid_of_another_size(self) -> None:
        with self.assertRaisesRegex(HostError, "protocol: grid tp2cp2dp1 has 4 ranks, this world "
                                               "has 2"):
            world = shared.world(2)
            case = Case([9], 10, (2, 2, 1))
            case.begin(world, "plain")

    def test_groups_come_after_join(self) -> None:
        worker = shared.host().fork(0, 1)
        with self.assertRaisesRegex(HostError, "protocol: forward and backward come after begin"):
            worker.ask("forward")
        worker = shared.host().fork(1, 2)
        with self.assertRaisesRegex(HostError, "protocol: listen is for rank 0"):
            worker.ask("listen")


class Collectives(unittest.TestCase):
    def backend(self, word: str, **environment: str) -> str:
        host = Host(environment=environment)
        self.addCleanup(host.close)
        host.launcher.ask("load", version=1, collectives=word,
                          files=[os.path.join(shared.FOLDER, "collectives.py")])
        world = host.world(2)
        Case([9], 10, (2, 1, 1)).begin(world, "prints_backend")
        world.ask("forward", grad=False)
        return world.workers[0].printed().strip()

    @unittest.skipUnless(shared_group.available(), "shared memory needs Linux and a newer torch")
    def test_shared_memory_unless_another_is_named(self) -> None:
        for word, variable, wanted in (("", "", "shared"), ("gloo", "shared", "gloo")):
            with self.subTest(word=word, variable=variable):
                self.assertEqual(self.backend(word, LOSSGRID_COLLECTIVES=variable), wanted)

    def test_a_word_that_is_none(self) -> None:
        with self.assertRaisesRegex(HostError, "bad_input: LOSSGRID_COLLECTIVES is 'mpi', wanted "
                                               "one of auto, shared, gloo, nccl"):
            self.backend("mpi")


class Megatron(unittest.TestCase):
    def host(self, package: bool) -> Host:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        if package:
            core = os.path.join(folder.name, "megatron", "core")
            os.makedirs(core)
            for path, text in ((os.path.dirname(core), ""), (core, "")):
                with open(os.path.join(path, "__init__.py"), "w") as file:
                    file.write(text)
            with open(os.path.join(core, "parallel_state.py"), "w") as file:
                file.write(FAKE_MEGATRON)
        host = Host(environment={"PYTHONPATH": PACKAGE + os.pathsep + folder.name})
        self.addCleanup(host.close)
        host.load(os.path.join(shared.FOLDER, "views.py"))
        return host

    def test_the_same_ranks(self) -> None:
        world = self.host(True).world(4)
        for grid in ((2, 2, 1), (2, 1, 2), (2, 1, 2), (1, 4, 1), (2, 2, 1), (1, 4, 1)):
            for name in ("megatron_declared", "megatron_called"):
                case = Case([8], 10, grid)
                case.begin(world, name)
                world.ask("forward", grad=False)

    def test_not_installed(self) -> None:
        world = self.host(False).world(1)
        for name in ("megatron_declared", "megatron_called"):
            with self.assertRaises(HostError) as raised:
                Case([8], 10).begin(world, name)
                world.ask("forward", grad=False)
            self.assertEqual(raised.exception.kind, "bad_input")
            self.assertRegex(raised.exception.line, r"^/\S+ has no megatron.core: /\S+ -m pip "
                                                    r"install megatron-core$")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""User code that misbehaves, and processes that end."""
import os
import signal
import subprocess
import sys
import time
import unittest
from typing import List

import shared
from fake_host import PACKAGE, HostError, World
from fake_problem import Case


def _ended(pids: List[int], seconds: float = 5) -> bool:
    """True if all of ``pids`` are gone (or zombies of nobody) within ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(_runs(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class TeamWaits(unittest.TestCase):
    def waits(self, **given: str) -> str:
        """Returns the waits of OpenMP teams in a worker whose environment has ``given``."""
        names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
        kept = {name: text for name, text in os.environ.items() if name not in names}
        code = "import os, lossgrid.worker\n" \
            f"print(*[os.environ.get(name) for name in {names}])"
        return subprocess.run([sys.executable, "-c", code], check=True, text=True,
                              stdout=subprocess.PIPE, env={**kept, **given}).stdout.strip()

    def test_are_short(self) -> None:
        self.assertEqual(self.waits(), "None 1000 0")

    def test_of_the_user_stay(self) -> None:
        self.assertEqual(self.waits(OMP_WAIT_POLICY="active"), "active None None")
        self.assertEqual(self.waits(GOMP_SPINCOUNT="7"), "None 7 None")


class Misbehaviour(unittest.TestCase):
    def run_one(self, world: World, name: str, backward: bool = False, **request: object) -> Case:
        case = Case([5, 7], 11)
        case.begin(world, name, **request)
        world.ask("forward", grad=True)
        if backward:
            world.ask("backward")
        return case

    def failure(self, name: str, backward: bool = False) -> HostError:
        with self.assertRaises(HostError) as raised:
            self.run_one(shared.world(1), name, backward)
        self.assertNotIn("\n", raised.exception.line)
        return raised.exception

    def test_prints_are_kept_and_do_not_reach_the_protocol(self) -> None:
        world = shared.world(1)
        self.run_one(world, "prints")
        printed = world.workers[0].printed()
        for line in ("rank 0 of 1 prints\n", "raw bytes\n", "to stderr\n"):
            self.assertIn(line, printed)

    def test_an_exception_is_one_line_and_a_traceback(self) -> None:
        error = self.failure("raises")
        self.assertEqual(error.kind, "error")
        self.assertRegex(error.line, r"^ValueError: seven is not eight "
                                     r"\(misbehaves.py:\d+ in _inner\)$")
        self.assertIn("in raises\n", error.answer["traceback"])
        self.assertIn("ValueError: seven is\nnot eight", error.answer["traceback"])

    def test_the_place_is_that_in_the_users_file(self) -> None:
        self.assertRegex(self.failure("raises_in_torch").line,
                         r"^RuntimeError: .*\(misbehaves.py:\d+ in raises_in_torch\)$")
        self.assertRegex(self.failure("raises_in_library").line,
                         r"^JSONDecodeError: .*\(misbehaves.py:\d+ in raises_in_library\)$")
        self.assertRegex(self.failure("raises_backward", backward=True).line,
                         r"^KeyError: 'in the backward' \(misbehaves.py:\d+ in backward\)$")

    def test_the_next_trial_runs(self) -> None:
        self.failure("raises")
        self.run_one(shared.world(1), "plain", backward=True)

    def test_sys_exit_is_an_error(self) -> None:
        error = self.failure("sys_exit")
        self.assertEqual(error.kind, "error")
        self.assertIn("SystemExit: the code called exit(3)", error.line)

    def test_out_of_memory(self) -> None:
        self.assertEqual(self.failure("memory_error").kind, "out_of_memory")
        self.assertEqual(self.failure("out_of_memory").kind, "out_of_memory")

    def test_threads_of_a_rank(self) -> None:
        self.run_one(shared.world(1), "threads", threads=2)

    def test_requests_that_do_not_exist(self) -> None:
        for peer in (shared.host().launcher, shared.world(1).workers[0]):
            with self.assertRaises(HostError) as raised:
                peer.ask("dance")
            self.assertEqual(raised.exception.kind, "protocol")
        with self.assertRaises(HostError) as raised:
            shared.host().launcher.ask("load", version=99, files=[])
        self.assertIn("protocol version 99", raised.exception.line)

    def test_supports(self) -> None:
        def reason(name: str, tp: int) -> str:
            problem = Case([5], 11, (tp, 1, 1)).problem()
            return str(shared.host().launcher.ask("supports", implementation=name, options={},
                                                  problem=problem)["reason"])
        self.assertEqual(reason("plain", 2), "")
        self.assertEqual(reason("supports_tp1", 1), "")
        self.assertEqual(reason("supports_tp1", 2), "tp is not 1")
        self.assertEqual(reason("supports_bool", 1), "not supported")
        with self.assertRaisesRegex(HostError, "AttributeError.*vocabulary.*misbehaves.py"):
            reason("supports_raises", 1)
        with self.assertRaisesRegex(HostError, "bad_input: it returned 7, wanted the reason"):
            reason("supports_seven", 1)


class Endings(unittest.TestCase):
    def ends(self, name: str) -> dict:
        self.world = world = shared.host().world(1)
        case = Case([5], 11)
        case.begin(world, name)
        with self.assertRaises(EOFError):
            world.ask("forward", grad=True)
        return shared.host().wait(world.workers[0])

    def test_os_exit(self) -> None:
        self.assertEqual(self.ends("os_exit"), {"ok": True, "exit": 3})
        self.assertEqual(self.world.workers[0].printed(), "last words\n")

    def test_segfault(self) -> None:
        self.assertEqual(self.ends("segfault"), {"ok": True, "signal": signal.SIGSEGV})

    def test_a_worker_ends_with_its_socket(self) -> None:
        world = shared.host().world(2)
        for worker in world.workers:
            worker.close()
        self.assertTrue(_ended([worker.pid for worker in world.workers]))
        self.assertEqual(shared.host().wait(world.workers[0]), {"ok": True, "exit": 0})
        with self.assertRaisesRegex(HostError, "is no worker"):
            shared.host().launcher.ask("wait", pid=os.getpid())

    def test_a_hanging_worker_can_be_killed_and_the_other_one_sees_it(self) -> None:
        world = shared.host().world(2)
        case = Case([4], 11, (1, 2, 1))
        case.begin(world, "hangs_in_gloo")
        for worker in world.workers:
            worker.send("forward", grad=True)
        time.sleep(0.2)
        os.kill(world.workers[1].pid, signal.SIGKILL)
        with self.assertRaisesRegex(HostError, "hangs_in_gloo"):
            world.workers[0].receive()
        self.assertEqual(shared.host().wait(world.workers[1]), {"ok": True,
                                                                "signal": signal.SIGKILL})

    def test_interrupts_are_left_to_the_host(self) -> None:
        world = shared.host().world(1)
        os.kill(world.workers[0].pid, signal.SIGINT)
        os.kill(shared.host().process.pid, signal.SIGINT)
        case = Case([5], 11)
        case.begin(world, "plain")
        world.ask("forward", grad=True)
        shared.host().fork(0, 1).close()


class NoOrphans(unittest.TestCase):
    def test_kill_9_of_the_host_leaves_nothing(self) -> None:
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "host_that_hangs.py")
        host = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True,
                                env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.addCleanup(host.stdout.close)
        pids = [int(word) for word in host.stdout.readline().split()]
        self.assertEqual(len(pids), 3)
        self.assertTrue(all(_runs(pid) for pid in pids))
        host.kill()
        host.wait()
        self.assertTrue(_ended(pids), "processes are left")


if __name__ == "__main__":
    unittest.main()

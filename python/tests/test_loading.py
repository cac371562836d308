# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be loaded, interpreters without torch, launchers that cannot fork."""
import os
import tempfile
import textwrap
import unittest
from typing import Dict, Optional

from fake_host import PACKAGE, Host, HostError
from fake_problem import Case

FUNCTION = """
    import lossgrid, torch

    @lossgrid.implementation
    def {name}(logits, batch):
        '''First line.

        Second line.
        '''
        return torch.log_softmax(logits, 1).gather(1, batch.labels[:, None])[:, 0]
"""


class Loading(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.hosts: Dict[str, Host] = {}

    def file(self, name: str, text: str) -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(textwrap.dedent(text))
        return path

    def host(self, environment: Optional[Dict[str, str]] = None) -> Host:
        host = Host(environment=environment)
        self.addCleanup(host.close)
        return host

    def test_files_that_cannot_be_loaded(self) -> None:
        host = self.host()
        good = self.file("good.py", FUNCTION.format(name="mine"))
        cases = [
            (["nowhere.py"], r"^nowhere.py: no such file$"),
            ([self.file("a.py", "x = (\n")], r"a.py cannot be loaded: SyntaxError: .*\(a.py:1\)$"),
            ([self.file("b.py", "import os\nimport nowhere_at_all\n")],
             r"b.py cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all' "
             r"\(b.py:2\)$"),
            ([self.file("c.py", "import sys\nsys.exit(4)\n")],
             r"c.py cannot be loaded: SystemExit: the code called exit\(4\) \(c.py:2\)$"),
            ([self.file("d.py", "x = 1\n")],
             r"d.py has no function with @lossgrid.implementation or @lossgrid.engine$"),
            ([self.file("e.py", "import lossgrid\nlossgrid.megatron()\n")],
             r"e.py: lossgrid.megatron\(\) is called inside"),
            ([self.file("f.py", "import lossgrid\n@lossgrid.implementation(rows='mine')\n"
                                "def f(logits, batch): pass\n")],
             r"f.py: f: rows='mine' is not one of 'shard', 'pack', 'padded'$"),
            ([self.file("g.txt", "x = 1\n")], r"g.txt: not a Python file \(.py\)$"),
            ([good, self.file("other.py", FUNCTION.format(name="mine"))],
             r"two implementations are called 'mine': .*good.py:4 and .*other.py:4$"),
        ]
        for files, line in cases:
            with self.subTest(files=files):
                with self.assertRaises(HostError) as raised:
                    host.load(*files)
                self.assertEqual(raised.exception.kind, "bad_input")
                self.assertRegex(raised.exception.line, line)
        self.assertEqual(len(host.load(good)["implementations"]), 1)

    def test_the_answer_has_versions_and_declarations(self) -> None:
        self.file("beside.py", "value = 3\n")
        path = self.file("mine.py", "import beside\n" + textwrap.dedent(
            FUNCTION.format(name="mine")))
        answer = self.host().load(path)
        self.assertEqual(answer["version"], 1)
        self.assertEqual(answer["implementations"][0], {
            "name": "mine", "kind": "implementation", "summary": "First line.", "file": path,
            "inputs": "logits", "returns": ["logprobs"], "rows": "shard", "gradient": "own_part",
            "gradients": "replicated", "scale": "1", "autograd": "leaf", "vocab_split": "ceil", "overwrites": [],
            "rounds": [], "takes": [], "has_chunks": False, "sequence_multiple": 1, "pack_multiple": 1,
            "has_supports": False, "has_cost": False, "megatron": False, "options": {},
            "offers": {}, "details": {}})

    def test_no_torch(self) -> None:
        self.file("torch/__init__.py",
                  "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
        path = self.file("mine.py", FUNCTION.format(name="mine"))
        host = self.host({"PYTHONPATH": PACKAGE + os.pathsep + self.folder})
        with self.assertRaises(HostError) as raised:
            host.load(path)
        self.assertEqual(raised.exception.kind, "bad_input")
        self.assertRegex(raised.exception.line, r"^/.* has no torch: /.* -m pip install torch, or "
                                                r"name another interpreter with --python$")

    def test_a_file_that_starts_threads_is_loaded_by_each_worker(self) -> None:
        path = self.file("mine.py", FUNCTION.format(name="mine") + """
    import os, threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    loaded_by = os.getpid()

    @lossgrid.implementation
    def loaded_here(logits, batch):
        assert loaded_by == os.getpid(), "forked beside a thread"
        print("worker", batch.world.rank)
        return mine(logits, batch)
""")
        host = self.host()
        host.load(path)
        world = host.world(2)
        case = Case([5, 6], 11, (1, 2, 1))
        case.begin(world, "loaded_here")
        world.ask("forward", grad=True)
        world.ask("backward")
        self.assertIn("worker 1\n", world.workers[1].printed())

    def test_nothing_is_collected_while_torch_is_imported(self) -> None:
        self.file("torch/__init__.py", """
    import gc
    reason = "collects" if gc.isenabled() else "not now"
    raise ModuleNotFoundError(reason, name="torch" if reason == "not now" else "gc")
""")
        path = self.file("mine.py", FUNCTION.format(name="mine"))
        with self.assertRaises(HostError) as raised:
            self.host({"PYTHONPATH": f"{self.folder}:{PACKAGE}"}).load(path)
        self.assertIn(" has no torch: ", raised.exception.line)

    def test_garbage_of_user_code_is_collected(self) -> None:
        path = self.file("mine.py", FUNCTION.format(name="mine") + """
    import gc
    assert gc.isenabled()
""")
        self.host().load(path)

    def test_one_thread_unless_the_environment_has_more(self) -> None:
        path = self.file("mine.py", FUNCTION.format(name="mine") + """
    import os
    assert os.environ["OMP_NUM_THREADS"] == os.environ.get("WANTED", "1")
    assert torch.get_num_threads() == 1
""")
        self.host({"OMP_NUM_THREADS": "3", "WANTED": "3"}).load(path)


if __name__ == "__main__":
    unittest.main()

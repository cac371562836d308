# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for missing modules, the patch for code of a GPU, and what reports know of both."""
import abc
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import typing
import unittest
from types import ModuleType
from unittest import mock

import lossgrid
import torch
from lossgrid import provenance, stubs
from lossgrid.errors import BadInput


class Stubs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        known = set(sys.modules)
        self.addCleanup(lambda: [sys.modules.pop(name) for name in set(sys.modules) - known])
        for patch in (mock.patch.object(sys, "path", [self.folder, *sys.path]),
                      mock.patch.object(sys, "meta_path", list(sys.meta_path)),
                      mock.patch.object(stubs, "_finder", stubs._Finder()),
                      mock.patch.object(stubs, "_patched", [])):
            patch.start()
            self.addCleanup(patch.stop)

    def framework(self, text: str) -> ModuleType:
        """Returns a module of these lines."""
        with open(os.path.join(self.folder, "a_framework.py"), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        importlib.invalidate_caches()
        sys.modules.pop("a_framework", None)
        return importlib.import_module("a_framework")

    def test_only_missing_modules_are_replaced(self) -> None:
        self.assertEqual(stubs.install("ray_x", "json", "torch.fx"), ("ray_x",))
        self.assertEqual(stubs.installed(), ("ray_x",))
        self.assertIs(self.framework("import json").json, json)
        with self.assertRaises(ModuleNotFoundError):
            self.framework("import ray_xy")

    def test_a_submodule_of_an_installed_package(self) -> None:
        self.assertEqual(stubs.install("torch.no_such.part"), ("torch.no_such.part",))
        self.assertEqual(stubs.install("torch.no_such"), ("torch.no_such",))
        made = self.framework("import torch.no_such.part as part")
        self.assertEqual(made.part.__name__, "torch.no_such.part")

    def test_code_that_asks_learns_that_the_module_is_missing(self) -> None:
        stubs.install("ray_x")
        self.assertIsNone(importlib.util.find_spec("ray_x"))

    def test_while_modules_are_imported_a_stand_in_takes_part(self) -> None:
        stubs.install("ray_x")
        made = self.framework("""
            import abc
            from typing import Optional
            import ray_x, torch
            import ray_x.util.placement as placement
            from ray_x.actors import Actor, Pool
            @ray_x.remote
            def plain(): return 1
            @ray_x.remote(num_gpus=1)
            class Decorated: pass
            class Layer(Actor, torch.nn.Module): pass
            class Deeper(Layer, Actor): pass
            class Abstract(Pool, abc.ABC): pass
            class Typed:
                pool: Optional[Pool] = None
                other: "Pool" = None
            union = Pool | None
            listed = Pool[int]
            logger = ray_x.logging.get_logger("x")
            child = logger.child("y")
            is_there = bool(ray_x.is_there())
            answer = isinstance(3, Pool)
            with ray_x.scope():
                entered = True
            at_import = Layer()
            """)
        self.assertEqual(made.plain(), 1)
        self.assertEqual(made.Decorated.__name__, "Decorated")
        self.assertIsInstance(made.at_import, torch.nn.Module)
        self.assertTrue(issubclass(made.Deeper, made.Layer))
        self.assertIsInstance(made.Abstract, abc.ABCMeta)
        self.assertIs(made.union, typing.Any)
        self.assertFalse(made.is_there or made.answer)
        self.assertEqual(repr(made.child), "<stand-in ray_x.logging.get_logger.child>")

    def test_a_call_later_names_the_stand_in(self) -> None:
        stubs.install("ray_x")
        made = self.framework("""
            import ray_x
            class Actor(ray_x.Actor): pass
            def get(): return ray_x.util.get(3)
            def make(): return Actor()
            def decide(): return 1 if ray_x.flag else 2
            def decorate(): return ray_x.remote(get)
            """)
        for function, name in ((made.get, "ray_x.util.get"), (made.make, "ray_x.Actor"),
                               (made.decide, "ray_x.flag"), (made.decorate, "ray_x.remote")):
            with self.assertRaisesRegex(stubs.StubCalled, rf"^{name} was called, and ray_x is a "
                                        r"stand-in: install ray_x, or avoid what needs it"):
                function()

    def test_a_function_that_imports_when_it_runs_takes_its_other_way(self) -> None:
        stubs.install("ray_x")
        made = self.framework("""
            import ray_x.util
            def way():
                try:
                    from ray_x.kernels import fast
                    return fast
                except ImportError:
                    return "slow"
            """)
        self.assertEqual(made.way(), "slow")

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_no_cuda_leaves_tensors_where_they_are(self) -> None:
        for owner, name in ((torch.Tensor, "cuda"), (torch.Tensor, "pin_memory"),
                            (torch.nn.Module, "cuda"), (torch, "tensor"),
                            (torch, "zeros"), (torch.cuda, "current_device"), (torch.cuda, "synchronize")):
            patch = mock.patch.object(owner, name, getattr(owner, name))
            patch.start()
            self.addCleanup(patch.stop)
        stubs.no_cuda()
        stubs.no_cuda()
        tensor = torch.ones(2)
        self.assertIs(tensor.cuda(non_blocking=True), tensor)
        self.assertIs(tensor.pin_memory(), tensor)
        self.assertEqual(torch.tensor([1, 2], device="cpu", pin_memory=True).tolist(), [1, 2])
        self.assertEqual(torch.zeros([], dtype=torch.int, device="cuda").device.type, "cpu")
        self.assertEqual(torch.zeros(1, device=torch.cuda.current_device()).device.type, "cpu")
        self.assertEqual(stubs.patched(), ("Tensor.cuda", "Tensor.pin_memory", "Module.cuda",
                                           "torch.tensor", "torch.zeros",
                                           "torch.cuda.current_device",
                                           "torch.cuda.synchronize"))


class Provenance(unittest.TestCase):
    def test_versions_are_those_of_the_file_that_asks(self) -> None:
        self.addCleanup(provenance._by_file.clear)
        self.assertEqual(lossgrid.packages("torch"), {"torch": torch.__version__.split("+")[0]})
        self.assertEqual(provenance.details_of(os.path.abspath(__file__))["packages"],
                         "torch " + torch.__version__.split("+")[0])
        self.assertNotIn("packages", provenance.details_of("elsewhere.py"))

    def test_a_package_that_is_missing_is_named(self) -> None:
        with self.assertRaisesRegex(BadInput, "has no package no-such-one: .* -m pip install"):
            lossgrid.packages("torch", "no-such-one")

    def source_folder(self) -> str:
        """Returns a new folder with package ``a_source``, named by A_SOURCE."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.mkdir(os.path.join(folder.name, "a_source"))
        with open(os.path.join(folder.name, "a_source/__init__.py"), "w", encoding="utf-8") as file:
            file.write("__version__ = '1.2.3'\n")
        for patch in (mock.patch.dict(os.environ, {"A_SOURCE": folder.name}),
                      mock.patch.object(sys, "path", list(sys.path))):
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(sys.modules.pop, "a_source", None)
        self.addCleanup(provenance._by_file.clear)
        importlib.invalidate_caches()
        return folder.name

    def test_a_source_folder_has_the_version_of_its_package(self) -> None:
        folder = self.source_folder()
        self.assertEqual(lossgrid.source("A_SOURCE", "a_source"), "1.2.3")
        self.assertEqual(sys.modules["a_source"].__file__,
                         os.path.join(os.path.realpath(folder), "a_source/__init__.py"))
        self.assertEqual(provenance.details_of(os.path.abspath(__file__))["packages"],
                         "a_source 1.2.3")

    def test_a_source_folder_under_git_has_its_commit(self) -> None:
        folder = self.source_folder()
        for command in (["init", "--quiet"], ["add", "."],
                        ["-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "-m", "a"]):
            subprocess.run(["git", "-C", folder, *command], check=True)
        commit = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], check=True, text=True,
                                capture_output=True).stdout
        self.assertEqual(lossgrid.source("A_SOURCE", "a_source"), commit[:8])
        inner = os.path.join(folder, "inner")  # a folder inside of a work tree has no commit
        os.renames(os.path.join(folder, "a_source"), os.path.join(inner, "a_source"))
        with mock.patch.dict(os.environ, {"A_SOURCE": inner}):
            self.assertEqual(lossgrid.source("A_SOURCE", "a_source"), "1.2.3")

    def test_a_source_folder_that_is_not_there(self) -> None:
        folder = self.source_folder()
        with self.assertRaisesRegex(BadInput, "^A_SOURCE=/.* has no b_source/__init__.py$"):
            lossgrid.source("A_SOURCE", "b_source")
        with mock.patch.dict(os.environ), self.assertRaisesRegex(
                BadInput, "^B_SOURCE is not set: it names a folder with the source of b_source$"):
            lossgrid.source("B_SOURCE", "b_source")
        self.assertNotIn(os.path.realpath(folder), sys.path)


if __name__ == "__main__":
    unittest.main()

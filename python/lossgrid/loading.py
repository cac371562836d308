# SPDX-License-Identifier: Apache-2.0
"""Imports the user's files and returns their declarations."""
from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
from contextlib import contextmanager
from typing import Dict, Iterator, List, Sequence, Tuple

from lossgrid.declaration import Declaration, registered
from lossgrid.errors import BadInput, describe
from lossgrid.megatron_state import import_megatron


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keeps the garbage collector from objects of imports, which live on: this saves a fifth of
    their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_no_collections()
def require_torch() -> str:
    """Imports torch on one thread and returns its version."""
    try:
        import torch
    except ImportError as error:
        if error.name not in (None, "torch"):
            raise
        raise BadInput(f"{sys.executable} has no torch: {sys.executable} -m pip install torch, or "
                       "name another interpreter with --python") from None
    torch.set_num_threads(1)
    try:
        # Else the first backward imports it in each worker, inside of the timed part.
        importlib.import_module("torch.fx.experimental.symbolic_shapes")
    except ImportError:
        pass
    if not torch.distributed.is_available():
        raise BadInput(f"torch {torch.__version__} of {sys.executable} was built without "
                       "torch.distributed: name another interpreter with --python")
    return str(torch.__version__)


def _import(path: str, number: int) -> None:
    folder, base = os.path.split(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as if the file was run, so that it can import files beside it
    name = f"_lossgrid_file_{number}_{os.path.splitext(base)[0]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path}: not a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def load(files: Sequence[str]) -> List[Declaration]:
    """Imports ``files`` in order and returns their declarations.

    A file without its own declarations offers the declarations that it imports. Raises BadInput
    with one line, file and line number for whatever is wrong with a file.
    """
    found: Dict[str, Declaration] = {}
    for number, path in enumerate(files):
        full = os.path.abspath(path)
        if not os.path.isfile(full):
            raise BadInput(f"{path}: no such file")
        before = len(registered())
        try:
            _import(full, number)
        except BadInput as error:
            raise BadInput(f"{os.path.basename(path)}: {error}") from error
        except (Exception, SystemExit) as error:
            raise BadInput(f"{path} cannot be loaded: {describe(error, (full,))}") from error
        own = [one for one in registered() if one.file == full]
        offered = own or registered()[before:]
        if not offered:
            raise BadInput(f"{path} has no function with @lossgrid.implementation or "
                           "@lossgrid.engine")
        found.update((one.name, one) for one in offered)
    if any(one.megatron for one in found.values()):
        try:
            import_megatron()  # once instead of in every worker
        except BadInput:
            pass  # the trial that needs it reports that
    return list(found.values())


def find(name: str, declarations: Sequence[Declaration]) -> Declaration:
    """Returns the declaration called ``name``."""
    for one in declarations:
        if one.name == name:
            return one
    raise BadInput(f"no implementation is called {name!r}")


def user_files(declarations: Sequence[Declaration]) -> Tuple[str, ...]:
    return tuple({one.file: None for one in declarations})

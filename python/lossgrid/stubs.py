# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for modules that a framework imports and that its loss does not need.

::

    from lossgrid import stubs
    stubs.install("ray", "flash_attn")     # before the framework is imported
    from my_framework.losses import policy_loss

While modules are imported a stand-in takes part in everything: its attributes are there, it decorates,
is subclassed, and calls of it return another one. A call later raises :class:`StubCalled`, and a
function that imports it when it runs gets an ImportError, as it does without stand-ins.
"""
from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

_IMPORTS = "<frozen importlib._bootstrap>"
_QUESTION = importlib.util.find_spec.__code__.co_filename


class StubCalled(RuntimeError):
    """Error of a stand-in whose use needs the module itself."""


def _is_importing() -> bool:
    """Returns True below the code of a module that is being imported."""
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_back is not None and \
                frame.f_back.f_code.co_filename == _IMPORTS:
            return True
        frame = frame.f_back
    return False


def _refuse(name: str) -> None:
    if not _is_importing():
        package = name.split(".", 1)[0]
        raise StubCalled(f"{name} was called, and {package} is a stand-in: install {package}, or "
                         f"avoid what needs it (lossgrid.stubs.install({package!r}))")


def _make_attribute(owner: Any, name: str) -> "Stub":
    """Returns a new attribute of a stand-in, which keeps it; Python's own names are no
    attributes."""
    if name.startswith("__"):
        raise AttributeError(f"{owner.__name__}.{name}")
    made = Stub(f"{owner.__name__}.{name}")
    setattr(owner, name, made)
    return made


class Stub:
    """An attribute of a stand-in, or the result of a call of one."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._base: Optional[type] = None

    def __getattr__(self, name: str) -> Any:
        return _make_attribute(self, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        _refuse(self.__name__)
        if len(arguments) == 1 and not options and \
                isinstance(arguments[0], (type, types.FunctionType)):
            return arguments[0]  # it decorates
        return Stub(self.__name__)

    def __mro_entries__(self, bases: Tuple[Any, ...]) -> Tuple[type, ...]:
        if self._base is None:
            name = self.__name__

            def new(cls: type, *_: Any, **__: Any) -> Any:
                _refuse(name)
                return object.__new__(cls)

            self._base = type(name, (), {"__new__": new, "__init__": lambda *_, **__: None})
        return (self._base,)

    def __instancecheck__(self, value: Any) -> bool:
        return self._base is not None and isinstance(value, self._base)

    def __subclasscheck__(self, value: type) -> bool:
        return self._base is not None and issubclass(value, self._base)

    def __getitem__(self, _: Any) -> "Stub":
        return self

    def __or__(self, _: Any) -> Any:
        return Any  # an annotation

    __ror__ = __or__

    def __iter__(self) -> Any:
        _refuse(self.__name__)
        return iter(())

    def __bool__(self) -> bool:
        _refuse(self.__name__)
        return False

    def __enter__(self) -> "Stub":
        _refuse(self.__name__)
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __repr__(self) -> str:
        return f"<stand-in {self.__name__}>"


class StubModule(types.ModuleType):
    """A stand-in for a module; its submodules can be imported."""

    __version__ = "0"
    __path__: List[str] = []

    def __getattr__(self, name: str) -> Any:
        return _make_attribute(self, name)


class _Finder:
    """Finder and loader of stand-ins, asked after all other finders."""

    def __init__(self) -> None:
        self.names: Dict[str, None] = {}

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None,
                  target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if not any(name == one or name.startswith(one + ".") for one in self.names):
            return None
        if sys._getframe(2).f_code.co_filename == _QUESTION or not _is_importing():
            return None  # code that checks for the module, or can work without it
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StubModule(spec.name, "A stand-in by lossgrid.stubs.")

    def exec_module(self, module: types.ModuleType) -> None:
        pass


_finder = _Finder()


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False  # the parent of a submodule is missing


def install(*names: str) -> Tuple[str, ...]:
    """Makes stand-ins for those of ``names`` that are not installed, and returns their names.

    A name is that of a module (``"ray"``) or of a submodule (``"megatron.bridge"``), and stands for
    all below it. Modules that are there stay as they are.
    """
    made = tuple(name for name in names if name not in _finder.names and not _is_there(name))
    _finder.names.update(dict.fromkeys(made))
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
    return made


def installed() -> Tuple[str, ...]:
    """Returns the names of all stand-ins of this process."""
    return tuple(_finder.names)


_patched: List[str] = []


def _replace(owner: Any, name: str, new: Callable[..., Any]) -> None:
    setattr(owner, name, new)
    _patched.append(f"{getattr(owner, '__name__', owner)}.{name}")


def _on_processor(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of torch that makes a tensor, without a GPU."""
    def made(*arguments: Any, **options: Any) -> Any:
        options.pop("pin_memory", None)
        if str(options.get("device", "")).startswith("cuda"):
            del options["device"]
        return make(*arguments, **options)
    return made


def no_cuda() -> None:
    """Lets code that moves tensors to a GPU work where there is none: they stay where they are.

    ``.cuda()`` and ``.pin_memory()`` return the tensor or module itself, ``torch.tensor`` and
    ``torch.zeros`` make what is asked for on a GPU or in pinned memory as any other tensor,
    ``torch.cuda.current_device()`` is the processor. With a GPU nothing changes.
    """
    import torch
    if torch.cuda.is_available() or "Tensor.cuda" in _patched:
        return
    for owner, name in ((torch.Tensor, "cuda"), (torch.Tensor, "pin_memory"),
                        (torch.nn.Module, "cuda")):
        _replace(owner, name, lambda self, *_, **__: self)
    for name in ("tensor", "zeros"):
        _replace(torch, name, _on_processor(getattr(torch, name)))
    _replace(torch.cuda, "current_device", lambda: torch.device("cpu"))
    _replace(torch.cuda, "synchronize", lambda *_: None)


def no_compile() -> None:
    """Turns ``torch.compile`` off: decorated functions run as they are written."""
    import torch._dynamo
    if "torch.compile" not in _patched:
        torch._dynamo.config.disable = True
        _patched.append("torch.compile")


def patched() -> Tuple[str, ...]:
    """Returns what :func:`no_cuda` and :func:`no_compile` have replaced."""
    return tuple(_patched)

"""Sources: the files and packages that a model depends on, to detect changes."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torchrecorder

_ALWAYS = ("torch", "graphviz", "pygraphviz")
_OWN = Path(torchrecorder.__file__).parent
_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)
"""Types of objects that have the module in which they were defined."""
_SITES = {"site-packages", "dist-packages"}
"""Folders of installed packages, in any environment."""


@dataclass(frozen=True)
class Dependencies:
    """The files and packages that a model depends on."""

    files: tuple[str, ...] = ()  # not installed: they may change at any time
    packages: tuple[str, ...] = ()  # installed distributions: they change with their version

    def __add__(self, other: Dependencies) -> Dependencies:
        return Dependencies(
            tuple(sorted({*self.files, *other.files})),
            tuple(sorted({*self.packages, *other.packages})),
        )

    def state(self) -> str:
        """A text that changes when any of them changes."""
        contents = [(file, _digest_of(Path(file))) for file in self.files]
        versions = [(name, _version(name)) for name in (*_ALWAYS, *self.packages)]
        return repr((contents, versions, platform.python_version(), own_state()))


def behind(path: str) -> Dependencies:
    """The sources of ``package.module:name`` or ``file.py:name``, which has been imported."""
    place = path.rpartition(":")[0]
    if not place.endswith(".py"):
        return _closure([sys.modules.get(place)])
    module = sys.modules.get(Path(place).stem)
    file = file_of(module)
    same = file is not None and Path(file).resolve() == Path(place).resolve()
    return Dependencies(files=(place,)) + _closure([module] if same else [])


def used(names: Mapping[str, Any]) -> Dependencies:
    """The sources of the objects with these *names*."""
    return _closure(map(_home, names.values()))


@functools.cache
def own_state() -> str:
    """A text that differs between versions of torchrecorder."""
    files = sorted(path for path in _OWN.rglob("*") if path.suffix in (".py", ".js", ".css"))
    return digest(*(_digest_of(path) for path in files))


def digest(*texts: str) -> str:
    """A short name for *texts*."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]


def _closure(modules: Iterable[ModuleType | None]) -> Dependencies:
    """The files of *modules* and of all that they use; installed ones are only named."""
    seen: set[str] = set()
    files: set[str] = set()
    packages: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        file = file_of(module)
        if module is None or file is None or module.__name__ in seen:
            continue
        seen.add(module.__name__)
        if _is_installed(Path(file)):
            packages.update(_distributions().get(module.__name__.partition(".")[0], ()))
        else:
            files.add(file)
            waiting += map(_home, vars(module).values())
    return Dependencies(tuple(sorted(files)), tuple(sorted(packages)))


def _home(value: Any) -> ModuleType | None:
    """The module that defines *value*. Only its type is inspected: deprecated objects may warn."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        module: ModuleType = value
        return module
    made = value if issubclass(kind, _NAMED) else kind
    name = getattr(made, "__module__", None)
    return sys.modules.get(name) if isinstance(name, str) else None


def file_of(module: ModuleType | None) -> str | None:
    """The file of *module*. ``getattr`` would ask those that make attributes, and may raise."""
    return getattr(module, "__dict__", {}).get("__file__")


def _is_installed(file: Path) -> bool:
    if not _SITES.isdisjoint(file.parts):
        return True  # also of an environment below this one, or of the user
    paths = sysconfig.get_paths()
    roots = [Path(paths[name]).resolve() for name in ("stdlib", "platlib", "purelib")]
    return any(root in file.resolve().parents for root in (*roots, _OWN))


_distributions = functools.cache(importlib.metadata.packages_distributions)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _digest_of(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""

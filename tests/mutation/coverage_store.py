"""What coverage was measured, by test: how long each takes, and which lines it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

IMPORTED = "imported.txt"
Lines = dict[str, dict[str, int]]
"""By file and function: a bit mask of the lines that ran, counted from the function's first."""


class Test(NamedTuple):
    """A test that ran."""

    __test__ = False

    name: str
    seconds: float
    lines: Lines

    def runs(self, path: str, function: str, line: int) -> bool:
        """Whether it runs this line; of a line outside functions, whether it runs any of a file."""
        found = self.lines.get(path, {})
        return bool(found.get(function, 0) >> line & 1) if function else bool(found)


def store(folder: Path, test_file: Path, tests: dict[str, Any]) -> None:
    """Keep what was measured of a test file."""
    folder.mkdir(parents=True, exist_ok=True)
    written = json.dumps({"digest": _digest(test_file), "tests": tests})
    _stored(folder, test_file).write_text(written, encoding="utf-8")


def store_imported(folder: Path, lines: Lines) -> None:
    """Keep which functions run before the first test, besides those already known."""
    names = {f"{path} {function}" for path, found in lines.items() for function in found}
    (folder / IMPORTED).write_text("\n".join(sorted(names | imported(folder))), encoding="utf-8")


def imported(folder: Path) -> set[str]:
    """Functions that run when modules are imported, as ``path function``."""
    path = folder / IMPORTED
    return set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()


def load(folder: Path) -> list[Test]:
    """All tests, the fastest first."""
    tests = [test for path in sorted(folder.glob("*.json")) for test in _read(path)]
    return sorted(tests, key=lambda test: (test.seconds, test.name))


def is_fresh(folder: Path, test_file: Path) -> bool:
    """Whether a test file was measured as it is now."""
    path = _stored(folder, test_file)
    return path.exists() and json.loads(path.read_text())["digest"] == _digest(test_file)


def _read(path: Path) -> Iterator[Test]:
    tests = json.loads(path.read_text(encoding="utf-8"))["tests"]
    return (Test(name, test["seconds"], test["lines"]) for name, test in tests.items())


def _stored(folder: Path, test_file: Path) -> Path:
    parts = test_file.parts[test_file.parts.index("tests"):]
    return folder / (".".join(parts) + ".json")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

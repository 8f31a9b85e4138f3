"""Make the code of the package fail where PyTorch, or Python, calls it back.

A trace function hears of each call of a function in `torchrecorder.capture`, and raises an
exception in its place. That is done wherever a function of ours that is running catches what
goes wrong; and inside such functions, at the lines where they do. What no function of ours
would catch is listed: there must be no such call, but for those that run the model itself.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import inspect
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torchrecorder.capture

HOME = str(Path(torchrecorder.capture.__file__).parent)
PRIMITIVES = {"Tape.record_error", "Tape.survives_errors", "Tape.resume", "_first_line"}
"""What catching an error is made of."""

LOOPS = {dis.opmap[name] for name in ("FOR_ITER", "JUMP_BACKWARD") if name in dis.opmap}
"""The instructions at which a loop goes on."""


class Place(NamedTuple):
    """Where a fault can be put: in place of a function, or at a line inside."""

    code: CodeType
    line: int | None

    def __str__(self) -> str:
        inside = f" line {self.line}" if self.line is not None else ""
        return f"{Path(self.code.co_filename).stem}.{self.code.co_name}{inside}"


@functools.cache
def _functions(file: str) -> dict[tuple[str, int], tuple[str, ast.AST]]:
    """The functions of a file, by name and first line: with their classes' names, and as code."""
    found: dict[tuple[str, int], tuple[str, ast.AST]] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = prefix
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                first = min(each.lineno for each in (child, *child.decorator_list))
                found[child.name, first] = f"{prefix}{child.name}", child
                inside = f"{prefix}{child.name}."
            visit(child, inside)

    visit(ast.parse(Path(file).read_text(encoding="utf-8")), "")
    return found


def find(code: CodeType) -> tuple[str, ast.AST]:
    """The name of a function of ours with that of its class, and its code."""
    return _functions(code.co_filename)[code.co_name, code.co_firstlineno]


@functools.cache
def guarded_lines(code: CodeType) -> frozenset[int]:
    """The lines of a function at which it catches what goes wrong, and loses a fact."""
    if code.co_name.startswith("<"):
        return frozenset()
    _, node = find(code)
    lines: set[int] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Try) and any(map(_loses, each.handlers)):
            body = each.body
        elif isinstance(each, ast.With) and any(
            "survives_errors(" in ast.unparse(item) for item in each.items
        ):
            body = each.body
        else:
            continue
        lines.update(range(body[0].lineno, (body[-1].end_lineno or 0) + 1))
    returns = (each for each in ast.walk(node) if isinstance(each, ast.Return))
    return frozenset(lines) - {each.lineno for each in returns if _cannot_fail(each.value)}


def _cannot_fail(value: ast.expr | None) -> bool:
    return value is None or isinstance(value, (ast.Constant, ast.Name))


def _loses(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes every error for a fact that is lost."""
    caught = ast.unparse(handler.type) if handler.type is not None else ""
    calls = [each.func for each in ast.walk(handler) if isinstance(each, ast.Call)]
    names = {ast.unparse(each).rpartition(".")[2] for each in calls}
    records = {"record_error", "_record_error", "fail", "_give_up"}
    return caught == "Exception" and bool(names & records)


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(HOME) and not code.co_filename.endswith("inert.py")


def _is_passing_on(code: CodeType) -> bool:
    """Whether it calls a context manager for the one who uses it."""
    return code.co_filename == contextlib.__file__


def _is_resumed(frame: FrameType) -> bool:
    """Whether a generator goes on, perhaps only to be closed because nobody reads on: Python
    ignores what fails then. The second half of a context manager is a call like others."""
    is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR
    if not is_generator or frame.f_lineno == frame.f_code.co_firstlineno:
        return False
    return frame.f_back is None or not _is_passing_on(frame.f_back.f_code)


def _is_repeated(frame: FrameType) -> bool:
    """Whether a loop goes on. What a trace function raises there passes by the handlers around a
    comprehension, since Python 3.12; what a comprehension raises itself does not.
    """
    return _bytecode(frame.f_code)[frame.f_lasti] in LOOPS


@functools.cache
def _bytecode(code: CodeType) -> bytes:
    return code.co_code


def _is_guarded(frame: FrameType | None) -> bool:
    """Whether what is raised in a function called by *frame* is caught before it leaves us."""
    while frame is not None and (_is_ours(frame.f_code) or _is_passing_on(frame.f_code)):
        if _is_ours(frame.f_code) and frame.f_lineno in guarded_lines(frame.f_code):
            return True
        frame = frame.f_back
    return False


class Faults:
    """Hears the calls of our functions, and makes one of them fail.

    Args:
        place: Where; if not given, places are found.
        nth: Which of the times that the place is passed.
        error: What is raised.

    Attributes:
        passed: How often each place was passed.
        callbacks: Functions that were called by others.
        unguarded: Functions whose errors nobody would have caught.
    """

    def __init__(
        self,
        place: Place | None = None,
        nth: int = 1,
        error: type[BaseException] = LookupError,
    ) -> None:
        self.place = place
        self.nth = nth
        self.error = error
        self.passed: dict[Place, int] = {}
        self.unguarded: set[str] = set()
        self.callbacks: set[str] = set()

    @property
    def raised(self) -> bool:
        """Whether the place was reached."""
        return self.place is not None and self.passed.get(self.place, 0) >= self.nth

    @contextlib.contextmanager
    def hearing(self) -> Iterator[None]:
        """Hear what is called inside the block, in threads that it starts too."""
        before = sys.gettrace()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(None)  # type: ignore[arg-type]

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if self.place is not None and (code is not self.place.code or self.raised):
            return None
        if event != "call" or not _is_ours(code) or code.co_name.startswith("<"):
            return None
        name, _ = find(code)
        if name in PRIMITIVES or _is_resumed(frame):
            return None
        if not _is_ours(frame.f_back.f_code if frame.f_back is not None else code):
            self.callbacks.add(name)
        if _is_guarded(frame.f_back):
            self._pass(Place(code, None))
        elif not guarded_lines(code):
            self.unguarded.add(name)
        return self._at_line if guarded_lines(code) else None

    def _at_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        is_guarded = event == "line" and frame.f_lineno in guarded_lines(frame.f_code)
        if is_guarded and not _is_repeated(frame):
            self._pass(Place(frame.f_code, frame.f_lineno))
        return self._at_line

    def _pass(self, place: Place) -> None:
        self.passed[place] = passed = self.passed.get(place, 0) + 1
        if place == self.place and passed == self.nth:
            raise self.error("a fault for a test")

"""The name of a module in the source of its call: ``"actor"`` in ``self.actor(x)``."""

from __future__ import annotations

import ast
import builtins
import dis
import itertools
import linecache
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from torch.nn import Module

from torchrecorder.capture.hooks.frame_marks import OUTSIDE, FrameMark
from torchrecorder.capture.hooks.source import arguments
from torchrecorder.capture.modes.python_functions import (
    caller_of_own_call, has_own_call, runs_hooks,
)
from torchrecorder.events import SourceLine

_OTHERS = frozenset(("self", *vars(builtins)))
"""Names that are not those of modules: ``self``, and built-in functions that call one (``map``)."""

_CALLS = "forward", "__call__"

_ENTERS = {dis.opmap[name] for name in ("SETUP_WITH", "BEFORE_WITH", "LOAD_SPECIAL")
           if name in dis.opmap}
"""The instructions that enter a ``with`` block, in the versions of Python."""

_CACHE = dis.opmap.get("CACHE", -1)
"""The code of inline caches, which follow some instructions."""


def name_of_call(module: Module, frame: FrameType | None, source: SourceLine | None) -> str | None:
    """The name of *module* in the user's code at *source*; None if it has none.

    If its class overrides ``__call__``, *frame* is inside that, and the name is in its caller.
    """
    if frame is None or source is None:
        return None
    if not _is_at(frame, source):
        return _passed_name(module, frame, source)
    cls = type(module)
    caller = caller_of_own_call(cls, frame) if has_own_call(cls) and runs_hooks(cls) else frame
    return called_name(caller) if caller is not None else None


def _is_at(frame: FrameType, source: SourceLine) -> bool:
    return (frame.f_lineno, frame.f_code.co_name) == (source.line, source.function)


def _passed_name(module: Module, frame: FrameType, source: SourceLine) -> str | None:
    """The name of *module* where it is an argument of a function that calls it, such as
    ``functional_call``, or where a method of it is called, such as ``generate``."""
    function, caller = frame, frame.f_back
    while caller is not None and not _is_at(caller, source):
        function, caller = caller, caller.f_back
    call = expression_at(caller) if caller is not None else None
    if not isinstance(call, ast.Call) or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    given, code = arguments(function), function.f_code
    place = next((place for place, one in enumerate(given) if one is module), None)
    if place is None:
        return None
    bound = code.co_varnames[:1] == ("self",) if code.co_argcount else len(given) > len(call.args)
    if place >= bound:
        return _last_name(call.args[place - bound]) if place - bound < len(call.args) else None
    called = call.func
    if isinstance(called, ast.Attribute) and hasattr(type(module), called.attr):
        called = called.value
    return _last_name(called)


def called_name(frame: FrameType) -> str | None:
    """The name of the variable, attribute or item that *frame* calls, or whose ``forward`` it
    calls, from its source.

    None if the source is unknown, or if another expression is called, such as ``make()(x)``. A
    parameter of a function has the name of the argument that its caller gives. The variables of
    the frame are not read, because Python would keep their values alive.
    """
    call = expression_at(frame)
    called = call.func if isinstance(call, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr in _CALLS:
        called = called.value
    return _name_outside(called, frame)


def _name_outside(node: ast.AST | None, frame: FrameType) -> str | None:
    """The name of *node* in the outermost function of the recording that passes it on to *frame*
    as an argument."""
    if isinstance(node, ast.Name) and frame.f_back is not None and not _began_before(frame):
        given = _argument(frame, node.id)
        if given is not None and (name := _name_outside(given, frame.f_back)):
            return name
    return _last_name(node)


def _began_before(frame: FrameType) -> bool:
    mark = frame.f_trace
    return type(mark) is FrameMark and any(fact is OUTSIDE for fact in mark.values())


def _argument(frame: FrameType, name: str) -> ast.expr | None:
    """What the caller of *frame* gives for the parameter *name*; None if it is not known."""
    code = frame.f_code
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    call = expression_at(frame.f_back) if frame.f_back is not None else None
    if name not in parameters or not isinstance(call, ast.Call) or _assigns(code, name):
        return None
    by_name = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in by_name or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    place = parameters.index(name) - (code.co_varnames[:1] == ("self",))
    return by_name.get(name) or (call.args[place] if 0 <= place < len(call.args) else None)


def _assigns(code: CodeType, name: str) -> bool:
    """Whether the function assigns to its variable *name*."""
    stores = (each.argval for each in dis.get_instructions(code) if "STORE" in each.opname)
    return any(name == stored or type(stored) is tuple and name in stored for stored in stores)


def _last_name(node: ast.AST | None) -> str | None:
    """The name of a variable or attribute, or of an item of it: ``models.small``."""
    if isinstance(node, ast.Subscript):
        name, key = _last_name(node.value), getattr(node.slice, "value", None)
        return f"{name}.{key}" if name and isinstance(key, (int, str)) else None
    if isinstance(node, ast.Name):
        return node.id if node.id not in _OTHERS else None
    return node.attr if isinstance(node, ast.Attribute) else None


def expression_at(frame: FrameType) -> ast.AST | None:
    """The syntax tree of the expression or augmented assignment that *frame* is executing.

    None if the source is unknown, and before Python 3.11, whose code objects have no columns.
    """
    positions: Callable[[], Iterator[Any]] = getattr(frame.f_code, "co_positions", lambda: iter(()))
    place: Any = next(itertools.islice(positions(), frame.f_lasti // 2, None), (None,))
    if None in place:
        return None
    first, last, start, end = place
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1:last]
    encoded = [line.encode() for line in lines]
    if not encoded:
        return None
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    source = b"".join(encoded)
    for text in (b"(" + source + b")", source):  # an expression on several lines; an assignment
        try:
            statement = ast.parse(text).body[0]
        except (SyntaxError, ValueError):
            continue
        return statement.value if isinstance(statement, ast.Expr) else statement
    return None


def enters_result(frame: FrameType) -> bool:
    """Whether a ``with`` block enters the result of the call that *frame* is executing."""
    following = frame.f_code.co_code[frame.f_lasti + 2 :: 2]
    instructions = (code for code in following if code != _CACHE)
    return any(code in _ENTERS for code in itertools.islice(instructions, 2))

"""The names of arguments in the source of a call: ``y`` in ``cross_entropy(model(x), y)``.

Variables of a running function are not looked up, because Python would keep their contents alive.
"""

from __future__ import annotations

import ast
from types import CodeType, FrameType
from typing import Any, NamedTuple

from torch import Tensor

from torchrecorder.capture.hooks.call_names import expression_at
from torchrecorder.capture.hooks.source import Sources
from torchrecorder.capture.modes.arguments import named_arguments
from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.call_site import caller_of_function
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.tensors.early_reads import EarlyReads
from torchrecorder.events import Role

_METHOD = "torch.Tensor."
_SUBSCRIPTS = "getitem", "setitem"
_CONDITION = "bool()"
_CONTAINS = ast.In, ast.NotIn


class Argument(NamedTuple):
    """Where a call has a tensor."""

    position: int  # -1 for one that only has a name
    name: str
    item: int | None  # its position in a list


class ArgumentNames:
    """Names tensors of unknown origin after their places in the source of the calls."""

    def __init__(self, early: EarlyReads, sources: Sources) -> None:
        self._early = early
        self._sources = sources
        self._expressions: dict[tuple[CodeType, int], ast.AST | None] = {}

    def name(
        self, call: Call, frame: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Name the arguments of *call* that nothing has named, if the user's code does.

        *frame* is that in which the function mode was called.
        """
        expression = self._at(caller_of_function(frame))
        if expression is not None:
            unknown = [item for _, item in call.tensors if id(item) in self._early.unnamed]
            for tensor in unknown:
                place = _place(tensor, call.facts, args, kwargs)
                name = _name(expression, place, call.facts, args) if place is not None else ""
                if name:
                    self._early.name(tensor, Role.CONSTANT, (name,))
        self._early.unnamed.clear()

    def _at(self, frame: FrameType) -> ast.AST | None:
        """The source of the call at *frame*, if that is the user's."""
        place = frame.f_code, frame.f_lasti
        if place not in self._expressions:
            is_users = self._sources.file(frame.f_code.co_filename) is not None
            self._expressions[place] = expression_at(frame) if is_users else None
        return self._expressions[place]


def _place(
    tensor: Tensor, facts: FunctionFacts, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Argument | None:
    names = facts.names_of(args)
    given = [(name, value) for name, value in named_arguments(args, names)] + [*kwargs.items()]
    for number, (name, value) in enumerate(given):
        position = number if number < len(args) else names.index(name) if name in names else -1
        if value is tensor:
            return Argument(position, name, None)
        for item, part in enumerate(value if isinstance(value, (list, tuple)) else ()):
            if part is tensor:
                return Argument(position, name, item)
    return None


def _name(node: ast.AST, place: Argument, facts: FunctionFacts, args: tuple[Any, ...]) -> str:
    """The variable, or the attribute or item of one, that is the argument at *place*."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        node = node.test
    found = _of_call(node, place, facts) or _of_operator(node, place, facts, args)
    if place.item is None:
        return _dotted(found)
    if isinstance(found, (ast.List, ast.Tuple)):
        return _dotted(found.elts[place.item]) if _is_plain(found.elts) else ""
    name = _dotted(found)
    return name and f"{name}.{place.item}"


def _of_call(call: ast.AST, place: Argument, facts: FunctionFacts) -> ast.AST | None:
    """The argument at *place*, if the call is one of this function: ``max(a, b)`` compares them."""
    called = call.func if isinstance(call, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
    if not isinstance(call, ast.Call) or name != facts.name.removesuffix("()"):
        return None
    for keyword in call.keywords:
        if keyword.arg == place.name:
            return keyword.value
    given = [*call.args]
    if facts.qualname.startswith(_METHOD) and isinstance(called, ast.Attribute):
        given.insert(0, called.value)
    return dict(enumerate(given)).get(place.position) if _is_plain(given) else None


def _of_operator(
    node: ast.AST, place: Argument, facts: FunctionFacts, args: tuple[Any, ...]
) -> ast.AST | None:
    """The operand at *place*."""
    operands: list[ast.expr] = []
    match node:
        case ast.UnaryOp():
            return node.operand
        case ast.Attribute() if facts.attribute:
            return node.value
        case ast.Subscript() if facts.name in _SUBSCRIPTS:
            return dict(enumerate((node.value, node.slice))).get(place.position)
        case ast.BinOp():
            operands = [node.left, node.right]
        case ast.AugAssign():
            operands = [node.target, node.value]
        case ast.Compare(ops=[kind], comparators=[right]) if not isinstance(kind, _CONTAINS):
            operands = [node.left, right]
        case _ if facts.name == _CONDITION:
            return node
    if not all(isinstance(item, Tensor) for item in args[:2]):  # it may be a reflected operator
        named = [operand for operand in operands if _dotted(operand)]
        return named.pop() if len(named) == 1 else None
    return dict(enumerate(operands)).get(place.position)


def _is_plain(given: list[ast.expr]) -> bool:
    """Whether no argument stands for several."""
    return not any(isinstance(item, ast.Starred) for item in given)


def _dotted(node: ast.AST | None) -> str:
    """``batch.0.x`` for ``batch[0].x``, without ``self``; empty if *node* is something else."""
    parts: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, (int, str)):
            parts.append(str(node.slice.value))
        else:
            return ""
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    names = [node.id, *reversed(parts)]
    names = names[1:] if names[0] == "self" else names
    return "" if any(name.startswith("_") for name in names) else ".".join(names)

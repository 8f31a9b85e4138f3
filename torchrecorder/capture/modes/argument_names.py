"""The names of arguments in the source of a call: ``y`` in ``cross_entropy(model(x), y)``.

The variables of a running function are not read, because Python would keep their values alive.
"""

from __future__ import annotations

import ast
import builtins
from itertools import takewhile
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.dlpack import from_dlpack

from torchrecorder.capture.hooks.call_names import expression_at
from torchrecorder.capture.hooks.source import Sources
from torchrecorder.capture.modes.arguments import named_arguments
from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.call_site import caller_of_function
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.tensors.argument_objects import Named
from torchrecorder.capture.tensors.describe import innermost, is_tensor
from torchrecorder.capture.tensors.entries import EarlyReads

_METHOD = "torch.Tensor."
_ITER, _FROM_DLPACK = Tensor.__iter__.__code__, from_dlpack.__code__
_SUBSCRIPTS = "getitem", "setitem"
_CONDITION = "bool()"
_CONTAINS = ast.In, ast.NotIn


class Argument(NamedTuple):
    """The place of a tensor in the arguments of a call."""

    position: int  # -1 for one that only has a name
    name: str
    item: int | None  # its position in a list


class CallInSource(NamedTuple):
    """A call of a torch function, with the global variables of its caller."""

    facts: FunctionFacts
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    variables: dict[str, Any]


class ArgumentNames:
    """Finds the names of arguments of unknown origin in the user's source."""

    def __init__(self, early: EarlyReads, sources: Sources) -> None:
        self.early = early
        self.sources = sources
        self._expressions: dict[tuple[CodeType, int], ast.AST | None] = {}

    def find(
        self, call: Call, frame: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Name the arguments of *call*, for which the function mode was called in *frame*."""
        unnamed = self.early.unnamed
        unknown = {id(tensor): tensor for _, tensor in call.tensors if id(tensor) in unnamed}
        if not unknown:
            return
        frame = caller_of_function(frame)
        iterates = frame.f_code is _ITER
        frame = frame.f_back or frame if iterates or frame.f_code is _FROM_DLPACK else frame
        expression = self._expression(frame)
        if expression is None:
            return
        called = CallInSource(call.facts, args, kwargs, frame.f_globals)
        places = _places(called) if not iterates else {}
        for key, tensor in unknown.items():
            if iterates:
                name = _dotted(_iterated(expression))
            else:
                name = _name(expression, places[key], called) if key in places else ""
            if name:
                self.early.name_by_line(tensor, name)

    def of_module(self, frame: FrameType | None, named: Named, number: int | None = None) -> Named:
        """The arguments of a module call, by their names in the source of the caller, *frame*.

        An object without such a name has that in *named*; a tensor without one is left out. The
        first *number* are positional; None if it is not known how many are.
        """
        called = self._in_call(frame, [name.rpartition(".")[2] for name, _ in named], number)
        found = zip(map(_dotted, called), named)
        return [(name or own, value) for name, (own, value) in found
                if name or not is_tensor(value)]

    def _in_call(
        self, frame: FrameType | None, names: list[str], number: int | None
    ) -> list[ast.AST | None]:
        """The expressions of the arguments *names* of a call, the first *number* of which are
        positional; None for each argument without one."""
        node = self._expression(frame) if frame is not None else None
        if frame is not None and isinstance(node, ast.Call):
            is_builtin = isinstance(_known(node.func, frame.f_globals), BuiltinFunctionType | type)
            places = len(_before_unpacked(node.args))
            is_plain = places == len(node.args) and number in (None, places)
            if is_plain and not is_builtin:  # as ``map`` is, which calls it
                by_name = {keyword.arg: keyword.value for keyword in node.keywords}
                return [*node.args, *map(by_name.get, names[places:])]
        return [None] * len(names)

    def _expression(self, frame: FrameType) -> ast.AST | None:
        """The expression that *frame* is executing; None if it is not the user's code."""
        place = frame.f_code, frame.f_lasti
        if place not in self._expressions:
            is_users = self.sources.file(frame.f_code.co_filename) is not None
            self._expressions[place] = expression_at(frame) if is_users else None
        return self._expressions[place]


def _iterated(node: ast.AST) -> ast.AST | None:
    """The iterable of ``for row in rows``, ``enumerate(rows)`` or ``[row for row in rows]``."""
    match node:
        case ast.For():
            return node.iter
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return node.generators[0].iter if len(node.generators) == 1 else None
        case ast.Call(func=ast.Name(id=name), args=[only], keywords=[]):
            return only if hasattr(builtins, name) else None
        case ast.Name() | ast.Attribute() | ast.Subscript():  # since Python 3.13
            return node
    return None


def _places(called: CallInSource) -> dict[int, Argument]:
    """The first place of each tensor in the arguments, by ``id()``."""
    names = called.facts.names_of(called.args, called.kwargs)
    given = [*named_arguments(called.args, names), *called.kwargs.items()]
    places: dict[int, Argument] = {}
    for number, (name, value) in enumerate(given):
        known = names.index(name) if name in names else -1
        position = number if number < len(called.args) else known
        _add(places, value, Argument(position, name, None))
        parts = value if isinstance(value, (list, tuple)) else ()
        is_wrapped = called.facts.runs_backward and len(parts) == 1  # ``grad(loss, weight)``
        for item, part in enumerate(parts):
            _add(places, part, Argument(position, name, None if is_wrapped else item))
    return places


def _add(places: dict[int, Argument], value: object, place: Argument) -> None:
    """Add the *place* of *value*, and of what a transformation such as ``vmap`` passes it for."""
    if is_tensor(value):
        places.setdefault(id(value), place)
        places.setdefault(id(innermost(value)), place)


def _name(node: ast.AST, place: Argument, called: CallInSource) -> str:
    """The dotted name of the argument at *place*; empty if it is another expression."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        node = node.test
    found = _of_call(node, place, called) or _of_operator(node, place, called)
    if isinstance(found, (ast.List, ast.Tuple)):
        return _dotted(_before_unpacked(found.elts).get(place.item or 0))
    name = _dotted(found)
    return name if place.item is None or not name else f"{name}.{place.item}"


def _of_call(node: ast.AST, place: Argument, called: CallInSource) -> ast.AST | None:
    """The argument at *place* if *node* calls the function itself; ``max(a, b)`` calls ``gt``."""
    if not isinstance(node, ast.Call):
        return None
    function, own = node.func, called.facts.name.removesuffix("()")
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    if name not in (own, f"from_{own}"):  # as from_dlpack
        return None
    for keyword in node.keywords:
        if keyword.arg == place.name:
            return keyword.value
    given = [*node.args]
    if isinstance(function, ast.Attribute) and _is_method(node, function.value, called):
        given.insert(0, function.value)
    return _before_unpacked(given).get(place.position)


def _is_method(node: ast.Call, receiver: ast.AST, called: CallInSource) -> bool:
    """Whether *node* calls a tensor method on the tensor *receiver*, unlike ``np.sum(x)`` and
    ``torch.Tensor.norm(x)``."""
    has_fewer = len(node.args) < len(called.args) or len(node.keywords) < len(called.kwargs)
    is_method = called.facts.qualname.startswith(_METHOD)
    owner = _known(receiver, called.variables)
    return is_method and has_fewer and not isinstance(owner, (ModuleType, type))


def _known(node: ast.AST, variables: dict[str, Any]) -> Any:
    """The builtin, global variable or attribute of a Python module that *node* names, else None."""
    first, *others = _dotted(node).split(".")
    found = variables.get(first, getattr(builtins, first, None))
    for part in others:
        found = vars(found).get(part) if isinstance(found, ModuleType) else None
    return found


def _of_operator(node: ast.AST, place: Argument, called: CallInSource) -> ast.AST | None:
    """The operand at *place*, if *node* is an operator, attribute, index or condition."""
    operands: list[ast.expr] = []
    match node:
        case ast.UnaryOp():
            return node.operand
        case ast.Attribute() if called.facts.attribute:
            return node.value
        case ast.Subscript() if called.facts.name in _SUBSCRIPTS:
            return dict(enumerate((node.value, node.slice))).get(place.position)
        case ast.BinOp():
            operands = [node.left, node.right]
        case ast.AugAssign():
            operands = [node.target, node.value]
        case ast.Compare(ops=[kind], comparators=[right]) if not isinstance(kind, _CONTAINS):
            operands = [node.left, right]
        case _ if called.facts.name == _CONDITION:
            return node
    if len(called.args) != len(operands):  # ``array * x`` converts x
        return None
    if not all(is_tensor(item) for item in called.args):  # the operator may be reflected
        named = [operand for operand in operands if _dotted(operand)]
        return named.pop() if len(named) == 1 else None
    return dict(enumerate(operands)).get(place.position)


def _before_unpacked(given: list[ast.expr]) -> dict[int, ast.expr]:
    """The arguments or items *given* by position, up to the first one that is unpacked: ``x`` in
    ``x.expand(*shape)``. The positions of those after it are unknown."""
    return dict(enumerate(takewhile(lambda item: not isinstance(item, ast.Starred), given)))


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

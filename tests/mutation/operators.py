"""The mutation operators: for a node of the syntax tree, what to replace and what with."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

BOUNDARIES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITES = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
WITHOUT_EFFECT_ON_MEMBERS = {"sorted": "list", "reversed": "list"}
REMOVED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Continue, ast.Break, ast.Delete)

Changes = Iterator[tuple[ast.AST, ast.AST]]
"""Pairs of the node to replace and its replacement."""

Operator = Callable[[ast.AST], Changes]


def boundary(node: ast.AST) -> Changes:
    """``<`` for ``<=`` and the like."""
    yield from _other_comparison(node, BOUNDARIES)


def negated_comparison(node: ast.AST) -> Changes:
    """``!=`` for ``==``, ``not in`` for ``in``, ``is not`` for ``is``."""
    yield from _other_comparison(node, OPPOSITES)


def and_or(node: ast.AST) -> Changes:
    """``or`` for ``and``."""
    if isinstance(node, ast.BoolOp):
        yield node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def dropped_condition(node: ast.AST) -> Changes:
    """One condition less in ``a and b``, ``not a`` without ``not``, a filter that lets all pass."""
    if isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            rest = node.values[:index] + node.values[index + 1:]
            yield node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, node.operand
    elif isinstance(node, ast.comprehension):
        yield from ((condition, ast.Constant(True)) for condition in node.ifs)


def decided_branch(node: ast.AST) -> Changes:
    """An ``if`` that is always or never taken."""
    if isinstance(node, ast.If):
        yield node.test, ast.Constant(True)
        yield node.test, ast.Constant(False)


def swapped_branch(node: ast.AST) -> Changes:
    """``b if test else a`` for ``a if test else b``."""
    if isinstance(node, ast.IfExp):
        yield node, ast.IfExp(node.test, node.orelse, node.body)


def arithmetic(node: ast.AST) -> Changes:
    """``-`` for ``+``, ``/`` for ``*``."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        other = ARITHMETIC.get(type(node.op))
        if other and not (isinstance(node, ast.BinOp) and _is_text(node)):
            yield node, _with(node, op=other())


def off_by_one(node: ast.AST) -> Changes:
    """A whole number one larger, ``True`` for ``False``, a decimal number twice as large."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield node, ast.Constant(not node.value)
        elif isinstance(node.value, int):
            yield node, ast.Constant(node.value + 1)
        elif isinstance(node.value, float):
            yield node, ast.Constant(2 * node.value + (node.value == 0))


def first_for_last(node: ast.AST) -> Changes:
    """``[-1]`` for ``[0]``, and ``[0]`` for ``[-1]``."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) in ("0", "-1"):
        other = -1 if ast.unparse(node.slice) == "0" else 0
        yield node, _with(node, slice=ast.Constant(other))


def other_function(node: ast.AST) -> Changes:
    """The last for the sum, the least for the most, all for any, order as it comes for sorted."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
        return
    name = node.func.id
    if name == "sum":
        values = ast.List([ast.Constant(0), ast.Starred(node.args[0])])
        yield node, ast.Subscript(values, ast.Constant(-1))
    elif name in CALLS:
        yield node, _with(node, func=ast.Name(CALLS[name]))
    elif name in WITHOUT_EFFECT_ON_MEMBERS:
        yield node, ast.Call(ast.Name(WITHOUT_EFFECT_ON_MEMBERS[name]), node.args[:1], [])


def removed_statement(node: ast.AST) -> Changes:
    """A call, an assignment to something that exists, ``continue`` or ``break`` left out."""
    if isinstance(node, REMOVED) and not _binds_names(node) and not _is_docstring(node):
        yield node, ast.Pass()


def replaced_sum(node: ast.AST) -> Changes:
    """``=`` for ``+=``."""
    if isinstance(node, ast.AugAssign):
        yield node, ast.Assign([node.target], node.value, lineno=node.lineno)


OPERATORS: tuple[Operator, ...] = (
    boundary, negated_comparison, and_or, dropped_condition, decided_branch, swapped_branch,
    arithmetic, off_by_one, first_for_last, other_function, removed_statement, replaced_sum,
)


def _other_comparison(node: ast.AST, others: dict[type, type]) -> Changes:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            if type(operator) in others:
                changed = list(node.ops)
                changed[index] = others[type(operator)]()
                yield node, _with(node, ops=changed)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = type(node)(**{**dict(ast.iter_fields(node)), **fields})
    return ast.copy_location(changed, node)


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in sides)


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))


def _binds_names(node: ast.AST) -> bool:
    """Whether later lines would fail for want of a name."""
    targets = node.targets if isinstance(node, ast.Assign) else ()
    return any(
        isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
        for target in targets for inner in ast.walk(target)
    )


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and not isinstance(node.value, (ast.Call, ast.Await))

"""The functions of a module, by the lines they span."""

from __future__ import annotations

import ast
from typing import NamedTuple


class Function(NamedTuple):
    """An outermost function or method: where its body is, and where it begins."""

    name: str
    first: int


def by_line(module: ast.Module) -> dict[int, Function]:
    """The function that each line of a body belongs to; the lines that run at import have none."""
    return {
        line: Function(name, node.lineno)
        for name, node in outermost(module)
        for line in range(node.body[0].lineno, node.end_lineno + 1)
    }


def outermost(module: ast.Module) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions and methods with their qualified names; not those inside other functions."""
    found = []
    pending = [("", node) for node in reversed(module.body)]
    while pending:
        prefix, node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append((prefix + node.name, node))
        elif isinstance(node, ast.ClassDef):
            pending += [(f"{prefix}{node.name}.", inner) for inner in reversed(node.body)]
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            pending += [(prefix, inner) for inner in reversed(_inside(node))]
    return found


def _inside(node: ast.If | ast.Try | ast.With) -> list[ast.stmt]:
    handlers = [inner for handler in getattr(node, "handlers", ()) for inner in handler.body]
    return [*node.body, *handlers, *getattr(node, "orelse", ())]

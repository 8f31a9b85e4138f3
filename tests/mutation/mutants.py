"""Mutants: one change in one place of one file, with a name that stays while others change."""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from tests.mutation import functions
from tests.mutation.operators import OPERATORS, Operator

UNITS = (ast.Constant, ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List)
"""What needs no parentheses in the place of another expression."""

SKIPPED = (ast.Assert, ast.Import, ast.ImportFrom, ast.Raise)

WITHOUT_EFFECT = ("maxsize", "frozen", "slots", "gc")
"""Arguments of ``lru_cache`` and of classes on which no result depends."""


class Mutant(NamedTuple):
    """A changed file. ``function`` is empty for what runs when the file is imported."""

    path: str
    function: str
    operator: str
    before: str
    after: str
    number: int
    """How many equal changes the function has before this one."""
    line: int
    """Counted from the first line of the function, or of the file."""
    place: tuple[int, int]
    """Where the bytes that are replaced begin and end."""
    code: str
    """What they are replaced with: as many lines as before."""

    @property
    def key(self) -> str:
        """Names this mutant in the list of those that are equivalent."""
        number = f" #{self.number + 1}" if self.number else ""
        where = f"{self.path} {self.function or '<module>'}"
        return f"{where} {self.operator}: {self.before} -> {self.after}{number}"

    def apply(self, text: str) -> str:
        """The changed file."""
        data, (first, last) = text.encode(), self.place
        return (data[:first] + self.code.encode() + data[last:]).decode()

    def difference(self, text: str) -> str:
        """The lines that change."""
        lines = difflib.unified_diff(
            text.splitlines(), self.apply(text).splitlines(), lineterm="", n=1
        )
        return "\n".join(list(lines)[2:])


def mutants(root: Path, path: str) -> Iterator[Mutant]:
    """All mutants of one file."""
    text = (root / path).read_text(encoding="utf-8")
    starts = [0, *accumulate(len(line) for line in text.encode().splitlines(keepends=True))]
    module = ast.parse(text)
    function_of = functions.by_line(module)
    seen: Counter[tuple[str, ...]] = Counter()
    for operator, old, new in _changes(module):
        function = function_of.get(old.lineno, functions.Function("", 1))
        same = function.name, operator.__name__, _short(old), _short(new)
        first = starts[old.lineno - 1] + old.col_offset
        last = starts[old.end_lineno - 1] + old.end_col_offset
        code = _code(new, old.end_lineno - old.lineno)
        line = old.lineno - function.first
        yield Mutant(path, *same, seen[same], line, (first, last), code)
        seen[same] += 1


def sample(found: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """That many mutants, chosen by their keys: new code leaves the choice among the old alone."""
    def place(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    return sorted(found, key=place)[:size]


def _mutable(module: ast.Module) -> Iterator[ast.AST]:
    """Nodes that can be changed, in order; not types, failed checks, imports, sizes of caches."""
    pending: list[ast.AST] = [module]
    while pending:
        node = pending.pop()
        if isinstance(node, SKIPPED) or _is_for_types(node) or _is_without_effect(node):
            continue
        yield node
        if not isinstance(node, ast.JoinedStr):  # has no places of its own before Python 3.12
            pending += reversed(list(_inner(node)))


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            yield from (inner for inner in _listed(value) if isinstance(inner, ast.AST))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _is_without_effect(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg in WITHOUT_EFFECT


def _changes(module: ast.Module) -> Iterator[tuple[Operator, ast.AST, ast.AST]]:
    for node in _mutable(module):
        for operator in OPERATORS:
            for old, new in operator(node):
                yield operator, old, ast.fix_missing_locations(new)


def _code(node: ast.AST, breaks: int) -> str:
    """The node as text with so many line breaks."""
    code = ast.unparse(node)
    if isinstance(node, ast.stmt) or isinstance(node, UNITS) and not breaks:
        return code + breaks * "\n"
    return f"({code}{breaks * chr(10)})"


def _short(node: ast.AST) -> str:
    """A snippet of at most 80 characters in one line."""
    text = " ".join(ast.unparse(node).split())
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text if len(text) <= 80 else f"{text[:70]}... {digest[:6]}"

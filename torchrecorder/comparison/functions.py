"""Functions: what an operation calls, equal for all ways in which PyTorch offers one function."""

from __future__ import annotations

import re

from torchrecorder.comparison.display_names import differences
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun

SAME = re.compile(r"torch(?:\.Tensor|\.nn\.functional|\.ops\.aten)?\.(\w+)(?:\.\w+)?")
"""Namespaces in which one name means one function: ``x.softmax(-1)`` is ``F.softmax(x, -1)``."""

UNSET = ("False", "None")
"""Arguments that are as good as not given."""


def function(op: Op) -> str:
    """The function that an op calls; the name alone for one of PyTorch."""
    found = SAME.fullmatch(op.qualname)
    return found[1] if found else op.qualname


def call(op: Op) -> tuple[str, frozenset[tuple[str, str]]]:
    """The function that an op calls and the arguments that are set; equal for calls in two ways."""
    return function(op), frozenset(_given(dict(op.arguments), {}).items())


def is_replaced(before: RecordedRun, after: RecordedRun, old: Scope, new: Scope) -> bool:
    """Whether an innermost scope has a class of another name, or one that calls other functions."""
    steps = *before.children[old.id], *after.children[new.id]
    if any(isinstance(step, Scope) for step in steps):
        return False
    if old.cls != new.cls:
        return True
    left, right = before.module_of(old), after.module_of(new)
    if left is None or right is None or left.qualname == right.qualname:
        return False
    calls, others = (
        {function(step) for step in run.children[scope.id] if isinstance(step, Op)}
        for run, scope in ((before, old), (after, new))
    )
    return bool(calls and others) and calls.isdisjoint(others)


def replacement(old: Op, new: Op) -> str:
    """*relu → gelu*: the functions of two ops; with where they are from if they share a name."""
    if old.name != new.name:
        return f"{old.name} → {new.name}"
    return f"{old.qualname} → {new.qualname}"


def changed_arguments(old: Op, new: Op) -> str:
    """The differences of the arguments, without unset ones of another way to call."""
    pair = dict(old.arguments), dict(new.arguments)
    if old.qualname != new.qualname:
        pair = _given(*pair), _given(*pair[::-1])
    return differences(*pair)


def _given(arguments: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    return {
        name: text for name, text in arguments.items()
        if name in others or not (name.startswith("_") or text in UNSET)
    }

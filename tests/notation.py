"""flow: a recording as indented text, one line per op, for exact comparison.

A scope is its name and a colon; what it holds is indented; it ends with what it returns::

    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear

Values are named by what made them: ``max.1`` is the second result of ``max``; ``relu2`` is the
result of the second op called relu. ``op!`` wrote in place, ``op?`` is a hidden op. Constants
are ``const``, ``const2`` in the order they are read.
"""

from __future__ import annotations

from torchrecorder.events import OpKind, Role, ScopeKind, ValueId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.recording import Recording

_MARK = {OpKind.CALLED: "", OpKind.HIDDEN: "?", OpKind.PASS: ""}


def op_names(recording: Recording) -> list[str]:
    """Names of the ops, in run order."""
    return [op.name for op in recording.ops.values()]


class _Names:
    """A name for each op and value, given as they are met."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.ops: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.constants: dict[str, str] = {}

    def op(self, op: Op) -> str:
        if op.id not in self.ops:
            count = self.counts[op.name] = self.counts.get(op.name, 0) + 1
            self.ops[op.id] = op.name if count == 1 else f"{op.name}{count}"
        return self.ops[op.id]

    def value(self, value: ValueId) -> str:
        seen = self.recording.values[value]
        if seen.producer is None:
            return self.root(value)
        op = self.recording.ops[seen.producer]
        name = self.op(op)
        if len(op.outputs) > 1 and value in op.outputs:
            return f"{name}.{op.outputs.index(value)}"
        return name

    def root(self, value: ValueId) -> str:
        seen = self.recording.values[value]
        if seen.names:
            return seen.names[0]
        if value not in self.constants:
            count = len(self.constants) + 1
            name = "const" if seen.role in (Role.CONSTANT, Role.PARAMETER) else seen.role.value
            self.constants[value] = name if count == 1 else f"{name}{count}"
        return self.constants[value]


def flow(recording: Recording) -> str:
    """What the outermost scope holds, as text; scopes beside it are written in full."""
    names = _Names(recording)
    tops = recording.children[None]
    lines: list[str] = []
    for top in tops:
        single = len(tops) == 1 and isinstance(top, Scope)
        _write(recording, names, top, 0, lines, open_only=single)
    return "\n".join(lines)


def _write(recording, names, item, depth, lines, *, open_only=False):
    stack = [("in", item, depth, open_only)]
    while stack:
        step, item, depth, bare = stack.pop()
        pad = "    " * depth
        if isinstance(item, Op):
            lines.append(pad + _op_line(names, item))
        elif step == "out":
            found = ", ".join(names.value(slot.value) for slot in item.outputs)
            if item.kind not in _REGIONS:
                lines.append(f"{pad}return {found}".rstrip())
        else:
            if not bare:
                lines.append(f"{pad}{_title(item)}:")
            inside = depth if bare else depth + 1
            stack.append(("out", item, inside, False))
            children = reversed(recording.children[item.id])
            stack.extend(("in", each, inside, False) for each in children)


_REGIONS = {
    ScopeKind.NO_GRAD,
    ScopeKind.ENABLE_GRAD,
    ScopeKind.INFERENCE_MODE,
    ScopeKind.AUTOCAST,
    ScopeKind.CHECKPOINT,
    ScopeKind.CUSTOM_FUNCTION,
    ScopeKind.OPTIMIZER,
}


def _title(scope: Scope) -> str:
    if scope.kind in (ScopeKind.MODULE, ScopeKind.FUNCTION):
        return scope.name
    kind = scope.kind.value
    return kind if scope.name == kind else f"{kind} {scope.name}"


def _op_line(names: _Names, op: Op) -> str:
    inputs = ", ".join(names.value(slot.value) for slot in op.inputs)
    made = "!" if op.writes else ""
    failed = " failed" if op.failed else ""
    return f"{names.op(op)}{made} = {op.name}{_MARK[op.kind]}({inputs}){failed}"

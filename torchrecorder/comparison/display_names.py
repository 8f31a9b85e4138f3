"""Display names of the ops, scopes and tensors of a recording."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Set
from functools import cached_property

from torchrecorder.checks import plural
from torchrecorder.events import CONVERTED, OpId, Role, ScopeId, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import maker_of, ops_inside, scopes_inside
from torchrecorder.style import labels

DEFAULT = "default"
"""The text for a hyperparameter with its default value."""

AROUND = "around "
"""The start of the text about a wrapper."""

INDEX = re.compile(r"(?<![^.])\d+(?=[.: ]|$)")
"""An index in a list of modules, in a path."""

UNNAMED: Mapping[str, tuple[str, ...]] = {
    "Embedding": ("num_embeddings", "embedding_dim"),
    "Conv": ("in_channels", "out_channels"),
    "GroupNorm": ("num_groups", "num_channels"),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), ("normalized_shape",)),
    **dict.fromkeys(("ResponseNorm", "CrossMapLRN"), ("size",)),
    "Norm": ("num_features",),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), ("input_size", "hidden_size")),
    "Pad": ("padding",),
    "Softshrink": ("lambd",),
}
"""Hyperparameters that `extra_repr` gives without a name, by part of the class name."""


class DisplayNames:
    """Display names for one recording."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording

    def scope(self, scope: ScopeId) -> str:
        """Its path, and from the second call on the number of the call."""
        found = self.recording.scopes[scope]
        if found.module is None:
            around = self._path(found.parent)
            return f"{around}: {found.name}" if around else found.name
        name = found.path or found.name
        return f"{name} (call {found.call + 1})" if found.call else name

    def op(self, op: OpId) -> str:
        """The path of its scope, and its name if the scope also runs other ops."""
        found = self.recording.ops[op]
        if found.scope is None:
            return self._numbered(found)
        around = self.recording.scopes[found.scope]
        alone = len(self.recording.children[around.id]) == 1
        if alone and around.module is not None and around.path:
            return self.scope(around.id)
        return self.op_itself(op)

    def op_itself(self, op: OpId) -> str:
        """The path of its scope, and its name."""
        found = self.recording.ops[op]
        path = self._path(found.scope)
        return f"{path}: {self._numbered(found)}" if path else self._numbered(found)

    def value(self, value: ValueId) -> str:
        """Its name, or that of its producer."""
        found = self.recording.values[value]
        if any(found.names):
            return found.names[0]
        if found.producer is None:
            return "the input" if found.role is Role.INPUT else "a constant"
        return self.op(found.producer)

    def result(self, value: ValueId, reader: ScopeId | None) -> str:
        """Its name, or that of the outermost module that returns it to *reader*."""
        giver = self._giver(value, reader)
        if isinstance(giver, str):
            return giver
        return self.op(giver.id) if isinstance(giver, Op) else self.scope(giver.id)

    def full_result(self, value: ValueId, reader: ScopeId | None) -> str:
        """*result 2 of lstm (LSTM)*: the index of the result, and the class of the module."""
        giver = self._giver(value, reader)
        if isinstance(giver, str):
            return giver
        if isinstance(giver, Op):
            name = self._numbered(giver) if giver.scope == reader else self.op(giver.id)
            given = list(giver.outputs)
        else:
            name = self.scope_title(giver.id)
            given = list(dict.fromkeys(slot.value for slot in giver.outputs))
        several = len(given) > 1 and value in given
        return f"result {given.index(value) + 1} of {name}" if several else name

    def _argument(self, value: ValueId, reader: ScopeId | None) -> str:
        """*layers.0: x*: the argument by which a numbered module got a tensor; empty for others."""
        found = self.recording.scopes[reader] if reader is not None else None
        if found is None or not INDEX.search(found.path):
            return ""
        names = [slot.name for slot in found.inputs if slot.value == value]
        return f"{self.scope(found.id)}: {names[0]}" if names else ""

    def _giver(self, value: ValueId, reader: ScopeId | None) -> Op | Scope | str:
        """The outermost module that returns a tensor to *reader*, or the op that computed it; the
        name of its argument in a numbered module, or of a tensor from before the run."""
        if argument := self._argument(value, reader):
            return argument
        maker = maker_of(self.recording, value)
        if maker is None:
            return self.value(value)
        giver: Op | Scope = maker
        around = set(self.recording.within(reader))
        for inner in self.recording.within(maker.scope):
            scope = self.recording.scopes[inner]
            if inner in around or not any(slot.value == value for slot in scope.outputs):
                break
            giver = scope if scope.module is not None else giver
        return giver

    def scope_title(self, scope: ScopeId) -> str:
        """Its name and class, and whether it is compiled or scripted."""
        found = self.recording.scopes[scope]
        cls = found.cls if found.cls != found.name else ""
        kind = found.kind.value if found.kind in CONVERTED else ""
        return labels.with_remarks(self.scope(scope), cls, kind)

    def around(self, wrapper: ScopeId, inner: ScopeId) -> str:
        """*around base_layer (Linear), 4 ops*: the contents of a wrapper, and what it adds."""
        path, name = self.recording.scopes[wrapper].path, self.scope_title(inner)
        more = size(self.recording.scopes[wrapper], self.recording, {inner})
        inside = name.removeprefix(f"{path}.").removeprefix(f"{path}: ") if path else name
        held = f"{AROUND}{inside}"
        return held if more == "0 ops" else f"{held}, {more}"

    def contents(self, scope: ScopeId, known: Container[OpId]) -> str:
        """*12 ops, 1 parameter*; *9 of 12 ops* or *around 12 ops* if others or all are *known*."""
        inside = list(ops_inside(self.recording, [scope]))
        alone = sum(op not in known for op in inside)
        if alone == len(inside):
            return size(self.recording.scopes[scope], self.recording)
        number = f"{alone} of {len(inside)}" if alone else f"{AROUND}{len(inside)}"
        return f"{number} op{'s' if len(inside) != 1 else ''}"

    def _path(self, scope: ScopeId | None) -> str:
        """The path of the innermost module around, and the region inside it."""
        pieces: list[str] = []
        for inner in self.recording.within(scope):
            found = self.recording.scopes[inner]
            if found.module is not None:
                return ": ".join([*([self.scope(inner)] if found.path else []), *pieces[::-1]])
            pieces.append(found.name)
        return ": ".join(pieces[::-1])

    def _numbered(self, op: Op) -> str:
        number = self._numbers.get(op.id, 0)
        return f"{op.name} #{number}" if number else op.name

    @cached_property
    def _numbers(self) -> Mapping[OpId, int]:
        """Numbers from 1 for ops that share their name with other ops of their scope."""
        numbers: dict[OpId, int] = {}
        for inside in self.recording.children.values():
            named = grouped((step.name, step) for step in inside if isinstance(step, Op))
            for ops in named.values():
                if len(ops) > 1:
                    numbers.update((op.id, number) for number, op in enumerate(ops, 1))
        return numbers


def size(scope: Scope, recording: RecordedRun, without: Set[str] = frozenset()) -> str:
    """The contents of a scope: ``12 ops, 3 parameters``, except those of scopes in *without*."""
    ops = parameters = 0
    for inner in scopes_inside(recording, [scope.id]):
        if not without or without.isdisjoint(recording.within(inner)):
            item = recording.scopes[inner]
            module = recording.module_of(item) if item.call == 0 else None
            parameters += len(module.parameters) if module is not None else 0
            ops += sum(isinstance(step, Op) for step in recording.children[item.id])
    texts = [plural(ops, "op")]
    if parameters:
        texts.append(plural(parameters, "parameter"))
    return ", ".join(texts)


def forms(old: Value, new: Value) -> tuple[str, str]:
    """What differs between the forms of two tensors: ``("8×4", "6×4")``, the dtypes, or both."""
    if old.dtype == new.dtype:
        return labels.shape(old.shape), labels.shape(new.shape)
    if old.shape == new.shape:
        return old.dtype, new.dtype
    return labels.form(old), labels.form(new)


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The differences between two sets of settings, ``"stride: 1 → 2"``."""
    return ", ".join(
        f"{name}: {before.get(name, DEFAULT)} → {after.get(name, DEFAULT)}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    )


def hyperparameters(cls: str, detail: str) -> dict[str, str]:
    """``"3, 8, bias=False"`` of a class, by the names of its arguments.

    Example:
        >>> hyperparameters("Conv2d", "3, 8, bias=False")
        {'in_channels': '3', 'out_channels': '8', 'bias': 'False'}
    """
    pieces = [piece.partition("=") for piece in _pieces(detail)]
    plain = sum(not mark for _, mark, _ in pieces)
    known = next((names for part, names in UNNAMED.items() if part in cls), ())
    if len(known) != plain:
        known = tuple(f"argument {place}" for place, _ in enumerate(pieces, 1))
    names = iter(known)
    return {
        (name if mark else next(names)).strip(): (text if mark else name).strip()
        for name, mark, text in pieces
    }


def _pieces(detail: str) -> Iterator[str]:
    """*detail* split at the commas outside of brackets."""
    depth, start = 0, 0
    for place, letter in enumerate(detail):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth <= 0:
            yield detail[start:place]
            start = place + 1
    if detail[start:].strip():
        yield detail[start:]

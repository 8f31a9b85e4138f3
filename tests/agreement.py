"""Agreement: compare a recording with a witness's account of another, equal run.

Each function returns the list of disagreements, in words; empty is right.
"""

from __future__ import annotations

import torch

from tests.witness import BEFORE, UNSEEN, Call, Read, Witness, innermost
from torchrecorder.events import OpId, OpKind, ScopeKind, ValueId
from torchrecorder.graph.nodes import Op, Value
from torchrecorder.recording import Recording

_SAME = {
    "rsub": ("rsub", "sub"),
    "rpow": ("rpow", "pow"),
    "rmatmul": ("matmul",),
    "radd": ("add",),
    "rmul": ("mul",),
    "rtruediv": ("div",),
    "rdiv": ("div",),
    "truediv": ("div",),
    "mod": ("remainder",),
    "rmod": ("remainder",),
    "invert": ("bitwise_not",),
    "array": ("numpy",),
    "rfloordiv": ("floor_divide",),
    "floordiv": ("floor_divide",),
}
"""Names of Python's operators, and what a recording may call them."""

_QUIET = ("set_requires_grad", "requires_grad", "retain_grad", "get_grad", "record_stream")
"""Calls that only look, or change what autograd does later."""


class Agreement:
    """A recording and a witness, call by call."""

    def __init__(self, recording: Recording, witness: Witness) -> None:
        self.recording = recording
        self.witness = witness
        self.problems: list[str] = []
        self.call_of: dict[OpId, Call] = {}
        self.edges = 0
        self._align()

    def _align(self) -> None:
        """Match the recorded ops with the witnessed calls, both in order."""
        ops = [op for op in self.recording.ops.values() if self._heard(op)]
        at = 0
        for call in self.witness.calls:
            op = ops[at] if at < len(ops) else None
            if op is not None and _same_call(op, call):
                self.call_of[op.id] = call
                at += 1
            elif call.matters and not _ignorable(call):
                heard = f"{op.name}({len(op.inputs)})" if op else "nothing"
                self.problems.append(
                    f"call {call.number} {call.name}({len(call.reads)}) was recorded as {heard}"
                )
                return
        if at < len(ops):
            self.problems.append(f"{ops[at].id} {ops[at].name} was never called")

    @staticmethod
    def _heard(op: Op) -> bool:
        return op.kind is OpKind.CALLED or (op.kind is OpKind.PASS and bool(op.qualname))

    def flow(self, outputs: list[Read]) -> list[str]:
        """Every argument of every op, and every output, comes from where it came from; and every op
        that drew random numbers says so."""
        if self.problems:
            return self.problems
        for op_id, call in self.call_of.items():
            op = self.recording.ops[op_id]
            if op.random != call.drew:
                self.problems.append(f"{op.id} {op.name} drew random numbers: {call.drew}")
            for slot, read in zip(op.inputs, call.reads):
                self._compare(slot.value, read, f"{op.id} {op.name}.{slot.name}")
        found = self.recording.outputs
        if len(found) != len(outputs):
            self.problems.append(f"{len(found)} outputs are recorded, {len(outputs)} came")
        for slot, read in zip(found, outputs):
            self._compare(slot.value, read, f"output {slot.name}")
        return self.problems

    def modules(self) -> list[str]:
        """Every module call is a scope, with its inputs and outputs."""
        kinds = (ScopeKind.MODULE, ScopeKind.COMPILED, ScopeKind.SCRIPTED)
        scopes = [each for each in self.recording.scopes.values() if each.kind in kinds]
        ids = {name: key for key, each in self.recording.modules.items() for name in each.names}
        known = {ids.get(name) for name, _, _ in self.witness.modules}
        scopes = [each for each in scopes if each.module in known]
        heard = [name for name, _, _ in self.witness.modules]
        if [each.module for each in scopes] != [ids.get(name) for name in heard]:
            return [f"module calls {heard[:20]} are recorded as {[s.path for s in scopes][:20]}"]
        for scope, (path, inputs, outputs) in zip(scopes, self.witness.modules):
            for slot, read in zip(scope.inputs, inputs):
                self._compare(slot.value, read, f"scope {path} input {slot.name}")
            if len(scope.outputs) != len(outputs):
                self.problems.append(f"scope {path}: {len(outputs)} outputs came, "
                                     f"{len(scope.outputs)} are recorded")
            for slot, read in zip(scope.outputs, outputs):
                self._compare(slot.value, read, f"scope {path} output {slot.name}")
        return self.problems

    # One value --------------------------------------------------------------------------

    def _compare(self, value: ValueId, read: Read, where: str) -> None:
        self.edges += 1
        problem = self._wrong(self.recording.values[value], read)
        if problem:
            self.problems.append(f"{where}: {problem}")

    def _wrong(self, value: Value, read: Read) -> str:
        ends = self._ends(value)
        if tuple(value.shape) != read.shape and -1 not in value.shape:
            return f"{value.id} has shape {value.shape}, the tensor {read.shape}"
        seen = {each for each in read.writers if each >= 0}
        calls = {self.call_of[op].number for op in ends if op in self.call_of}
        hidden = any(op is None or op not in self.call_of for op in ends)
        allowed = {*read.own, *read.writes, *read.writers}
        if calls - allowed and (read.own or BEFORE in read.writers):
            return f"recorded as made by {self._names_of(calls)}, made by {self._names_of(allowed)}"
        missing = seen - calls
        if missing and not hidden and (missing := missing - self._ancestors(ends)):
            return f"the writes by {self._names_of(missing)} are not behind it"
        if not calls and seen and ends <= {None}:
            return f"recorded as there from the start, written by {self._names_of(seen)}"
        if ends == {None} and read.names and self._root(value).names[:1] != read.names[:1]:
            if not set(self._root(value).names) & set(read.names):
                return f"recorded as {self._root(value).names}, is {read.names}"
        return ""

    def _ends(self, value: Value) -> set[OpId | None]:
        """The ops that made *value*, through those that only pass it on."""
        ends: set[OpId | None] = set()
        stack, seen = [value], set()
        while stack:
            value = stack.pop()
            if value.id in seen:
                continue
            seen.add(value.id)
            op = self.recording.ops.get(value.producer) if value.producer else None
            if op is not None and op.kind is OpKind.PASS:
                stack.extend(self.recording.values[slot.value] for slot in op.inputs)
            else:
                ends.add(op.id if op else None)
        return ends

    def _root(self, value: Value) -> Value:
        while value.producer is not None:
            op = self.recording.ops[value.producer]
            value = self.recording.values[op.inputs[0].value]
        return value

    def _ancestors(self, ends: set[OpId | None]) -> set[int]:
        found: set[int] = set()
        stack, seen = [op for op in ends if op is not None], set()
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            if op in self.call_of:
                found.add(self.call_of[op].number)
            for slot in self.recording.ops[op].inputs:
                producer = self.recording.values[slot.value].producer
                if producer is not None:
                    stack.append(producer)
        return found

    def _names_of(self, calls: set[int]) -> str:
        names = {BEFORE: "nobody", UNSEEN: "somebody unseen"}
        found = [
            names.get(each) or f"{self.witness.calls[each].name}#{each}" for each in sorted(calls)
        ]
        return ", ".join(found) or "nobody"


def _same_call(op: Op, call: Call) -> bool:
    return len(op.inputs) == len(call.reads) and _plain(op.name) in _spellings(call.name)


def _plain(name: str) -> str:
    return name.split(".")[0].removesuffix("()").removeprefix("get_").strip("_")


def _spellings(name: str) -> set[str]:
    """What a recording may call a function of this name."""
    name = name.removeprefix("get_")
    known = {name, *_SAME.get(name, ())}
    if hasattr(torch.Tensor, f"__{name}__"):
        known.add(name[1:])  # __iadd__, __radd__
    return known


def _ignorable(call: Call) -> bool:
    """Gives a tensor that it was given, unwritten, or only marks one."""
    given = {id(read.tensor) for read in call.reads}
    handed_on = all(id(innermost(each)) in given for each in call.results) and not call.wrote
    return handed_on or call.name in _QUIET

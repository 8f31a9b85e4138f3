"""Builder: create recordings by hand, for tests."""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from torchrecorder.build import Event, build
from torchrecorder.events import (
    GradEdge, GradId, ModuleId, OpId, OpKind, Role, ScopeId, ScopeKind, ScopeLeft, Slot, SourceLine,
    ValueId,
)
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import GradNode, Module, Op, Scope, Value
from torchrecorder.graph.recording import RunDone, RunFacts
from torchrecorder.recording import Recording


@dataclass
class _BuiltScope:
    """A scope that has begun."""

    scope: ScopeId
    path: str
    module: ModuleId | None
    cls: str
    detail: str = ""
    training: bool = True
    parameters: list[Slot] = field(default_factory=list)
    buffers: list[Slot] = field(default_factory=list)
    made: dict[ValueId, None] = field(default_factory=dict)
    read: dict[ValueId, None] = field(default_factory=dict)
    returned: tuple[ValueId, ...] = ()


class Builder:
    """Builds a recording from calls, without running a model.

    >>> run = Builder("Net")
    >>> with run.scope("Net"):
    ...     x = run.input("x", (2, 3))
    ...     with run.scope("fc", "Linear"):
    ...         y = run.op("linear", x, run.parameter("weight", (4, 3)), shape=(2, 4))
    >>> recording = run.recording()
    >>> [scope.path for scope in recording.scopes.values()]
    ['', 'fc']
    """

    def __init__(self, name: str = "Net") -> None:
        self.name = name
        self.events: list[Event] = []
        self._open: list[_BuiltScope] = []
        self._given: dict[ValueId, str] = {}
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
        self._modules: dict[str, ModuleId] = {}
        self._calls: dict[str, int] = {}
        self._seen: dict[ValueId, Value] = {}
        self._paths: dict[str, ValueId] = {}
        self._stated: set[ModuleId] = set()
        self._failed = False

    @contextlib.contextmanager
    def scope(
        self,
        name: str,
        cls: str = "",
        *,
        kind: ScopeKind = ScopeKind.MODULE,
        detail: str = "",
        training: bool = True,
        recompute: bool = False,
    ) -> Iterator[ScopeId]:
        """A call of a module (or a region); the same path again is the same module.

        An exception that leaves the block is one that the call raised.
        """
        opened = self._enter(name, cls or name, kind, recompute)
        opened.detail, opened.training = detail, training
        try:
            yield opened.scope
        except BaseException:
            self._leave(opened, failed=True)
            raise
        self._leave(opened, failed=self._failed)

    def _enter(self, name: str, cls: str, kind: ScopeKind, recompute: bool) -> _BuiltScope:
        parent = self._open[-1] if self._open else None
        path = name if parent and not parent.path else f"{parent.path}.{name}" if parent else ""
        scope = ScopeId(f"s{self._next('scopes')}")
        module = None
        if kind is ScopeKind.MODULE:
            module = self._modules.setdefault(path, ModuleId(f"m{len(self._modules)}"))
        call = self._calls[path] = self._calls.get(path, -1) + 1
        opened = _BuiltScope(scope, path, module, cls)
        around = parent.scope if parent else None
        entered = Scope(
            scope, around, self._next("index"), kind, name, path, cls, module, call, None,
            recompute, (), (), None, True,
        )
        self.events.append(entered)
        self._open.append(opened)
        return opened

    def _leave(self, opened: _BuiltScope, *, failed: bool) -> None:
        self._open.pop()
        around = self._open[-1] if self._open else None
        read = [value for value in opened.read if value not in opened.made]
        given = opened.returned or tuple(opened.made)[-1:]
        if opened.module is not None and opened.module not in self._stated:
            self._stated.add(opened.module)
            self.events.append(
                Module(
                    opened.module, (opened.path,), opened.cls, f"nets.{opened.cls}", opened.detail,
                    tuple(opened.parameters), tuple(opened.buffers), opened.training, (),
                )
            )
        if around is not None:
            around.read.update(dict.fromkeys(read))
            around.made.update(opened.made)
        names = self._given if around is None else {}
        inputs = tuple(Slot(names.get(value, str(i)), value) for i, value in enumerate(read))
        outputs = tuple(
            Slot("" if len(given) == 1 else str(i), value) for i, value in enumerate(given)
        )
        self.events.append(ScopeLeft(opened.scope, inputs, outputs, 0.0, failed))

    def returns(self, *values: ValueId) -> None:
        """Set the results of the open scope; by default its last result."""
        self._open[-1].returned = values

    def input(
        self, name: str = "x", shape: tuple[int, ...] = (2, 4), dtype: str = "float32"
    ) -> ValueId:
        """A tensor from outside; an input of the run once an outermost scope reads it."""
        value = self._value(shape, dtype, Role.CONSTANT)
        self._given[value] = name
        return value

    def parameter(self, name: str, shape: tuple[int, ...] = (4, 4)) -> ValueId:
        """A parameter of the module that is open; the same one when its module runs again."""
        return self._stored(name, shape, Role.PARAMETER)

    def buffer(self, name: str, shape: tuple[int, ...] = (4,)) -> ValueId:
        """A buffer of the module that is open."""
        return self._stored(name, shape, Role.BUFFER)

    def _stored(self, name: str, shape: tuple[int, ...], role: Role) -> ValueId:
        around = self._open[-1]
        path = f"{around.path}.{name}" if around.path else name
        if path in self._paths:
            return self._paths[path]
        value = self._value(shape, "float32", role, names=(path,), kind="Parameter")
        self._paths[path] = value
        kept = around.parameters if role is Role.PARAMETER else around.buffers
        kept.append(Slot(name, value))
        return value

    def constant(self, shape: tuple[int, ...] = (4,), dtype: str = "float32") -> ValueId:
        """A tensor from before the run that is not an input."""
        return self._value(shape, dtype, Role.CONSTANT)

    def op(
        self,
        name: str,
        *inputs: ValueId,
        shape: tuple[int, ...] = (2, 4),
        dtype: str = "float32",
        arguments: tuple[tuple[str, str], ...] = (),
        kind: OpKind = OpKind.CALLED,
        writes: ValueId | None = None,
        outputs: int = 1,
        grads: tuple[str, ...] = (),
        slots: tuple[str, ...] = (),
        random: bool = False,
    ) -> ValueId:
        """An op that reads *inputs*; returns its (first) result.

        Args:
            writes: The value it writes in place; the result is its new value.
            outputs: The number of results; with 0, its first input is returned.
            grads: Names of the grad nodes it creates, in a chain.
            slots: Names of the arguments; by default numbers.
            random: Whether it draws random numbers.
        """
        op = OpId(f"o{self._next('ops')}")
        number = self._next("index")
        edge = self._grad_chain(op, inputs, grads)
        names = self._seen[writes].names if writes is not None else ()
        made = [
            self._value(shape, dtype, Role.INNER, producer=op, names=names, grad=edge)
            for _ in range(outputs)
        ]
        named = slots or tuple(map(str, range(len(inputs))))
        read = tuple(Slot(slot, value) for slot, value in zip(named, inputs))
        written = tuple(made[:1]) if writes is not None else ()
        where = self._open[-1].scope if self._open else None
        source = SourceLine("/home/me/net.py", 10 + number, "forward")
        self.events.append(
            Op(
                op, where, number, kind, name, f"torch.{name}", read, tuple(made), written,
                arguments, source, 0.0, False, random=random,
            )
        )
        if self._open:
            self._open[-1].read.update(dict.fromkeys(self._passed(inputs)))
            self._open[-1].made.update(dict.fromkeys(made))
        return made[0] if made else inputs[0]

    def fail(self, error: str = "RuntimeError", message: str = "no") -> None:
        """The op made last raised; the scopes that are open now fail with it."""
        self._failed = True
        where = self._open[-1].scope if self._open else None
        op = next(event for event in reversed(self.events) if isinstance(event, Op))
        self.events.append(Failure(error, message, where, op.id, False, source=op.source))

    def recording(self) -> Recording:
        """The recording that was built."""
        return build([*self.events, RunDone(self.name, RunFacts("2.13.0", "grad"))], Recording)

    def _next(self, what: str) -> int:
        return next(self._numbers[what])

    def _passed(self, values: tuple[ValueId, ...]) -> Iterator[ValueId]:
        """The *values* that a caller passes: inputs, and results of ops."""
        return (
            value
            for value in values
            if value in self._given or self._seen[value].producer is not None
        )

    def _grad_chain(
        self, op: OpId, inputs: tuple[ValueId, ...], names: tuple[str, ...]
    ) -> GradEdge | None:
        """Add grad nodes from the inputs to the result; returns the edge of the result."""
        edges = tuple(self._seen[value].grad for value in inputs)
        where = self._open[-1].scope if self._open else None
        for name in names:
            grad = GradId(f"g{self._next('grads')}")
            self.events.append(GradNode(grad, name, op, where, edges, None))
            edges = (GradEdge(grad, 0),)
        return edges[0] if names else None

    def _value(
        self,
        shape: tuple[int, ...],
        dtype: str,
        role: Role,
        *,
        names: tuple[str, ...] = (),
        producer: OpId | None = None,
        grad: GradEdge | None = None,
        kind: str = "Tensor",
    ) -> ValueId:
        value = ValueId(f"v{self._next('values')}")
        seen = Value(
            value, shape, dtype, "cpu", role, names, producer, grad is not None, grad,
            4 * prod(shape), kind, role is Role.PARAMETER, -1,
        )
        self.events.append(seen)
        self._seen[value] = seen
        return value

"""Random recordings, as hypothesis draws them: valid, nested, odd in every text and number."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from torchrecorder.events import Gradient, OpKind, ScopeKind, SourceLine, Statistics
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import BackwardRun, GradRun
from torchrecorder.graph.recording import RunFacts
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

STEPS = ("enter", "enter", "leave", "op", "op", "op", "write", "query", "region", "layers")

TEXTS = st.one_of(
    st.sampled_from(["conv1", "0", "", "<b>", 'a"b', "a/b", "}\n", "\x00", "\ud800", "漢字🔥"]),
    st.text(max_size=6),
)
TIMES = st.one_of(st.none(), st.floats(0, 1e3, allow_nan=False))
WHOLES = st.integers(-(2**63) + 1, 2**63 - 1)
SOURCES = st.one_of(st.none(), st.builds(SourceLine, TEXTS, WHOLES, TEXTS))
SHAPES = st.lists(st.integers(0, 2**40), max_size=4).map(tuple)


@st.composite
def recordings(draw: Any, steps: int = 24) -> Recording:
    """A run of a few scopes and ops; of half of them every fact is changed at random.

    In the others, layers that repeat are equal, and fold.
    """
    recording = built(draw(st.lists(st.sampled_from(STEPS), max_size=steps)), draw)
    return _odd(draw, recording) if draw(st.booleans()) else recording


def built(steps: list[str], draw: Any) -> Recording:
    """A recording made by following *steps*."""
    run = Builder("Net")
    with _Stack(run) as stack:
        values = [run.input("x")]
        for step in steps:
            if step == "enter" and stack.depth < 8:
                stack.enter(draw(st.sampled_from("abc")), ScopeKind.MODULE)
                values.append(run.parameter("weight"))
            elif step == "region" and stack.depth < 8:
                stack.enter("no_grad", ScopeKind.NO_GRAD)
            elif step == "leave" and stack.depth > 1:
                stack.leave()
            elif step == "layers" and stack.depth < 8:
                for _ in range(draw(st.integers(2, 3))):
                    values.append(_layer(run, stack, values[-1], draw))
            elif step in ("op", "write", "query"):
                values.append(_op(run, step, values, draw))
    return run.recording()


def _layer(run: Builder, stack: _Stack, value: Any, draw: Any) -> Any:
    """One of several equal layers, which now and then read something else too."""
    others = draw(st.sampled_from([(), (), (), (value,)]))
    stack.enter(f"layers.{stack.number()}", ScopeKind.MODULE, "Layer")
    stack.enter("linear", ScopeKind.MODULE)
    value = run.op("linear", value, run.parameter("weight"), outputs=1)
    stack.leave()
    value = run.op("add", value, *others, outputs=1)
    stack.leave()
    return value


def _op(run: Builder, step: str, values: list[Any], draw: Any) -> Any:
    given = draw(st.lists(st.sampled_from(values), max_size=3))
    written = draw(st.sampled_from(values)) if step == "write" else None
    return run.op(
        draw(st.sampled_from(["add", "view", "linear", "relu_"])),
        *given,
        *([written] if written else [values[0]] if not given else []),
        writes=written,
        outputs=0 if step == "query" else draw(st.integers(1, 2)),
        kind=draw(st.sampled_from(OpKind)),
        grads=draw(st.sampled_from([(), ("AddBackward0",), ("A", "B")])),
    )


class _Stack:
    """Scopes that are open, in the root module."""

    def __init__(self, run: Builder) -> None:
        self.run = run
        self.open: list[Any] = []
        self.layers = 0

    def number(self) -> int:
        """The number of another layer."""
        self.layers += 1
        return self.layers

    @property
    def depth(self) -> int:
        return len(self.open)

    def enter(self, name: str, kind: ScopeKind, cls: str = "") -> None:
        scope = self.run.scope(name, cls or name, kind=kind)
        scope.__enter__()
        self.open.append(scope)

    def leave(self) -> None:
        self.open.pop().__exit__(None, None, None)

    def __enter__(self) -> _Stack:
        self.enter("Net", ScopeKind.MODULE)
        return self

    def __exit__(self, *exc: Any) -> None:
        while self.open:
            self.leave()


def _odd(draw: Any, recording: Recording) -> Recording:
    """*recording* with random texts, numbers and additional facts."""
    flag = st.booleans()
    scopes = {
        each.id: each.replace(
            name=draw(TEXTS), path=draw(TEXTS), cls=draw(TEXTS), seconds=draw(TIMES),
            source=draw(SOURCES), failed=draw(flag),
        )
        for each in recording.scopes.values()
    }
    ops = {
        each.id: each.replace(
            name=draw(TEXTS), qualname=draw(TEXTS), seconds=draw(TIMES),
            source=draw(SOURCES), failed=draw(flag), recompute=draw(flag),
            arguments=tuple(draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=2))),
        )
        for each in recording.ops.values()
    }
    values = {
        each.id: each.replace(
            shape=draw(SHAPES), dtype=draw(TEXTS), device=draw(TEXTS), bytes=draw(WHOLES),
            storage=draw(st.integers(-1, 5)), trainable=draw(flag),
        )
        for each in recording.values.values()
    }
    changed = replace(
        recording, name=draw(TEXTS), scopes=MappingProxyType(scopes), ops=MappingProxyType(ops),
        values=MappingProxyType(values),
    )
    return replace(
        changed,
        run=draw(_facts(changed)),
        backward_runs=tuple(draw(st.lists(_backward(changed), max_size=2))) if ops else (),
        grad_runs=tuple(draw(st.lists(_grad_run(changed), max_size=3))),
        measured=draw(_measured(changed)),
        statistics=tuple(draw(st.lists(_statistics(changed), max_size=3))),
    )


def _one(among: Any) -> Any:
    return st.sampled_from(list(among)) if among else st.nothing()


def _facts(recording: Recording) -> Any:
    maybe_op = st.one_of(st.none(), _one(recording.ops))
    maybe_grad = st.one_of(st.none(), _one(recording.grad_nodes))
    failures = st.builds(
        Failure, TEXTS, TEXTS, _one(recording.scopes), maybe_op, st.booleans(), maybe_grad,
        source=SOURCES,
    )
    return st.builds(
        RunFacts, TEXTS, TEXTS, st.lists(TEXTS, max_size=2).map(tuple),
        st.one_of(st.none(), failures), st.integers(0, 9), TIMES, TIMES,
    )


def _backward(recording: Recording) -> Any:
    return st.builds(
        BackwardRun, st.integers(0, 3), _one(recording.ops), TIMES, st.booleans(), st.booleans()
    )


def _grad_run(recording: Recording) -> Any:
    gradient = st.one_of(st.none(), st.builds(Gradient, SHAPES, TEXTS, TEXTS, WHOLES))
    some = st.lists(gradient, max_size=2).map(tuple)
    return st.builds(
        GradRun, _one(recording.grad_nodes), st.integers(0, 3), WHOLES, TIMES, some, some,
        st.booleans(),
    )


def _nodes(recording: Recording) -> Any:
    tables = (recording.scopes, recording.ops, recording.values, recording.grad_nodes)
    return st.sampled_from([each for table in tables for each in table])


def _measured(recording: Recording) -> Any:
    amounts = st.dictionaries(_nodes(recording), st.floats(allow_nan=False), max_size=3)
    found = st.dictionaries(TEXTS, amounts.map(MappingProxyType), max_size=2)
    return found.map(MappingProxyType)


def _statistics(recording: Recording) -> Any:
    number, count = st.floats(allow_nan=False), st.integers(0, 2**40)
    counts = (count, number, number, number, number, number, count, count, count)
    return st.one_of(
        st.builds(Statistics, _one(recording.values), count, st.just(-1), *counts),
        st.builds(Statistics, _one(recording.grad_nodes), count, st.integers(0, 3), *counts),
    )

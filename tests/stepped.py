"""A training step written by hand: two layers, their backward, and what was measured."""

from __future__ import annotations

from typing import Any

from torchrecorder.build import Event, build
from torchrecorder.events import (
    GradEdge, GradId, Gradient, GradNodeMade, Measured, ModuleId, OpId, OpKind, Role, ScopeId,
    ScopeKind, ScopeLeft, Slot, Statistics, ValueId,
)
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun, Module, Op, Scope, Value
from torchrecorder.graph.recording import RunDone, RunFacts
from torchrecorder.recording import Recording

FORM = Gradient((2, 4), "float32", "cpu", 32)


def _value(number: int, role: Role, name: str, producer: str | None, grad: str | None) -> Value:
    return Value(
        ValueId(f"v{number}"),
        (2, 4),
        "float32",
        "cpu",
        role,
        (name,) if name else (),
        OpId(producer) if producer else None,
        grad is not None or role is Role.PARAMETER,
        GradEdge(GradId(grad), 0) if grad else None,
        32,
        "Tensor",
        role is Role.PARAMETER,
        number,
    )


def _op(
    number: int,
    scope: str | None,
    index: int,
    name: str,
    reads: str,
    gives: str,
    seconds: float,
) -> Op:
    return Op(
        OpId(f"o{number}"),
        ScopeId(scope) if scope else None,
        index,
        OpKind.CALLED,
        name,
        f"torch.{name}",
        tuple(Slot(str(place), ValueId(each)) for place, each in enumerate(reads.split())),
        tuple(ValueId(each) for each in gives.split()),
        (),
        (),
        None,
        seconds,
        False,
    )


def _module(number: int, path: str, parameter: str | None) -> Module:
    slots = (Slot("weight", ValueId(parameter)),) if parameter else ()
    cls = "Linear" if parameter else "Net"
    return Module(ModuleId(f"m{number}"), (path,), cls, f"x.{cls}", "", slots, (), True, ())


def _enter(number: int, parent: str | None, index: int, path: str) -> Scope:
    return Scope(
        ScopeId(f"s{number}"),
        ScopeId(parent) if parent else None,
        index,
        ScopeKind.MODULE,
        path or "Net",
        path,
        "Linear" if path else "Net",
        ModuleId(f"m{number}"),
        0,
        None,
        False,
        (),
        (),
        None,
        True,
    )


def _leave(number: int, takes: str, gives: str, seconds: float) -> ScopeLeft:
    return ScopeLeft(
        ScopeId(f"s{number}"),
        (Slot("x", ValueId(takes)),),
        (Slot("", ValueId(gives)),),
        seconds,
        False,
    )


def _found(
    number: int,
    name: str,
    owner: str | None,
    scope: str | None,
    nexts: str,
    leaf: str | None = None,
) -> GradNode:
    edges = tuple(None if each == "-" else GradEdge(GradId(each), 0) for each in nexts.split())
    return GradNode(
        GradId(f"g{number}"),
        name,
        OpId(owner) if owner else None,
        ScopeId(scope) if scope else None,
        edges,
        ValueId(leaf) if leaf else None,
    )


def _ran(
    number: int, order: int, seconds: float, *, leaf: bool = False, failed: bool = False
) -> GradRun:
    return GradRun(
        GradId(f"g{number}"), 0, order, seconds, (FORM,), () if leaf else (FORM,), failed
    )


def _stats(node: str, norm: float, run: int = -1, nans: int = 0, zeros: int = 0) -> Statistics:
    return Statistics(node, 0, run, 8, 0.0, 1.0, -1.0, 1.0, norm, zeros, nans, 0)


def events(*, failed: bool = False) -> list[Event]:
    """Net(x) = b(a(x)), loss.backward(), with amounts that are easy to add up."""
    return [
        _module(0, "", None),
        _module(1, "a", "v1"),
        _module(2, "b", "v3"),
        _value(0, Role.CONSTANT, "", None, None),
        _value(1, Role.PARAMETER, "a.weight", None, None),
        _value(3, Role.PARAMETER, "b.weight", None, None),
        _enter(0, None, 0, ""),
        _enter(1, "s0", 1, "a"),
        _found(0, "AccumulateGrad", None, None, "", "v1"),
        _found(1, "MmBackward0", "o0", "s1", "- g0"),
        _value(2, Role.INNER, "", "o0", "g1"),
        _op(0, "s1", 2, "linear", "v0 v1", "v2", 3.0),
        _leave(1, "v0", "v2", 4.0),
        _enter(2, "s0", 3, "b"),
        _found(2, "AccumulateGrad", None, None, "", "v3"),
        _found(3, "TBackward0", "o1", "s2", "g2"),
        _found(4, "MmBackward0", "o1", "s2", "g1 g3"),
        _value(4, Role.INNER, "", "o1", "g4"),
        _op(1, "s2", 4, "linear", "v2 v3", "v4", 5.0),
        _leave(2, "v2", "v4", 5.0),
        _leave(0, "v0", "v4", 10.0),
        Measured("saved bytes", "g1", 100),
        Measured("saved bytes", "g4", 200),
        Measured("flops", "o0", 1000),
        Measured("flops", "o1", 3000),
        Measured("flops", "gone", 7),
        _stats("v2", 3.0, zeros=4),
        _stats("v4", 4.0),
        _stats("g4", 1.0, 0),
        _stats("g1", 1e-6, 0),
        _stats("g2", 3.0, 0),
        _stats("g0", 4.0, 0),
        _ran(4, 0, 6.0),
        _ran(3, 1, 1.0),
        _ran(2, 2, 0.5, leaf=True),
        _ran(1, 3, 2.0, failed=failed),
        *([] if failed else [_ran(0, 4, 0.25, leaf=True)]),
        BackwardRun(0, OpId("o2"), 11.0, False, failed),
        _op(2, None, 5, "backward", "v4", "", 11.0),
        *(
            [Failure("ValueError", "no", ScopeId("s1"), OpId("o0"), True, GradId("g1"))]
            if failed
            else []
        ),
        RunDone("Net", RunFacts("2.13.0", "grad", seconds=22.0, overhead=1.0)),
    ]


def stepped(*, failed: bool = False) -> Recording:
    """The recording of the step."""
    return build(events(failed=failed), Recording)


def doubled() -> Recording:
    """The step, with a node that its backward made."""
    extra: list[Any] = [
        _found(5, "MulBackward0", "o2", None, "g1"),
        GradNodeMade(GradId("g5"), GradId("g4")),
    ]
    told = events()
    return build([*told[:-1], *extra, told[-1]], Recording)

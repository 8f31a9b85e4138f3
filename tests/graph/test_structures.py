"""Which scopes have equal structure: one run, and one fact of it changed at a time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graph.test_consistency import changed
from torchrecorder.events import OpKind, Role, ScopeId, ScopeKind, Slot, ValueId
from torchrecorder.graph.structural_hash import is_inactive, structures
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def run(training: bool = True, stepping: bool = False) -> Recording:
    """A block with an op, a layer with a weight, a dropout, and two ops with a third."""
    made = Builder("Net")
    around = ScopeKind.OPTIMIZER if stepping else ScopeKind.MODULE
    with made.scope("Net"):
        x = made.input("x")
        with made.scope("block", "Block", detail="p=1", kind=around):
            h = made.op("sum", x, arguments=(("dim", "0"),))
            with made.scope("layer", "Linear"):
                h = made.op("linear", h, made.parameter("weight"))
            with made.scope("drop", "Dropout", detail="p=0.1", training=training):
                h = made.op("dropout", h, arguments=(("p", "0.1"),))
            made.op("sub", made.op("exp", h), made.op("exp", h), x)
    return made.recording()


def block(recording: Recording) -> str:
    """The digest of the block."""
    return structures(recording)[ScopeId("s1")]


V0, V1, V7 = (ValueId(f"v{number}") for number in (0, 1, 7))

COUNTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "class": ("scopes", "s1", {"cls": "Other"}),
    "recompute": ("scopes", "s1", {"recompute": True}),
    "failed scope": ("scopes", "s1", {"failed": True}),
    "kind of scope": ("scopes", "s1", {"kind": ScopeKind.FUNCTION}),
    "result": ("scopes", "s1", {"outputs": (Slot("", V1),)}),
    "name of result": ("scopes", "s1", {"outputs": (Slot("loss", V7),)}),
    "name inside": ("scopes", "s2", {"name": "other"}),
    "class inside": ("scopes", "s2", {"cls": "Other"}),
    "full name of class": ("modules", "m1", {"qualname": "other.Block"}),
    "settings": ("modules", "m1", {"detail": "p=2"}),
    "training": ("modules", "m1", {"training": False}),
    "settings inside": ("modules", "m2", {"detail": "bias"}),
    "function": ("ops", "o0", {"qualname": "torch.sin"}),
    "kind of op": ("ops", "o0", {"kind": OpKind.HIDDEN}),
    "failed op": ("ops", "o0", {"failed": True}),
    "argument": ("ops", "o0", {"arguments": (("dim", "1"),)}),
    "no argument": ("ops", "o0", {"arguments": ()}),
    "written": ("ops", "o0", {"writes": ("v1",)}),
    "name of tensor argument": ("ops", "o0", {"inputs": (Slot("other", V0),)}),
    "shape": ("values", "v1", {"shape": (3, 4)}),
    "shape of input": ("values", "v0", {"shape": (3, 4)}),
    "dtype": ("values", "v1", {"dtype": "int64"}),
    "kind of tensor": ("values", "v1", {"kind": "sparse"}),
    "role of input": ("values", "v0", {"role": Role.BUFFER}),
    "argument of dropout": ("ops", "o2", {"arguments": (("p", "0.2"),)}),
}

MAKES_NONE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "name": ("scopes", "s1", {"name": "other", "path": "other"}),
    "time": ("scopes", "s1", {"seconds": 3.0}),
    "time of op": ("ops", "o0", {"seconds": 3.0}),
    "names of weights": ("values", "v2", {"names": ("a", "b")}),
    "origin of input": ("values", "v0", {"role": Role.CONSTANT, "names": ("y",)}),
    "call": ("scopes", "s1", {"call": 4}),
}


@pytest.mark.parametrize("change", [*COUNTS, *MAKES_NONE])
def test_scopes_of_equal_structure(change: str) -> None:
    """All that was done counts, in what order, on what; names, times and origins do not."""
    table, row, facts = {**COUNTS, **MAKES_NONE}[change]
    recording = run()
    other = changed(recording, table, row, **facts)
    assert other != recording
    assert (block(recording) != block(other)) == (change in COUNTS)
    assert block(recording) == block(run())


@pytest.mark.parametrize("order", [("v5", "v6", "v0"), ("v6", "v5", "v0"), ("v5", "v5", "v0"),
                                   ("v0", "v6", "v5"), ("v5", "v6", "v2")])
def test_who_reads_what_counts(order: Any) -> None:
    """Which of two equal tensors, whether twice, and what of outside."""
    inputs = tuple(Slot(str(number), value) for number, value in enumerate(order))
    recording = run()
    last = [*recording.ops][-1]
    other = changed(recording, "ops", last, inputs=inputs)
    assert (block(other) == block(recording)) == (order == ("v5", "v6", "v0"))


def differing(recording: Recording) -> Recording:
    """The same with another rate of dropout."""
    other = changed(recording, "ops", "o2", arguments=(("p", "0.5"),))
    module = next(module for module in recording.modules.values() if module.cls == "Dropout")
    return changed(other, "modules", module.id, detail="p=0.5")


@pytest.mark.parametrize("training", [True, False])
def test_rates_of_dropouts_that_do_nothing(training: bool) -> None:
    """Do not count, unlike those of active dropouts; the class of a dropout always does."""
    recording = run(training)
    other = differing(recording)
    assert (block(recording) != block(other)) == training
    modules = recording.modules.values()
    assert [is_inactive(one, ()) for one in modules].count(True) == (not training)
    renamed = changed(recording, "ops", "o2", qualname="torch.other")
    assert block(recording) != block(renamed)


def test_numbers_in_steps_of_optimizers() -> None:
    """Arguments may depend on how many steps were taken; what runs counts all the same."""
    recording = run(stepping=True)
    other = changed(recording, "ops", "o0", arguments=(("dim", "1"),))
    assert block(recording) == block(other)
    renamed = changed(recording, "ops", "o0", qualname="torch.other")
    assert block(recording) != block(renamed)


@pytest.mark.parametrize("kind", [ScopeKind.MODULE, ScopeKind.FUNCTION])
def test_calls_that_return_their_argument_count_in_modules(kind: ScopeKind) -> None:
    """A call such as ``to`` is drawn there, but not outside of them."""
    found = set()
    for calls in (0, 1):
        made = Builder("Net")
        with made.scope("Net"):
            x = made.input("x")
            with made.scope("block", "Block", kind=kind):
                for _ in range(calls):
                    made.op("to", x, kind=OpKind.PASS, outputs=0)
                made.op("exp", x)
        found.add(block(made.recording()))
    assert len(found) == (2 if kind is ScopeKind.MODULE else 1)


def counted(passes: bool, computes: bool) -> str:
    """The digest of a block with a region, in which an op returns its argument or computes."""
    made = Builder("Net")
    with made.scope("Net"):
        x = made.input("x")
        with made.scope("block", "Block"):
            with made.scope("region", kind=ScopeKind.NO_GRAD):
                made.op("to", x, kind=OpKind.PASS)
                made.op("sin", x)
            made.op("exp", x)
    recording = made.recording()
    recording = changed(recording, "ops", "o0", outputs=(), kind=OpKind.PASS)
    for op, stays in (("o0", passes), ("o1", computes)):
        if not stays:
            recording = changed(recording, "ops", op, scope="s0")
    return block(recording)


def test_region_counts_if_any_of_its_ops_does() -> None:
    """One that returns its argument does not."""
    assert counted(True, True) == counted(False, True) != counted(True, False)
    assert counted(True, False) == counted(False, False)


@pytest.mark.parametrize(("kind", "counts"), [
    (ScopeKind.FUNCTION, False), (ScopeKind.NO_GRAD, False), (ScopeKind.CHECKPOINT, True),
    (ScopeKind.MODULE, True),
])
def test_numbers_in_arguments_inside(kind: ScopeKind, counts: bool) -> None:
    """In functions and modes they count for the scope around it only."""
    made = Builder("Net")
    with made.scope("Net"):
        with made.scope("block", "Block"):
            with made.scope("inside", kind=kind) as inside:
                made.op("sum", made.input("x"), arguments=(("dim", "0"),))
    recording = made.recording()
    other = changed(recording, "ops", "o0", arguments=(("dim", "1"),))
    assert (structures(recording)[inside] != structures(other)[inside]) == counts
    assert block(recording) != block(other)


def test_settings_of_layers_in_evaluation_mode() -> None:
    """Only those of dropouts do not count."""
    recording = changed(run(), "modules", "m2", training=False)
    assert block(recording) != block(changed(recording, "modules", "m2", detail="bias"))


def test_gradients_that_only_a_later_iteration_reads() -> None:
    """They change nothing of what reads another result of the backward pass."""
    made = Builder("Net")
    results = []
    with made.scope("Net"):
        loss = made.input("loss")
        for outputs in (2, 1):
            with made.scope("step", kind=ScopeKind.FUNCTION):
                first = made.op("backward", loss, outputs=outputs)
                results.append((first, ValueId(f"v{int(first[1:]) + outputs - 1}")))
                made.op("exp", results[-1][1])
    recording = changed(made.recording(), "values", results[0][0], names=("weight.grad",))
    first, second = [*structures(recording).values()][1:]
    assert first == second


def test_gradients_that_other_operations_make() -> None:
    """They are numbered like other results, whether a backward pass before them gave any."""
    made, scaled = Builder("Net"), list[str]()
    with made.scope("Net"):
        loss = made.input("loss")
        for outputs in (1, 0):
            with made.scope("step", kind=ScopeKind.FUNCTION):
                made.op("backward", loss, outputs=outputs)
                scaled.append(made.op("mul_", loss))
                made.op("neg", scaled[-1])
    recording = changed(made.recording(), "values", "v1", names=("weight.grad",))
    for value in scaled:
        recording = changed(recording, "values", value, names=("other.grad",))
    first, second = [*structures(recording).values()][1:]
    assert first == second


def test_calls_of_a_data_loader_are_what_they_return() -> None:
    """Whatever ran in them, such as a shuffle in the first."""
    made = Builder("Net")
    batches = []
    with made.scope("Net"):
        for shuffles in (True, False):
            with made.scope("loader", kind=ScopeKind.DATA_LOADER):
                if shuffles:
                    made.op("randperm")
                batches.append(made.op("stack", made.input()))
        for batch in batches:
            made.op("exp", batch)
    first, second = [*structures(made.recording()).values()][1:]
    assert first == second

"""A table in which what repeats has one line."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import MappingProxyType

import pytest
import torch
from hypothesis import given

import torchrecorder
from tests.figures import linear
from tests.graph.test_consistency import changed
from tests.test_properties import RUNS
from tests.views.test_blocks import alternating, cell, loop
from tests.views.test_fold import stack
from tests.views.test_similar import stages
from torchrecorder.events import ModuleId, ScopeKind, ValueId
from torchrecorder.export.table.folded_rows import folded
from torchrecorder.export.table.rows import every_row
from torchrecorder.graph.nodes import Module
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def titles(recording: Recording, *, ops: bool = False) -> list[tuple[int, str]]:
    """Depth and title of each line."""
    return [(row.depth, row.title) for row in folded(recording, every_row(recording, ops=ops))]


def test_repeated_layers_have_one_line() -> None:
    """With what lies in the first of them."""
    assert titles(stack(12)) == [
        (0, "Stack"),
        (1, "stem (Stem)"),
        (1, "layers.0 … layers.11 (Block)  ×12"),
        (2, "fc (Linear)"),
        (1, "head (Head)"),
    ]


def test_layers_in_turn_have_a_line_for_each_sort() -> None:
    """As they share one group in a figure."""
    found = [title for depth, title in titles(alternating(12)) if depth == 1]
    assert found == [
        "stem (Stem)",
        "layers.0, 2 … 10 (Block)  ×6",
        "layers.1, 3 … 11 (Sparse)  ×6",
    ]


def test_ops_of_a_loop() -> None:
    """If ops are listed at all."""
    found = [title for depth, title in titles(loop(50, cell), ops=True) if depth == 1]
    assert found == ["getitem()  ×50", "add()  ×50", "tanh()  ×50"]


def test_what_folds_across_modules_has_one_line() -> None:
    """As in a figure, where it is in the first of them: here a mask for each of equal layers."""
    run = Builder("Net")
    with run.scope("Net"):
        h, masks = run.input(), list[ValueId]()
        for name in ("relu", "exp", "tanh"):
            with run.scope(name, name.title()):
                masks.append(run.op("ones"))
                run.op(name, h)
        for place, mask in enumerate(masks):
            with run.scope(f"layers.{place}", "Layer"):
                h = run.op("mul", linear(run, "fc", h), mask)
    found = run.recording()
    for op in [op for op in found.ops.values() if op.name == "ones"]:
        found = changed(found, "ops", op.id, source=None)  # of one line
    listed = titles(found, ops=True)
    assert [title for _, title in listed if title.startswith("ones")] == ["ones()  ×3"]


def test_loops_in_a_loop() -> None:
    """A row has the number of all its calls, also those in other iterations of the outer loop."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(2):
            for _ in range(3):
                for name in ("critic", "penalty"):
                    with run.scope(name), run.scope("fc", "Linear"):
                        x = run.op("linear", x)
            for _ in range(4):
                with run.scope("head", "Head"), run.scope("fc", "Linear"):
                    x = run.op("linear", x)
    assert titles(run.recording())[1:] == [
        (1, "critic  ×6"),
        (2, "fc (Linear)"),
        (1, "penalty  ×6"),
        (2, "fc (Linear)"),
        (1, "head (Head)  ×8"),
        (2, "fc (Linear)"),
    ]


@pytest.mark.parametrize("ops", [False, True])
def test_regions_that_repeat_keep_their_title(ops: bool) -> None:
    """They have no names that could be told apart."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for _ in range(12):
            with run.scope("cuda", "float16", kind=ScopeKind.AUTOCAST):
                h = run.op("relu", run.op("neg", h))
    below = [(2, "neg()"), (2, "relu()")] if ops else []
    assert titles(run.recording(), ops=ops) == [(0, "Net"), (1, "autocast float16  ×12"), *below]


def test_ops_outside_of_scopes_have_one_line() -> None:
    """Of a loop too, whose last ops repeat the first."""
    run = Builder("f")
    h = run.input("h")
    for _ in range(20):
        h = run.op("tanh", run.op("neg", h))
    assert titles(run.recording()) == [(0, "40 ops: neg(), tanh()")]


def test_calls_of_one_module_have_one_line() -> None:
    """Which call it is, is said of none of them; other notes are."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for _ in range(12):
            h = linear(run, "fc", h)
    recording = run.recording()
    listed = every_row(recording)
    assert [row.notes for row in listed[1:]] == [(f"call {n} of 12",) for n in range(1, 13)]
    noted = [replace(row, notes=(*row.notes, "failed")) for row in listed]
    (row,) = folded(recording, noted)[1:]
    assert row.title == "fc (Linear)  ×12" and row.notes == ("failed",)
    assert row.ids == tuple(row.ids[0] for row in listed[1:]) and row.last is None


def test_the_last_of_siblings_that_differ() -> None:
    """Is known beside the first, for numbers that go from one to the other."""
    recording = stages(1, 2)
    listed = every_row(recording)
    rows = folded(recording, listed, similar=True)
    for row in rows:
        assert row.last is None or row.last.ids == (row.ids[-1],)
    last = {row.title.partition(" (")[0]: row.last.title for row in rows if row.last is not None}
    assert last["layer1, layer2"].startswith("layer2") and len(last) > 3


def test_numbers_are_those_of_all() -> None:
    """So that the lines still add up."""
    said = stack(12).summary().splitlines()
    for what, number in (("Stack ", "224"), ("layers.0 …", "192"), ("fc (Linear)", "192")):
        assert [line.split()[-1] for line in said if what in line] == [number]
    assert len(stack(12).summary(fold=False).splitlines()) == len(said) + 22


@given(RUNS)
def test_nothing_is_lost(recording: Recording) -> None:
    """Every scope and op stands in exactly one line, with others of its class and depth."""
    found = every_row(recording, ops=True)
    rows = folded(recording, found)
    counts = Counter(each for row in rows for each in row.ids)
    assert counts == Counter(each for row in found for each in row.ids)
    depth = {each: row.depth for row in found for each in row.ids}
    for row in rows:
        assert {depth[each] for each in row.ids} == {row.depth}
        assert len({recording.scopes[each].cls for each in row.ids if each[0] == "s"}) <= 1


def test_siblings_that_differ_have_one_line() -> None:
    """With what differs, what only some have, and the numbers of all."""
    said = stages(1, 2).summary(fold="similar").splitlines()
    lines = {line.split("(")[0].strip("│├└─ "): line for line in said if "(" in line}
    assert list(lines) == ["layer1, layer2", "0, 1", "conv", "downsample", "0", "head"]
    assert "×2" in lines["layer1, layer2"]
    assert "Block ×1, 2, channels 16, 32" in lines["layer1, layer2"]
    assert "×1 … 2" in lines["0, 1"] and "downsample in 2 of 3" in lines["0, 1"]
    assert lines["downsample"].endswith("in 2 of 3")
    assert "1×16×32×32 … 1×32×16×16" in lines["conv"]


@given(RUNS)
def test_nothing_is_lost_where_siblings_may_differ(recording: Recording) -> None:
    """Every scope and op stands in exactly one line."""
    found = every_row(recording, ops=True)
    listed = folded(recording, found, similar=True)
    assert Counter(each for row in listed for each in row.ids) == Counter(
        each for row in found for each in row.ids
    )


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_what_was_never_called_has_one_line(calls: int) -> None:
    """In the first call of the module around it; of what is in each other, the outermost."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input("x")
        for _ in range(calls):
            with run.scope("cell", "Cell"):
                h = run.op("relu", h)
    recording = run.recording()
    spare = [
        Module(ModuleId(f"m{number}"), (path,), "Spare", "", "", (), (), True, ())
        for number, path in ((8, "cell.spare"), (9, "cell.spare.deep"), (10, "top"))
    ]
    modules = {**recording.modules, **{module.id: module for module in spare}}
    found = replace(recording, modules=MappingProxyType(modules))
    assert [(row.depth, row.title) for row in every_row(found)] == [
        (0, "Net"), (1, "cell (Cell)"), (2, "spare (Spare)"),
        *[(1, "cell (Cell)")] * (calls - 1), (1, "top (Spare)"),
    ]


def test_blocks_that_do_not_fold_inside_of_siblings_that_do() -> None:
    """Their rows have names of the first sibling, and no number."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.input()
        for number in range(2):
            with run.scope(f"two{number}", "Two"):
                made = []
                for part in range(2):
                    with run.scope(f"part{part}", "Part"):
                        made.append(linear(run, "fc", h))
                    made[-1] = run.op("relu", made[-1])
                h = run.op("add", run.op("exp", made[0]), run.op("sin", made[1]))
    assert titles(run.recording()) == [
        (0, "Net"),
        (1, "two0, two1 (Two)  ×2"),
        (2, "part0 (Part)"),
        (3, "fc (Linear)"),
        (2, "part1 (Part)"),
        (3, "fc (Linear)"),
    ]


@pytest.mark.parametrize("ops", [False, True])
def test_steps_of_which_the_first_makes_state_have_one_line(ops: bool) -> None:
    """As in figures. With operations, the first has rows that the others do not have."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    found = [title for depth, title in titles(recorder.recording, ops=ops) if "AdamW" in title]
    assert found == (["optimizer AdamW", "optimizer AdamW  ×3"] if ops else ["optimizer AdamW  ×4"])


@pytest.mark.parametrize("beside", [False, True])
def test_rounds_of_which_python_reads_a_number_of_one_have_one_line(beside: bool) -> None:
    """Operations that figures do not draw make no difference to a table without them; it may list
    others, *beside* the model."""
    run = Builder("job")
    if beside:
        run.op("rand")
    with run.scope("Net"):
        h = run.input()
        for number in range(4):
            with run.scope("step", "Step"):
                h = linear(run, "fc", h)
            if not number:
                run.op("item", h, outputs=0)
            h = run.op("relu", h)
    assert titles(run.recording())[-2:] == [(1, "step (Step)  ×4"), (2, "fc (Linear)")]


class Noted(torch.nn.Module):
    """One of its layers gets no gradient, one is frozen, and two share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.aux, self.head = (torch.nn.Linear(4, 4, bias=False) for _ in range(3))
        self.fixed = torch.nn.Linear(4, 4).requires_grad_(False)
        self.head.weight = self.body.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.fixed(self.body(x))
        self.aux(hidden.detach())
        return self.head(hidden)


@pytest.mark.parametrize("steps", [1, 3])
def test_notes_on_weights_stay_when_training_steps_fold(steps: int) -> None:
    """They are those of the first call of each module."""
    model = Noted()
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(steps):
            model(torch.ones(2, 4)).sum().backward()
            model.zero_grad()
    rows = folded(recorder.recording, every_row(recorder.recording))
    notes = {row.title.split()[0]: row.notes for row in rows if "Linear" in row.title}
    assert notes == {"body": ("tied",), "aux": ("no gradient",), "head": ("tied",),
                     "fixed": ("frozen",)}


def test_a_note_on_some_siblings_counts_them() -> None:
    """One frozen layer among equal ones is not concealed."""
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(4, 4)) for _ in range(4)))
    model[1].requires_grad_(False)
    rows = folded(found := torchrecorder.record(model, torch.ones(2, 4)), every_row(found))
    assert [row.notes for row in rows if "Linear" in row.title] == [("frozen in 1 of 4",)]


def test_what_runs_around_a_loop_has_its_own_lines() -> None:
    """Ops of one iteration and those of the next, before or after it, are not together."""
    run = Builder("job")
    x, made = run.input("x"), list[ValueId]()
    start = run.op("zeros")
    for _ in range(3):
        drawn = run.op("mul", run.op("rand"), start)
        with run.scope("fc", "Linear"):
            h = run.op("linear", drawn, x)
        made.append(run.op("sum", h))
    run.op("mean", run.op("stack", *made))
    recording = run.recording()
    found = folded(recording, every_row(recording))
    assert [row.title for row in found] == [
        "zeros()", "2 ops: rand(), mul()  ×3", "fc (Linear)  ×3", "sum()  ×3",
        "2 ops: stack(), mean()",
    ]
    listed = [item for row in found for item in row.ids if item in recording.ops]
    assert sorted(listed) == sorted(op.id for op in recording.ops.values() if op.scope is None)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("steps", [1, 8])
def test_an_update_of_a_buffer_is_in_the_row_of_the_operation_beside_it(
    first: bool, steps: int
) -> None:
    """Figures draw none: in a loop, it repeats as the operation before it, else after it, does."""
    model, x = torch.nn.Linear(3, 3), torch.ones(1, 3)
    model.register_buffer("steps", torch.zeros(1))
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(steps):
            if first:
                model.steps.add_(1)
            model(x * 2)
            if not first:
                model.steps.add_(1)
    run = recorder.recording
    rows = [row for row in folded(run, every_row(run)) if "ops" in row.title or "(" in row.title]
    listed = [item for row in rows for item in row.ids if item in run.ops]
    assert sorted(listed) == sorted(op.id for op in run.ops.values() if op.scope is None)
    if first:
        assert rows[0].title == "2 ops: add_(), mul()" + "  ×8" * (steps > 1)

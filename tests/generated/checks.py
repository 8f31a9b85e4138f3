"""Checks: everything that must hold for a recording of a generated model."""

from __future__ import annotations

import contextlib
import gc
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pygraphviz
import torch
from torch import Tensor

import torchrecorder
from tests.agreement import Agreement
from tests.generated.edits import variants
from tests.generated.program import Program
from tests.generated.steps import STEPS, numbers
from tests.generated.steps.blocks import Block, Result
from tests.reach import disagreements
from tests.replay import Replay, kept_run
from tests.structure import structure
from tests.witness import tensors_of
from tests.zoo.case import Run
from torchrecorder.capture.tape import Tape
from torchrecorder.events import OpKind
from torchrecorder.export.dot import dot_text
from torchrecorder.graph.codec import decode, encode
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import is_held_alias
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.testing.inert import assert_inert
from torchrecorder.views.auto_depth import max_depth
from torchrecorder.views.collapse import Collapse
from torchrecorder.views.full_view import full_view
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View


class Model(Block):
    """The outermost block: returns what it has made in the form that the program says."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.steps)
        self.result = program.result

    def forward(self, x, y):
        live = self.run([x, y])
        last = live[-1]
        forms = {
            "last": lambda: last,
            "tuple": lambda: (last, live[-2]),
            "dict": lambda: {"loss": last.float().sum() if not last.is_sparse else last, "y": y},
            "nested": lambda: [last, {"all": live[2:], "none": None}, ("text", 3, last)],
            "dataclass": lambda: Result(last, live[:1]),
            "everything": lambda: live,
            "input": lambda: (x, last, x),
        }
        return forms[self.result]()


def make(program: Program) -> Run:
    """The model of *program* with its inputs, the same each time."""
    torch.manual_seed(program.seed)
    numbers.renew()
    variants.renew()
    model = Model(program).train(program.train)
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    return Run(model, (x.requires_grad_(program.grad), y))


@dataclass
class Counts:
    """How much has been checked."""

    models: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)
    edges: Counter[str] = field(default_factory=Counter)

    def add(self, proof: str, ops: int, edges: int) -> None:
        """One more model has passed *proof*."""
        self.models[proof] += 1
        self.ops[proof] += ops
        self.edges[proof] += edges


COUNTS = Counts()


@dataclass(frozen=True)
class Plain:
    """What a plain run of a program does.

    Attributes:
        fails: Its forward raises.
        backward: A backward pass goes through.
        lasting: It writes its inputs or parameters.
        leaking: It leaves tensors alive for good.
    """

    fails: bool
    backward: bool
    lasting: bool
    leaking: bool

    @staticmethod
    def of(program: Program) -> Plain:
        """Run it and see."""
        gc.collect()
        before = _living()
        fails, backward, lasting = Plain._run(program)
        gc.collect()
        return Plain(fails, backward, lasting, leaking=_living() > before)

    @staticmethod
    def _run(program: Program) -> tuple[bool, bool, bool]:
        run = make(program)
        fresh = [each.detach().clone() for each in _stored(run)]
        try:
            output = run.model(*run.args)
        except Exception:
            return True, False, _changed(run, fresh)
        lasting = _changed(run, fresh)
        found = [each for each in tensors_of(output) if each.requires_grad]
        try:
            if found:
                torch.autograd.backward(found, [torch.ones_like(each) for each in found])
        except RuntimeError:
            return False, False, lasting
        return False, True, lasting


def _living() -> int:
    return sum(isinstance(each, Tensor) for each in gc.get_objects())


def _stored(run: Run) -> list[Tensor]:
    return [*run.args, *run.model.parameters()]


def _changed(run: Run, fresh: list[Tensor]) -> bool:
    return any(
        each._version or each.requires_grad is None or not torch.equal(each.detach(), before)
        for each, before in zip(_stored(run), fresh)
    )


def check(program: Program) -> None:
    """Everything that must hold, one after the other."""
    gc.freeze()  # what is alive now need not be looked at again
    try:
        with strictly():
            _check(program)
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def strictly() -> Iterator[None]:
    """What the recorder loses is an error, and warnings of the programs are not shown."""
    strict, Tape.strict = Tape.strict, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        Tape.strict = strict


def _check(program: Program) -> None:
    plain = Plain.of(program)
    is_inert(program, plain)
    if not plain.fails:
        recording = recorded(program)
        is_sound(program, recording)
        agrees(program, recording)
        reaches(program, recording, plain)
        is_drawn(recording)
        is_saved(recording)


def recorded(program: Program) -> Recording:
    """A recording of *program*."""
    run = make(program)
    return torchrecorder.record(run.model, run.args)


def is_inert(program: Program, plain: Plain) -> None:
    """A plain run and a recorded run cannot be told apart, also where they raise."""
    def fresh() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        run = make(program)
        return run.model, run.args, {}

    assert_inert(fresh, backward=plain.backward, lasting=plain.lasting, leaking=plain.leaking)
    COUNTS.add("inertness", 0, 0)


def is_sound(program: Program, recording: Recording) -> None:
    """Ids, order and nesting hold together, nothing was lost, and twice is the same."""
    nothing_in(structure(recording))
    assert recording.run.lost == 0
    again = json.dumps(encode(recorded(program), times=False))
    assert json.dumps(encode(recording, times=False)) == again


def _all(program: Program, fact: str) -> bool:
    return all(getattr(STEPS[kind], fact) for kind in program.kinds)


def _heard(program: Program) -> bool:
    """Whether Python calls all it does; a backward pass calls what recomputes a checkpoint."""
    recomputes = any("checkpoint" in kind for kind in program.kinds)
    return _all(program, "hears") and not (recomputes and "gradient" in " ".join(program.kinds))


def agrees(program: Program, recording: Recording) -> None:
    """Each argument and each result comes from where an outside witness saw it come from.

    Where what ran can be run again along the edges only, it gives every result bit for bit.
    """
    if not _heard(program):
        return
    kept = kept_run(make(program))
    agreement = Agreement(recording, kept.witness)
    nothing_in(agreement.flow(kept.read))
    if _all(program, "modules"):
        nothing_in(agreement.modules())
    COUNTS.add("witness", len(agreement.call_of), agreement.edges)
    if _all(program, "reruns"):
        replay = Replay(recording, agreement, kept.keeper)
        nothing_in(replay.run(kept.outputs))
        ops = recording.ops.values()
        COUNTS.add("replay", replay.ran, sum(len(op.inputs) for op in ops))


def reaches(program: Program, recording: Recording, plain: Plain) -> None:
    """Recorded paths lead from output to leaf exactly where autograd finds a gradient."""
    if plain.backward and _all(program, "reaches"):
        nothing_in(disagreements(recording, make(program)))
        edges = sum(len(each.next) for each in recording.grad_nodes.values())
        COUNTS.add("reach", len(recording.grad_nodes), edges)


def is_drawn(recording: Recording) -> None:
    """At every depth, folded or not, the drawing has the boxes and arrows that it should."""
    full = full_view(recording)
    read = Counter(arrow.head for arrow in full.arrows)
    shown = [op for op in recording.ops.values() if op.id in full.boxes]
    passing = {op.id for op in shown if op.kind is OpKind.PASS and not op.outputs}
    assert all(read[op.id] == len(op.inputs) for op in shown if op.id not in passing - read.keys())
    held = [op for op in recording.ops.values() if is_held_alias(op, recording.values)]
    assert len(shown) + len(held) == len(recording.ops) or any(
        scope.recompute for scope in recording.scopes.values()
    )
    drawn = draws(recording)
    COUNTS.add("drawing", len(recording.ops), drawn)


def draws(recording: RecordedRun) -> int:
    """Draw at every depth, folded or not; the number of arrows in all."""
    full, drawn = full_view(recording), 0
    notes = (not recording.ops) + (recording.run.failure is not None)  # as nodes of their own
    deepest = max_depth(recording)
    for depth in range(deepest + 2):
        _keeps_outer_edges(full, Collapse(depth)(full))
        for fold in (False, True):
            options = ViewOptions(depth=depth, fold=fold, grad_nodes=depth > deepest)
            view = make_view(recording, options)
            view.check()
            figure = draw(view)
            graph = pygraphviz.AGraph(dot_text(figure))
            assert len(graph.nodes()) - len(view.boxes) in range(notes + 1)
            assert len(graph.edges()) == len(figure.lines)
            assert sum(line.count for line in figure.lines) == len(view.arrows)
            drawn += len(view.arrows)
    return drawn


def _keeps_outer_edges(full: View, closed: View) -> None:
    """An argument whose ends lie in different boxes has its arrow, and there are no others."""
    home = {each: box.id for box in closed.boxes.values() for each in (box.id, *box.members)}
    drawn = {(arrow.tail, arrow.head, arrow.value) for arrow in closed.arrows}
    wanted = {(home[each.tail], home[each.head], each.value) for each in full.arrows}
    assert drawn <= wanted
    assert {each for each in wanted if each[0] != each[1]} <= drawn


def is_saved(recording: Recording) -> None:
    """What is loaded is what was saved."""
    text = json.dumps(encode(recording))
    loaded = decode(json.loads(text), Recording)
    assert json.dumps(encode(loaded)) == text
    for name in ("scopes", "ops", "values", "grad_nodes", "modules"):
        assert getattr(loaded, name) == getattr(recording, name), name
    COUNTS.add("saving", len(recording.ops), recording.graph.number_of_edges())


def nothing_in(problems: list[str]) -> None:
    """Fail with *problems*, if there are any; also where no test runner explains."""
    assert not problems, "\n".join(problems)

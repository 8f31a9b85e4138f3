"""Checks: everything that must hold for a recording of a generated model."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pygraphviz
import torch
from torch import Tensor

import torchrecorder
from torchrecorder.capture.inert import assert_inert
from torchrecorder.capture.tape import Tape
from torchrecorder.export.dot import dot_text
from torchrecorder.graph.codec import decode, encode
from torchrecorder.graph.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.views.depths import max_depth
from torchrecorder.views.plan import ViewOptions, make_view
from torchrecorder.views.whole import whole

from tests.agreement import Agreement, structure
from tests.generated.program import Program
from tests.generated.steps import STEPS
from tests.generated.steps.blocks import Block, Result
from tests.reach import disagreements
from tests.replay import Replay, kept_run
from tests.witness import tensors_of, witnessed
from tests.zoo.case import Run


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
    """

    fails: bool
    backward: bool
    lasting: bool

    @staticmethod
    def of(program: Program) -> Plain:
        """Run it and see."""
        run = make(program)
        fresh = [each.detach().clone() for each in _stored(run)]
        try:
            output = run.model(*run.args)
        except Exception:
            return Plain(True, False, _changed(run, fresh))
        lasting = _changed(run, fresh)
        found = [each for each in tensors_of(output) if each.requires_grad]
        try:
            if found:
                torch.autograd.backward(found, [torch.ones_like(each) for each in found])
        except RuntimeError:
            return Plain(False, False, lasting)
        return Plain(False, True, lasting)


def _stored(run: Run) -> list[Tensor]:
    return [*run.args, *run.model.parameters()]


def _changed(run: Run, fresh: list[Tensor]) -> bool:
    return any(
        each._version or each.requires_grad is None or not torch.equal(each.detach(), before)
        for each, before in zip(_stored(run), fresh)
    )


def check(program: Program) -> None:
    """Everything that must hold, one after the other."""
    strict, Tape.strict = Tape.strict, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = Plain.of(program)
            is_inert(program, plain)
            if not plain.fails:
                recording = recorded(program)
                is_sound(program, recording)
                agrees(program, recording)
                replays(program, recording)
                reaches(program, recording, plain)
                is_drawn(recording)
                is_saved(recording)
    finally:
        Tape.strict = strict


def recorded(program: Program) -> Recording:
    """A recording of *program*."""
    run = make(program)
    return torchrecorder.record(run.model, run.args)


def is_inert(program: Program, plain: Plain) -> None:
    """A plain run and a recorded run cannot be told apart, also where they raise."""
    def fresh() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        run = make(program)
        return run.model, run.args, {}

    assert_inert(fresh, backward=plain.backward, lasting=plain.lasting)
    COUNTS.add("inertness", 0, 0)


def is_sound(program: Program, recording: Recording) -> None:
    """Ids, order and nesting hold together, nothing was lost, and twice is the same."""
    nothing_in(structure(recording))
    assert recording.run.lost == 0
    again = json.dumps(encode(recorded(program), times=False))
    assert json.dumps(encode(recording, times=False)) == again


def _all(program: Program, fact: str) -> bool:
    return all(getattr(STEPS[kind], fact) for kind in program.kinds)


def agrees(program: Program, recording: Recording) -> None:
    """Each argument and each result comes from where an outside witness saw it come from."""
    if not _all(program, "hears"):
        return
    witness, outputs = witnessed(make(program))
    agreement = Agreement(recording, witness)
    nothing_in(agreement.flow(outputs))
    if _all(program, "modules"):
        nothing_in(agreement.modules())
    COUNTS.add("witness", len(agreement.call_of), agreement.edges)


def replays(program: Program, recording: Recording) -> None:
    """Run again along its edges only, it gives every result bit for bit."""
    if not (_all(program, "hears") and _all(program, "reruns")):
        return
    witness, keeper, outputs = kept_run(make(program))
    agreement = Agreement(recording, witness)
    nothing_in(agreement.problems)
    replay = Replay(recording, agreement, keeper)
    nothing_in(replay.run(outputs))
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
    full = whole(recording)
    read = Counter(arrow.head for arrow in full.arrows)
    assert all(read[op.id] == len(op.inputs) for op in recording.ops.values())
    drawn = 0
    for depth in range(max_depth(recording) + 2):
        for fold in (False, True):
            view = make_view(recording, ViewOptions(depth=depth, fold=fold))
            view.check()
            text = dot_text(draw(view))
            graph = pygraphviz.AGraph(text)
            assert len(graph.nodes()) == len(view.boxes)
            assert len(graph.edges()) == len(view.arrows)
            drawn += len(view.arrows)
    COUNTS.add("drawing", len(recording.ops), drawn)


def is_saved(recording: Recording) -> None:
    """What is loaded is what was saved."""
    text = json.dumps(encode(recording))
    loaded = decode(json.loads(text))
    assert json.dumps(encode(loaded)) == text
    for name in ("scopes", "ops", "values", "grad_nodes", "modules"):
        assert getattr(loaded, name) == getattr(recording, name), name
    COUNTS.add("saving", len(recording.ops), recording.graph.number_of_edges())


def nothing_in(problems: list[str]) -> None:
    """Fail with *problems*, if there are any; also where no test runner explains."""
    assert not problems, "\n".join(problems)

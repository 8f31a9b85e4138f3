"""Checks: everything that must hold for a recording of a random training program."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import networkx as nx
import torch
from torch import Tensor, nn

import torchrecorder
from tests.agreement import Agreement
from tests.generated.checks import COUNTS, is_drawn, nothing_in, strictly
from tests.generated.program import kinds_in
from tests.generated.training.program import Training
from tests.generated.training.statements import run
from tests.generated.training.world import Witnessed, World
from tests.replay import Replay, kept_run
from tests.structure import structure
from tests.zoo.case import Run
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.events import ScopeKind, ValueId
from torchrecorder.graph.codec import decode, encode
from torchrecorder.recording import Recording

BY_HAND = frozenset(("step_by_hand", "average", "load", "replaced_data"))
"""Statements that write weights without an optimizer."""

UNHEARD = frozenset(("forward_of_a_copy", "grad_set", "weight_hook"))
"""Statements that the witness of operations does not see as they are: it is in hooks, of which
there are copies, and does not hear assignments of gradients and ops in hooks of leaves."""


def check(program: Training) -> None:
    """Everything that must hold, one after the other."""
    with strictly():
        _check(program)


def _check(program: Training) -> None:
    plain, recorded, witness = World(program), World(program), Witnessed(program)
    failed, (again, recording) = _run(plain, program), _recorded(recorded, program)
    assert (type(failed), str(failed)) == (type(again), str(again))
    before, after = plain.state(), recorded.state()
    changed = [name for name, state in before.items() if after.get(name) != state]
    assert not changed, f"recording changed {changed}"
    nothing_in(structure(recording))
    assert recording.run.lost == 0
    text = json.dumps(encode(recording, times=False))
    assert json.dumps(encode(_recorded(World(program), program)[1], times=False)) == text
    saved = json.dumps(encode(decode(json.loads(text), Recording), times=False))
    assert json.loads(saved) == json.loads(text)
    is_drawn(recording)
    recording.summary()
    if failed is None:
        is_compared(program, recording)
    if _run(witness, program) is None:
        weights = _Weights(recording, witness)
        weights.receive()
        weights.are_updated()
        weights.have_reasons(program)
        if UNHEARD.isdisjoint(kinds_in(program.steps)):
            _flows(program)
    else:
        assert recording.run.failure is not None
    COUNTS.add("training", len(recording.ops), len(recording.grad_runs))


def is_compared(program: Training, recording: Recording) -> None:
    """A run with a statement more has all operations of the one without, and others."""
    longer = replace(program, steps=program.steps + program.steps[:1])
    failed, more = _recorded(World(longer), longer)
    if failed is None:
        comparison = torchrecorder.compare(recording, more)
        kinds = {change.kind for change in comparison.changes}
        assert comparison.matching.ops.keys() == recording.ops.keys(), comparison.text()
        assert kinds <= {ChangeKind.ADDED, ChangeKind.REWIRED}, comparison.text()
        COUNTS.add("comparison", len(recording.ops), len(more.ops))


def _run(world: World, program: Training) -> Exception | None:
    torch.manual_seed(program.seed + 100)
    try:
        run(world, program.steps)
    except Exception as error:
        return error
    return None


def _recorded(world: World, program: Training) -> tuple[Exception | None, Recording]:
    """The error of a recorded run, and the recording; ``Recorder`` does not see the error."""
    failed = None
    torch.manual_seed(program.seed + 100)
    recorder = torchrecorder.Recorder(world.nets, name="nets")
    try:
        with recorder:
            run(world, program.steps)
    except Exception as error:
        failed = error
    return failed, recorder.recording


class _Weights:
    """What a recording says of the weights, beside what a witness saw in a plain run."""

    def __init__(self, recording: Recording, witness: Witnessed) -> None:
        self.recording = recording
        self.witness = witness
        known = set(witness.names.values())
        self.names: dict[ValueId, str] = {
            value.id: value.names[0] for value in recording.values.values()
            if value.names and value.names[0] in known
        }

    def receive(self) -> None:
        """The gradients of each backward pass arrive at the same weights, and a path leads from
        each of these to the loss."""
        recording, nodes = self.recording, self.recording.grad_nodes
        ran = [one for one in recording.backward_runs if recording.ops[one.op].name == "backward"]
        received = [
            Counter(
                self.names[variable] for one in recording.grad_runs
                if one.run == backward.run
                and (variable := nodes[one.grad].variable) in self.names and variable is not None
            )
            for backward in ran
        ]
        assert received == self.witness.received
        for backward, names in zip(ran, received):
            behind = nx.ancestors(recording.graph, backward.op)
            missing = names.keys() - {self.names.get(ValueId(node)) for node in behind}
            assert not missing, f"no path from {missing} to {backward.op}"

    def are_updated(self) -> None:
        """Each step of an optimizer writes the weights that it changes, and none without need."""
        recording = self.recording
        written: dict[str, set[str]] = {
            scope.id: set() for scope in recording.scopes.values()
            if scope.kind is ScopeKind.OPTIMIZER
        }
        for op in recording.ops.values():
            for around in recording.within(op.scope):
                if around in written:
                    written[around].update(filter(None, map(self.names.get, op.writes)))
        assert len(written) == len(self.witness.updated)
        for found, (changed, able) in zip(written.values(), self.witness.updated):
            assert changed <= found <= able, (changed, found, able)

    def have_reasons(self, program: Training) -> None:
        """Weights without a gradient or an update have a reason, others have none."""
        received = sum(self.witness.received, Counter[str]())
        updated = set[str]().union(*(changed for changed, _ in self.witness.updated))
        by_hand = not BY_HAND.isdisjoint(kinds_in(program.steps))
        for name, weight in self.witness.nets.named_parameters():
            if name not in self.names.values():
                continue
            why = self.recording.why_no_gradient(name)
            assert why is None or not received[name], str(why)
            assert why is not None or received[name] or weight.grad is not None, name
            reason = self.recording.why_no_update(name)
            if name in updated:
                assert reason is None or reason.reason == "overwritten", str(reason)
            elif not by_hand and not any(name in able for _, able in self.witness.updated):
                assert reason is not None, name


class Loop(nn.Module):
    """A training program as a module, whose forward runs it."""

    def __init__(self, program: Training) -> None:
        super().__init__()
        self.program = program
        self.world = World(program)
        self.nets = self.world.nets

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
        self.world.live = [x, y]
        run(self.world, self.program.steps)
        return self.world.live[-1], self.world.losses


def _loop(program: Training) -> Run:
    torch.manual_seed(program.seed + 100)
    return Run(Loop(program), (torch.randn(3, 4), torch.randn(3, 4)))


def _flows(program: Training) -> None:
    """Each tensor comes from where an outside witness saw it come from, and the recorded ops give
    the same bits again."""
    found = _loop(program)
    recording = torchrecorder.record(found.model, found.args, restore=False)
    kept = kept_run(_loop(program))
    agreement = Agreement(recording, kept.witness)
    if any(" backward(" in problem for problem in agreement.problems):
        return  # it does not see the gradients that a pass adds to
    nothing_in(agreement.flow(kept.read))
    replay = Replay(recording, agreement, kept.keeper)
    nothing_in(replay.run(kept.outputs))
    COUNTS.add("training, witness", replay.ran, agreement.edges)

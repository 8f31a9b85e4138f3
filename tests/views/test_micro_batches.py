"""What a pipeline stage does again with each micro-batch, of stages made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from torchrecorder.events import Communication, OpId, ScopeKind, ValueId
from torchrecorder.graph.nodes import BackwardRun
from torchrecorder.testing import Builder
from torchrecorder.views.fold.micro_batches import micro_batches

BATCHES = 4


class Stage:
    """A stage of a pipeline; each step is an op or a call in one scope."""

    def __init__(self) -> None:
        self.run = Builder("Stage")
        self.messages: dict[ValueId, tuple[str, int]] = {}
        self.passes: list[ValueId] = []

    def message(self, name: str, *given: ValueId, peer: int = 1) -> ValueId:
        """A message to or from the process *peer*, or of all processes."""
        value = self.run.op(name, *given)
        self.messages[value] = name, peer
        return value

    def call(self, name: str, *given: ValueId, recompute: bool = False) -> ValueId:
        """A call of a module of one operation."""
        with self.run.scope(name, recompute=recompute):
            return self.run.op("linear", *given)

    def backward(self, loss: ValueId) -> None:
        """A backward pass."""
        self.passes.append(self.run.op("backward", loss))

    def groups(self) -> list[tuple[str, int]]:
        """The name of each step that repeats, and how often."""
        run = self.run.recording()
        maker = {value: OpId(one.producer or "") for value, one in run.values.items()}
        sent = [
            Communication(name, "", "world", 0, peer, 0, 8, 8, None, maker[value], None, False,
                          None, None)
            for value, (name, peer) in self.messages.items()
        ]
        passes = [BackwardRun(number, maker[value], None, False, False)
                  for number, value in enumerate(self.passes)]
        run = replace(run, communications=tuple(sent), backward_runs=tuple(passes))
        found = [group for groups in micro_batches(run).values() for group in groups]
        steps = {**run.scopes, **run.ops}
        return [(steps[group[0]].name, len(group)) for group in found]  # type: ignore[index]


def stage_of(step: Callable[[Stage, int], None]) -> list[tuple[str, int]]:
    """What repeats in a stage that does a *step* for each micro-batch."""
    stage = Stage()
    with stage.run.scope("Stage"):
        for batch in range(BATCHES):
            step(stage, batch)
    return stage.groups()


def test_messages_and_calls_and_the_operations_between() -> None:
    """Each repeats with every micro-batch."""

    def step(stage: Stage, batch: int) -> None:
        h = stage.run.op("tanh", stage.message("recv"))
        stage.message("send", stage.run.op("exp", stage.call("layer", h)), peer=2)

    names = ["recv", "tanh", "layer", "exp", "send"]
    assert sorted(stage_of(step)) == sorted((name, BATCHES) for name in names)


def test_without_messages_nothing_is_a_micro_batch() -> None:
    """A collective is a message to nobody in particular."""

    def step(stage: Stage, batch: int) -> None:
        stage.message("all_reduce", stage.call("layer", stage.run.input()), peer=-1)

    assert stage_of(step) == []


def test_messages_to_others_are_other_steps() -> None:
    """As in a stage in the middle, which sends to both sides."""

    def step(stage: Stage, batch: int) -> None:
        h = stage.call("layer", stage.run.input(f"x{batch}"))
        stage.message("send", h, peer=batch % 2)

    assert stage_of(step) == [("layer", 2), ("send", 2)] * 2


def test_operations_that_also_read_what_ran_once_repeat() -> None:
    """Such as the addition of positions, which the first module computed."""
    stage = Stage()
    with stage.run.scope("Stage"):
        places = stage.call("positions", stage.run.input())
        for _ in range(BATCHES):
            h = stage.run.op("add", stage.message("recv"), places)
            stage.message("send", stage.call("layer", h), peer=2)
    names = ["recv", "add", "layer", "send"]
    assert sorted(stage.groups()) == sorted((name, BATCHES) for name in names)


def test_calls_that_pass_something_on_repeat() -> None:
    """From one micro-batch to the next: the first reads a constant, and nobody reads the last."""
    stage = Stage()
    with stage.run.scope("Stage"):
        state = stage.run.constant((2, 4))
        for _ in range(BATCHES):
            state = stage.call("layer", stage.message("recv"), state)
    assert sorted(stage.groups()) == [("layer", BATCHES), ("recv", BATCHES)]


def test_operations_twice_in_a_micro_batch_are_not_one() -> None:
    """What is drawn once would stand for two places of the program."""

    def step(stage: Stage, batch: int) -> None:
        h = stage.call("layer", stage.message("recv"))
        for _ in range(1 + batch % 2):
            h = stage.run.op("tanh", h)
        stage.message("send", h, peer=2)

    assert all(name != "tanh" for name, _ in stage_of(step))


def test_a_call_that_a_checkpoint_runs_again_is_no_step() -> None:
    """It belongs to the backward pass."""

    def step(stage: Stage, batch: int) -> None:
        h = stage.message("recv")
        stage.backward(stage.call("layer", h))
        stage.call("layer", h, recompute=True)

    assert sorted(stage_of(step)) == [("backward", BATCHES), ("layer", BATCHES), ("recv", BATCHES)]


@pytest.mark.parametrize("apart", [False, True])
def test_backward_passes_for_the_weights_of_each_part_are_steps(apart: bool) -> None:
    """A stage with two parts of a model runs them one after the other, or in turn."""
    stage = Stage()
    with stage.run.scope("Stage"):
        weights = [stage.run.parameter(name) for name in ("first", "second")]
        stage.message("recv")
        for batch in range(BATCHES):
            with stage.run.scope("weights", kind=ScopeKind.PIPELINE_BACKWARD):
                stage.run.op("mul", weights[batch % 2 if apart else 0])
    assert stage.groups() == ([("weights", 2)] * 2 if apart else [("weights", BATCHES)])

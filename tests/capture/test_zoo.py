"""The zoo: every odd model gives its exact graph, agrees with the witness, stays as it was."""

from __future__ import annotations

import functools

import pytest
from torch import nn

import torchrecorder
from tests import zoo
from tests.agreement import Agreement
from tests.notation import flow
from tests.reach import disagreements
from tests.replay import Replay, kept_run
from tests.structure import structure
from torchrecorder.testing.inert import assert_inert


def _each(*cases):
    """Run the test for each of these; all tests of one case come one after the other."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name, scope="module")


each_case = _each(*zoo.CASES)


pytestmark = pytest.mark.usefixtures("strict_but_quiet")


def _record(case):
    """A recording of the case, made when PyTorch's own caches are filled."""
    run = case.make()
    run.model(*run.args, **(run.kwargs or {}))
    run = case.make()
    return torchrecorder.record(run.model, run.args, run.kwargs)


_recorded = functools.lru_cache(maxsize=1)(_record)
"""The same for the tests that only read it: they share one recording of a case."""


@functools.lru_cache(maxsize=1)
def _kept(case):
    """A run of the case under a witness, which two tests compare with the recording."""
    return kept_run(case.make())


@_each(*(each for each in zoo.CASES if each.graph))
def test_graph(case):
    """The graph is exactly the one written beside the model."""
    assert flow(_recorded(case)) == case.graph


@each_case
def test_structure(case):
    """Ids, order and nesting hold together, and nothing was lost."""
    recording = _recorded(case)
    assert structure(recording) == []
    assert recording.run.lost == 0


@_each(*(each for each in zoo.CASES if each.replays))
def test_agrees_with_the_witness(case):
    """Each argument and each result comes from where an outside witness saw it come from."""
    recording = _recorded(case)
    agreement = Agreement(recording, _kept(case).witness)
    assert agreement.flow(_kept(case).read) == []
    if case.modules:
        assert agreement.modules() == []


@_each(*(each for each in zoo.CASES if each.replays and each.reruns))
def test_replays(case):
    """Run again along its edges only, the recording gives every result bit for bit."""
    recording = _recorded(case)
    kept = _kept(case)
    agreement = Agreement(recording, kept.witness)
    assert agreement.problems == []
    assert Replay(recording, agreement, kept.keeper).run(kept.outputs) == []


OWN_BACKWARD = {"backward_inside", "checkpoint_reentrant", "checkpoint_reentrant_dropout"}
"""These run a backward pass of their own, which deposits gradients past the graph."""


@_each(*(each for each in zoo.CASES if each.backward and each.name not in OWN_BACKWARD))
def test_reaches_what_gradients_reach(case):
    """Recorded paths lead from output to leaf exactly where autograd finds a gradient."""
    assert disagreements(_recorded(case), case.make()) == []


@each_case
def test_counts_the_weights(case):
    """Each parameter counts with the size that it has in the end."""
    run = case.make()
    recording = torchrecorder.record(run.model, run.args, run.kwargs)
    counts = recording.annotations["parameters"].by_node
    counted = {name: counts[key] for key in counts for name in recording.values[key].names}
    for name, weight in run.model.named_parameters() if isinstance(run.model, nn.Module) else ():
        assert counted[name] == weight.numel()


@each_case
def test_is_inert(case):
    """A plain run and a recorded run cannot be told apart."""
    def make():
        run = case.make()
        return run.model, run.args, run.kwargs or {}

    _record(case)  # what PyTorch compiles, it compiles anew for who listens, and keeps
    assert_inert(make, backward=case.backward, lasting=case.lasting)

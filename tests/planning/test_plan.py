"""Plans: the processes of a mesh, recorded on fake tensors where none of them is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import networkx as nx
import pytest
import torch

import torchrecorder
from tests.planning import factories
from tests.planning.in_process import probed, run_all
from tests.structure import structure
from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.capture import planned
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS, FAKE_GROUPS, STAGE_VOTES
from torchrecorder.capture.planned import recorded
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import ScopeKind
from torchrecorder.graph.consistency import problems
from torchrecorder.graph.saved_files import dumps
from torchrecorder.planning.translate import MeshLayout
from torchrecorder.planning.workers import PlanJob, Workers
from torchrecorder.ranks.sharding_ops import without_sharding_ops

LAYERS = 3

pytestmark = pytest.mark.skipif(not FAKE_GROUPS.present, reason="this PyTorch cannot plan")


def _blocks(mesh):
    return factories.spread(mesh, LAYERS)


@pytest.fixture(scope="module")
def square(tmp_path_factory):
    """What four of 64 processes recorded, by rank."""
    job = PlanJob(_blocks, MeshLayout.from_sizes({"dp": 8, "tp": 8}), True, None)
    workers = Workers(job, tmp_path_factory.mktemp("ranks"), 2)
    return {rank: workers.recording(rank) for rank in workers.run([0, 1, 9, 63])}


# What a rank records ----------------------------------------------------------------------------


def test_what_each_layer_sends(square):
    """As worked out by hand: gathers and scatters of each block, a sum in each split pair."""
    told = square[9].communications
    assert Counter((each.name, each.backward) for each in told) == {
        ("all_gather", False): LAYERS, ("all_gather", True): LAYERS,
        ("reduce_scatter", True): LAYERS,
        ("all_reduce", False): LAYERS, ("all_reduce", True): LAYERS,
    }
    groups = {group.name: group for group in square[9].run.rank.groups}
    along = {each.name: groups[each.group] for each in told}
    assert along["all_gather"].ranks == along["reduce_scatter"].ranks == tuple(range(1, 64, 8))
    assert along["all_reduce"].ranks == tuple(range(8, 16))


def test_bytes_of_what_is_sent(square):
    """A rank has an eighth of what it has to gather, and that is an eighth of split layers."""
    gather = next(each for each in square[0].communications if each.name == "all_gather")
    split = 2 * 16 * 64 // 8 + 64 // 8  # both weights, and the bias of the first
    whole = 16 + 2 * 16  # the bias of the second, and the norm
    assert gather.received == 4 * (split + whole) == 8 * gather.given
    reduce = next(each for each in square[0].communications if each.name == "all_reduce")
    assert reduce.given == reduce.received == 4 * 4 * 16


def test_ranks_record_the_same(square):
    """What is drawn is the same to the byte, but for who they are and names of groups."""
    texts = set()
    for recording in square.values():
        purposes = {group.name: group.purpose for group in recording.run.rank.groups}
        sent = tuple(
            told._replace(group=purposes[told.group]) for told in recording.communications
        )
        plain = replace(recording, communications=sent, run=replace(recording.run, rank=None))
        texts.add(dumps(without_sharding_ops(plain)))
        assert structure(recording) == []
    assert len(texts) == 1
    assert torchrecorder.merge([*square.values()]).lanes[0].ranks == (0, 1, 9, 63)


def test_every_parameter_reaches_the_output(square):
    """Gathered, split and of fake tensors as they are."""
    recording = square[63]
    (end,) = recording.outputs
    behind = nx.ancestors(recording.graph, end.value) & recording.values.keys()
    names = {name for value in behind for name in recording.values[value].names}
    parts = ("norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight", "down.bias")
    assert {f"{layer}.{part}" for layer in range(LAYERS) for part in parts} <= names
    assert recording.run.seconds is None


def test_what_fsdp_does_before_its_first_step_is_not_drawn(square):
    """It looks at each weight flat: the figure has the model's own ops, and all weights in them."""
    run = torchrecorder.merge([*square.values()])
    names = Counter(op.name for op in run.recording.ops.values() if op.kind.value == "called")
    own = {"layer_norm": LAYERS, "linear": 2 * LAYERS, "relu": LAYERS, "add": LAYERS}
    assert names == {**own, "backward": 1}
    assert "view" in {op.name for op in run.whole.ops.values()}
    assert list(problems(run.recording)) == []


@pytest.mark.filterwarnings("ignore:torchrecorder could not record")  # caches of former ranks
def test_what_is_sent_in_backward_counts_at_its_module():
    """Although the op whose grad node ran it is removed."""
    run = run_all(factories.spread, {"dp": 2, "tp": 2}).recording
    sent = [
        told for told in run.communications
        if told.grad is not None and run.grad_nodes[told.grad].owner is None
    ]
    assert {told.name for told in sent} == {"all_reduce", "reduce_scatter"}
    numbers = run.annotations["communication_bytes"]
    for scope in {told.scope for told in sent}:
        inside = sum(
            max(told.given, told.received) for told in run.communications
            if told.grad is not None and scope in run.within(told.scope)
        )
        text = numbers.text(ScopeMembers(run).of_scope(scope))
        assert text.endswith(f"{of_bytes(inside)} backward")


def test_tied_weights_stay_tied():
    """One tensor under both names, as the factory made it."""
    run = run_all(factories.tied, {"dp": 1})
    (lane,) = run.lanes
    names = [value.names for value in lane.recording.values.values() if value.names]
    assert ("0.weight", "1.weight") in names
    assert lane.parameter_bytes == (8 * 4 * 4,) * 2


def test_fake_tensors_of_the_factory_stay_where_they_are():
    """Weights and inputs are on one device."""
    found = run_all(factories.already_fake, {"dp": 1}).recording
    assert {value.device for value in found.values.values()} == {"meta"}
    assert [op.name for op in found.ops.values()][0] == "linear"


@pytest.mark.parametrize(("schedule", "stages", "borders"), [
    ("ScheduleGPipe", 1, 1), ("Schedule1F1B", 1, 1), ("ScheduleInterleaved1F1B", 2, 3),
    ("ScheduleInterleavedZeroBubble", 2, 3), ("ScheduleZBVZeroBubble", 2, 2),
])
def test_schedules_of_pipelines(schedule, stages, borders):
    """Each micro-batch goes from stage to stage, and its gradient comes back."""
    run = run_all(partial(factories.scheduled, schedule=schedule, stages=stages), {"pp": 2})
    greetings = () if STAGE_VOTES.present else ("sent 8 B, but",)  # they are received as 4 B
    assert [each for each in run.problems if not any(text in each for text in greetings)] == []
    sent = [  # older versions also send within a rank
        each for each in run.collectives
        if each.bytes == factories.MICRO_BATCH_BYTES and len({part.rank for part in each.parts}) > 1
    ]
    assert len(sent) == factories.MICRO_BATCHES * borders * 2
    senders = Counter(each.parts[0].rank for each in sent)
    assert senders == {0: len(sent) // 2, 1: len(sent) // 2}
    for lane in run.lanes:
        assert structure(lane.recording) == []
        assert [each for each in lane.recording.backward_runs if each.failed] == []


def test_backward_of_inputs_and_of_weights():
    """In zero-bubble schedules, each of the two is one box for all micro-batches of a stage."""
    run = run_all(
        partial(factories.scheduled, schedule="ScheduleInterleavedZeroBubble", stages=2), {"pp": 2}
    )
    parts = [
        (scope.cls, scope.parent) for scope in run.recording.scopes.values()
        if scope.kind is ScopeKind.PIPELINE_BACKWARD
    ]
    first, last = (scope.id for scope in run.recording.scopes.values() if scope.parent is None)
    micro_batches = factories.MICRO_BATCHES
    # The first stage of all needs no gradient of its inputs: its backward is not divided.
    assert Counter(parts) == {
        (name, lane): stages * micro_batches
        for name in ("stage_backward_input", "stage_backward_weight")
        for lane, stages in ((first, 1), (last, 2))
    }
    figure = torchrecorder.figure(run.recording, depth=1)
    labels = Counter(shape.label[0].text for shape in figure.shapes)
    assert labels["view_as"] == labels["add_"] == 0
    if COLLECTIVE_CALLS.present:  # without them, micro-batches stand apart
        assert labels["stage_backward_input  ×4"] == labels["stage_backward_weight  ×4"] == 3


# Which ranks are run ----------------------------------------------------------------------------


@pytest.mark.parametrize(("factory", "mesh", "ran"), [
    (factories.hybrid, {"dp": 2, "tp": 4}, {0, 7}),
    (factories.only_step, {"dp": 5}, {0, 4}),
    (factories.uneven, {"dp": 3, "tp": 2}, {0, 1, 4, 5}),
    (factories.staged, {"pp": 4, "dp": 3}, {0, 2, 3, 6, 9, 11}),
])
def test_what_is_assumed_is_what_they_would_record(factory, mesh, ran):
    """Few are run, and the whole is the same as if all had been."""
    found, run = probed(factory, mesh)
    assert run == ran and {*found.assumed} == {*found.ranks} - ran
    whole = run_all(factory, mesh)
    assert found.problems == whole.problems == ()
    assert _lanes(found) == _lanes(whole)
    assert _sent(found) == _sent(whole)


def _lanes(run):
    return [(each.ranks, each.differs, each.sent_bytes, each.parameter_bytes) for each in run.lanes]


def _sent(run):
    return sorted(
        (each.name, each.order, each.group.ranks, each.ranks, each.bytes, each.path)
        for each in run.collectives
    )


def test_what_is_assumed_is_stated():
    """In the table, in the figure, and by lane."""
    run, _ = probed(factories.only_step, {"dp": 5})
    assert "ranks 0, 4 recorded, the others assumed to be equal" in run.summary()
    assert run.lanes[0].assumed == 3
    assert "×5, 2 recorded" in torchrecorder.make_dot(run.recording).source


def test_a_rank_in_the_middle_that_differs():
    """No end tells of it; all are recorded if that is asked for."""
    run, _ = probed(factories.one_differs, {"dp": 4})
    assert run.problems == ()
    (problem,) = run_all(factories.one_differs, {"dp": 4}).problems
    assert "rank 1 ran all_reduce of 32 B" in problem


# Processes --------------------------------------------------------------------------------------


def test_a_plan_of_processes():
    """Each rank that is asked for runs in a process of its own; others are not missed."""
    mesh = {"pp": 2, "dp": 2}
    run = torchrecorder.plan(factories.staged, mesh, world=4, ranks=[0, 2], name="two")
    assert (run.name, run.ranks, run.world, run.problems) == ("two", (0, 2), 4, ())
    assert [lane.ranks for lane in run.lanes] == [(0,), (2,)]
    assert [each.name for each in run.collectives].count("send") == 1
    assert not torch.distributed.is_initialized()


def test_mistakes_of_the_factory_are_the_users():
    """Its own exception, with a note of the rank and its traceback."""
    with pytest.raises(ValueError, match="no such size: 2") as caught:
        torchrecorder.plan(factories.failing, {"tp": 2}, num_workers=1)
    (note,) = caught.value.__notes__
    assert note == "torchrecorder: raised in plan by rank 0 (tp=0)"
    assert "factories.py" in str(caught.value.__cause__)


def test_mistakes_of_the_model_show_where():
    """The module, as ever."""
    with pytest.raises(RuntimeError) as caught:
        torchrecorder.plan(factories.fails_on_last, {"dp": 4}, ranks=[3])
    first, inputs, rank = caught.value.__notes__
    assert "while running" in first and "is the result of" in inputs and "rank 3 (dp=3)" in rank


@pytest.mark.parametrize(("options", "message"), [
    ({"mesh": {}}, "mesh must be sizes by name"),
    ({"mesh": {"dp": 0}}, "mesh must be sizes by name"),
    ({"mesh": {"dp": 2}, "world": 4}, "a mesh of dp=2 has 2 processes, not 4"),
    ({"mesh": {"dp": 2}, "ranks": [2]}, "numbers from 0 to 1, not"),
    ({"mesh": {"dp": 2}, "ranks": "some"}, "ranks must be 'all' or"),
    ({"mesh": {"dp": 2}, "ranks": 1}, "ranks must be 'all' or"),
    ({"mesh": {"dp": 2}, "ranks": b"\0"}, "ranks must be 'all' or"),
    ({"mesh": {"dp": 2}, "ranks": []}, "ranks must be 'all' or"),
    ({"mesh": {"dp": 2}, "num_workers": 0}, "num_workers must be"),
    ({"mesh": {"dp": 2}, "backward": 1}, "backward must be"),
    ({"mesh": {"dp": 2}, "factory": 3}, "a function that takes the mesh"),
    ({"mesh": {"dp": 2}, "factory": lambda mesh: mesh}, "top level of a module"),
])
def test_what_cannot_be_planned(options, message):
    """They are errors before a process is started."""
    with pytest.raises(InvalidArgument, match=message):
        torchrecorder.plan(**{"factory": factories.spread, **options})


def test_without_kernels_for_tensors_without_data(monkeypatch):
    """In an old PyTorch, the message says from which version on it works."""
    monkeypatch.setattr(planned, "FAKE_GROUPS", replace(FAKE_GROUPS, works=lambda: False))
    with pytest.raises(InvalidArgument, match=f"Install PyTorch {FAKE_GROUPS.since} or newer"):
        recorded(0, factories.only_step, {"dp": 1}, backward=True, name=None)


def test_what_is_no_model():
    """The message says what a factory gives."""
    with pytest.raises(InvalidArgument, match="a model and its inputs.*not an object of type int"):
        run_all(factories.nothing, {"dp": 1})

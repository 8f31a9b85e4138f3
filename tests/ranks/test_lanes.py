"""Lanes: processes that did the same, and the one recording that shows all of them."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from tests.capture.processes import process_group, sharded, step, tensor_parallel
from tests.ranks.made import recorded, timed
from torchrecorder import Recorder
from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS
from torchrecorder.graph.consistency import problems
from torchrecorder.style.communications import CommunicationCaptions

X = torch.ones(3, 4)

needs_calls = pytest.mark.skipif(
    not COLLECTIVE_CALLS.present, reason="sends are no operations in this PyTorch"
)
STAGE = nn.Linear(4, 4)


def _parallel(build, world=4):
    found = []
    for rank in range(world):
        with process_group(rank, world):
            from torch.distributed.device_mesh import init_device_mesh

            model = build(init_device_mesh("cpu", (world,), mesh_dim_names=("tp",)))
            with Recorder(model) as recorder:
                step(model, X)
            found.append(recorder.recording)
    return found


def _pipeline(rank):
    """Stages in a row, with two micro-batches."""
    for tag in range(2):
        x = torch.zeros(3, 4)
        if rank > 0:
            dist.recv(x, rank - 1, tag=tag)
        y = STAGE(x)
        if rank < 3:
            dist.send(y.detach(), rank + 1, tag=tag)


def test_processes_that_do_the_same_are_one_lane():
    """The first of them stands for all."""
    run = torchrecorder.merge(_parallel(tensor_parallel))
    (lane,) = run.lanes
    assert (lane.name, lane.ranks, lane.differs) == ("ranks 0–3", (0, 1, 2, 3), ())
    assert lane.parameter_bytes == (88, 88) and lane.sent_bytes == (48, 48)


def test_stages_of_a_pipeline_are_lanes_of_their_own():
    """Those in the middle, too: they send to each other."""
    run = torchrecorder.merge(recorded(_pipeline))
    assert [lane.ranks for lane in run.lanes] == [(0,), (1,), (2,), (3,)]


def test_pipelines_side_by_side_fold_by_stage():
    """Replicas of a stage are one lane."""
    def run(rank):
        if rank < 2:
            dist.send(X.clone(), rank + 2)
        else:
            dist.recv(X.clone(), rank - 2)

    found = torchrecorder.merge(recorded(run))
    assert [lane.ranks for lane in found.lanes] == [(0, 1), (2, 3)]
    assert found.problems == ()


def test_processes_that_differ_in_sizes_only():
    """They are one lane, which names the difference."""
    def run(rank):
        parts = [X[: rank + 1].clone() for _ in range(2)]
        dist.all_to_all([each.clone() for each in parts], parts)

    (lane,) = torchrecorder.merge(recorded(run, world=2)).lanes
    assert lane.ranks == (0, 1)
    assert (lane.differs, lane.sent_bytes) == (("bytes sent",), (32, 64))


@pytest.mark.parametrize("build", [tensor_parallel, sharded])
def test_the_figure_shows_the_model(build):
    """Its own ops and no others, though all ran; and every weight leads to the loss."""
    run = torchrecorder.merge(_parallel(build))
    names = [op.name for op in run.recording.ops.values() if op.kind.value == "called"]
    assert names == ["linear", "relu", "linear", "square", "sum", "backward"]
    assert len(run.whole.ops) > len(run.recording.ops)
    for each in (run.recording, run.whole):
        assert list(problems(each)) == []
        (end,) = [op for op in each.ops.values() if op.name == "backward"]
        behind = nx.ancestors(each.graph, end.inputs[0].value) & each.values.keys()
        found = {name for value in behind for name in each.values[value].names}
        wanted = {f"ranks_0–3.{name}" for name in ("0.weight", "0.bias", "2.weight", "2.bias")}
        assert wanted <= found
    assert run.graph is run.recording.graph


def test_what_is_sent_stands_at_the_module():
    """In the figure, for those of backward as well."""
    run = torchrecorder.merge(_parallel(sharded))
    text = torchrecorder.make_dot(run.recording, depth=2).source
    assert "all_gather, 160 B" in text
    assert "backward: reduce_scatter ×2, 304 B" in text
    assert "ranks 0–3" in text and "×4" in text


def test_what_is_sent_counts_in_its_pass():
    """Also what FSDP sends at the end of the backward pass, where no grad node runs."""
    recording = torchrecorder.merge(_parallel(sharded)).recording
    assert any(told.backward and told.grad is None for told in recording.communications)
    sums = [
        sum(max(told.given, told.received) for told in recording.communications
            if told.backward is backward)
        for backward in (False, True)
    ]
    numbers = recording.annotations["communication_bytes"]
    text = numbers.text(ScopeMembers(recording).of_scope(recording.roots[0]))
    assert text == "{} forward, {} backward".format(*map(of_bytes, sums))


def test_what_is_sent_elsewhere_is_not_in_a_part():
    """A figure of one module has its own communication, and parts of its own tensors."""
    run = torchrecorder.merge(_parallel(sharded))
    part = torchrecorder.view(run.recording, focus="ranks_0–3.2").recording
    sent = [(told.name, told.backward, told.scope in part.scopes) for told in part.communications]
    assert sent == [("all_gather", True, True)]
    assert {shard.value for shard in part.shards} <= part.values.keys()


def _layers_beside_a_collective():
    """A recording of four layers and a collective, which is returned too, and the layers."""
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    with process_group(0, 2), Recorder(model) as recorder:
        model(X)
        dist.all_reduce(X.clone())
    (told,) = recorder.recording.communications
    layers = [scope.id for scope in recorder.recording.scopes.values() if scope.cls == "Linear"]
    return recorder.recording, told, layers


def test_folded_layers_show_what_most_of_them_send():
    """Not what only the first does, which may differ: its weights are gathered by the next one."""
    recording, told, layers = _layers_beside_a_collective()
    sent = tuple(told._replace(scope=layer, op=None) for layer in layers[1:])
    folded = torchrecorder.make_dot(replace(recording, communications=sent), depth=2)
    assert "×4" in folded.source and "all_reduce, 48 B" in folded.source
    assert "in 3 of 4 calls" in folded.source


def test_kinds_that_not_equally_many_layers_send():
    """Each has its own share, or none if all layers send it; an equal share is said once."""
    recording, told, layers = _layers_beside_a_collective()

    def lines(forward: int, backward: int) -> list[str]:
        sent = [
            told._replace(scope=layer, op=None, backward=in_backward)
            for in_backward, number in ((False, forward), (True, backward))
            for layer in layers[:number]
        ]
        sending = replace(recording, communications=tuple(sent))
        return CommunicationCaptions(torchrecorder.view(sending)).closed(layers)

    one, other = "all_reduce, 48 B", "backward: all_reduce, 48 B"
    assert lines(4, 3) == [one, f"{other}, in 3 of 4 calls"]
    assert lines(3, 2) == [f"{one}, in 3 of 4 calls", f"{other}, in 2 of 4 calls"]
    assert lines(3, 3) == [one, other, "in 3 of 4 calls"]
    assert lines(4, 4) == [one, other]


def test_what_only_some_micro_batches_send():
    """Gradients are averaged in the second pass of each step, which folds with the first."""
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(rank):
        for _ in range(2):
            for _ in range(2):
                model(X).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        dist.all_reduce(X.clone())

    (recording,) = recorded(train, world=1)
    (told,) = recording.communications
    calls = [scope.id for scope in recording.scopes.values() if scope.cls == "Linear"]
    sent = tuple(told._replace(scope=call, op=None) for call in (calls[2], calls[6]))
    text = torchrecorder.make_dot(replace(recording, communications=sent)).source
    assert text.count("all_reduce, 48 B") == text.count("in 2 of 4 calls") == 1


@pytest.mark.parametrize("calls, text", [((0,), "1"), ((1, 2), "2"), ((0, 1, 2), "")])
def test_what_an_open_module_sends_in_some_micro_batches(calls, text):
    """A module that is open in a fold of its model counts the calls in all repeats of the model."""
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 1))

    def train(rank):
        for _ in range(3):
            model(X).sum().backward()
        dist.all_reduce(X.clone())

    (recording,) = recorded(train, world=1)
    (told,) = recording.communications
    inner = [scope.id for scope in recording.scopes.values() if scope.cls == "Sequential"][1::2]
    assert len(inner) == 3
    sent = tuple(told._replace(scope=inner[call], op=None) for call in calls)
    found = torchrecorder.make_dot(replace(recording, communications=sent), depth=3).source
    assert found.count("all_reduce, 48 B") == 1
    assert found.count(f"in {text} of 3 calls" if text else "of 3 calls") == bool(text)
    other = told._replace(scope=inner[1], op=None, name="broadcast")  # in other calls: not counted
    found = torchrecorder.make_dot(
        replace(recording, communications=(*sent, *[other] * (1 not in calls))), depth=3
    ).source
    assert found.count(f"in {text} of 3 calls" if text else "of 3 calls") == bool(text)


def test_what_an_optimizer_sends_stands_there_alone():
    """Not at the lane around it, too. Each lane has one optimizer, which is for all modules."""
    def train(rank):
        model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(rank + 1)))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(X).sum().backward()
        optimizer.step()
        dist.all_reduce(X.clone())

    found = []
    for recording in recorded(train, world=2):
        (step,) = [each.id for each in recording.scopes.values() if each.cls == "SGD"]
        (told,) = recording.communications
        sent = (told._replace(scope=step, op=None),)
        found.append(replace(recording, communications=sent))
    text = torchrecorder.make_dot(torchrecorder.merge(found).recording).source
    assert text.count("optimizer SGD") == 2
    assert text.count("all_reduce, 48 B") == 2 and "for rank" not in text


def test_training_steps_fold_in_a_lane():
    """Updated weights and gradients have the names of the weights, with the prefix of the lane."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def train(rank):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(X).sum().backward()
            optimizer.step()

    run = torchrecorder.merge(recorded(train, world=1))
    values = run.recording.values.values()
    names = {name for value in values for name in value.names if "weight" in name}
    assert len(names) == 4 and all(name.startswith("rank_0.") for name in names)
    text = torchrecorder.make_dot(run.recording).source
    assert "×3" in text and "carried over: weights" in text and "for rank" not in text


def test_a_module_that_communicates_is_not_unused():
    """Although nothing reads what it computes."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def train(rank):
        model(X)
        dist.all_reduce(X.clone())

    (recording,) = recorded(train, world=1)
    (told,) = recording.communications
    (call,) = [scope.id for scope in recording.scopes.values() if scope.cls == "Sequential"]
    for sent, unused in ((told, True), (told._replace(scope=call, op=None), False)):
        changed = replace(recording, communications=(sent,), outputs=())
        assert ("unused" in torchrecorder.make_dot(changed, depth=0).source) == unused


def test_who_was_waited_for_stands_there_too():
    """With the longest wait among the ranks of the lane."""
    recordings = recorded(lambda rank: dist.all_reduce(X.clone()), world=2)
    run = torchrecorder.merge([timed(recordings[0], 0.25), timed(recordings[1], 0.05)])
    assert "waited 200 ms for rank 1" in torchrecorder.make_dot(run.recording).source


@needs_calls
def test_messages_lead_from_lane_to_lane():
    """From each send to its receive; how the buffer it is received into was made is left out."""
    run = torchrecorder.merge(recorded(_pipeline))
    recording = run.recording
    assert list(problems(recording)) == []
    ops = recording.ops.values()
    sends = [op for op in ops if op.name == "send"]
    receives = [op for op in ops if op.name == "recv"]
    assert len(sends) == len(receives) == 6
    for op in receives:
        (slot,) = op.inputs
        sender = recording.ops[recording.values[slot.value].producer]
        assert (slot.name, sender.name) == ("message", "send")
        assert recording.scopes[sender.scope].index < recording.scopes[op.scope].index
    assert [op.name for op in ops].count("zeros") == 2  # what the first stage works on
    last = list(recording.ops.values())[-1]
    assert last.name == "linear"
    assert {sends[1].id, sends[5].id} <= nx.ancestors(recording.graph, last.id)


def test_lanes_do_not_share_weights():
    """What several lanes have under one name counts in each."""
    run = torchrecorder.merge(recorded(_pipeline))
    assert run.recording.annotations["parameters"].total() == 4 * 20
    assert torchrecorder.merge(_parallel(tensor_parallel)).recording.annotations[
        "parameters"
    ].total() == 76


def test_it_is_saved_and_drawn_like_any_recording(tmp_path):
    """Equal files each time, in several formats."""
    recordings = recorded(_pipeline)
    run = torchrecorder.merge(recordings)
    again = torchrecorder.merge(recordings[::-1])
    for name in ("run.svg", "run.html", "run.json", "run.mmd"):
        first, second = run.render(tmp_path / f"a{name}"), again.render(tmp_path / f"b{name}")
        assert first.read_bytes() == second.read_bytes()
    loaded = torchrecorder.load(tmp_path / "arun.json")
    assert loaded == run.recording

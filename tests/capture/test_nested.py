"""Recordings inside a recording: both are whole, whatever ends first."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

import torchrecorder
from tests.structure import structure
from torchrecorder import Recorder
from torchrecorder.errors import RecorderInUse

X = torch.ones(2, 3)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))


def step(model):
    model(X).sum().backward()


def facts(recording):
    """What ran where, and the order of the backward passes."""
    assert structure(recording) == [] and recording.run.lost == 0
    ops = [(op.name, [slot.name for slot in op.inputs]) for op in recording.ops.values()]
    scopes = [(scope.path, scope.kind) for scope in recording.scopes.values()]
    nodes = [(recording.grad_nodes[ran.grad].name, ran.run) for ran in recording.grad_runs]
    return ops, scopes, nodes


def alone(run, model):
    """The facts about *run* that nothing but one recorder sees."""
    with Recorder(model) as recorder:
        run()
    return facts(recorder.recording)


OPTIONS = [{}, {"stats": True, "keep": ["*"], "flops": True, "memory": True, "replay": True}]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_block_in_a_block(options):
    """The outer recording has all, as if the inner were not there; the inner its own part."""
    model = net()
    with Recorder(model, **options) as outer:
        step(model)
        with Recorder(model, **options) as inner:
            step(model)
        step(model)
    assert facts(outer.recording) == alone(lambda: [step(model) for _ in range(3)], model)
    assert facts(inner.recording) == alone(lambda: step(model), model)


def test_blocks_that_cross():
    """The one that began first ends first."""
    model, first, second = net(), Recorder(), Recorder()
    first.__enter__()
    second.__enter__()
    step(model)
    first.__exit__(None, None, None)
    step(model)
    second.__exit__(None, None, None)
    assert facts(first.recording) == alone(lambda: step(model), None)
    assert facts(second.recording) == alone(lambda: [step(model) for _ in range(2)], None)


@pytest.mark.parametrize("place", ["forward hook", "gradient hook"])
def test_a_recording_in_a_hook(place):
    """Of a module of the same model: the outer sees it as a call, with its backward pass."""
    found = []

    def hooked(extra):
        model, busy = net(), []

        def hook(*args):
            if not busy:
                busy.append(True)
                extra(model[2])

        if place == "forward hook":
            model[1].register_forward_hook(hook)
        else:
            model[0].weight.register_hook(hook)
        return model

    model = hooked(lambda part: found.append(torchrecorder.record(part, X)))
    with Recorder(model) as outer:
        step(model)
    plain = hooked(lambda part: part(X))
    assert facts(outer.recording) == alone(lambda: step(plain), plain)
    assert facts(found[0]) == facts(torchrecorder.record(net()[2], X))


def test_an_error_inside_belongs_to_both():
    """The program catches it between the blocks: the outer goes on."""
    model = net()
    with Recorder(model) as outer:
        with pytest.raises(RuntimeError), Recorder(model) as inner:
            model(X.T)
        step(model)
    assert inner.recording.run.failure is not None and outer.recording.run.failure is None
    names = [op.name for op in outer.recording.ops.values()]
    assert names == ["T", "linear", "linear", "relu", "linear", "sum", "backward"]


def test_the_same_recorder_twice():
    """Is refused, and what runs goes on to be recorded; also from another thread."""
    model, refused = net(), []

    def again():
        try:
            with outer:
                pass
        except RecorderInUse as error:
            refused.append(str(error))

    with Recorder(model) as outer:
        again()
        other = threading.Thread(target=again)
        other.start()
        other.join()
        step(model)
    assert refused == ["this recorder was used before; make a new one for each run"] * 2
    assert facts(outer.recording) == alone(lambda: step(model), model)


def test_a_recorder_in_each_of_two_threads():
    """At the same time, on models that share their weights."""
    model, found, both = net(), {}, threading.Barrier(2)

    def work(name):
        with Recorder(model) as recorder:
            both.wait(30)
            model(X)
            both.wait(30)
        found[name] = recorder.recording

    workers = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expected = alone(lambda: model(X), model)
    assert facts(found["a"]) == facts(found["b"]) == expected

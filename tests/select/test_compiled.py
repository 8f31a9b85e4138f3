"""The wrapper of ``torch.compile`` and the module inside are one scope where runs are shown."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tests.graph.test_consistency import blank, keyed
from tests.structure import structure
from torchrecorder import Recorder, record, recording_of
from torchrecorder.events import Allocation, Communication, FunctionCall, GraphBreak, ScopeKind
from torchrecorder.graph.consistency import problems
from torchrecorder.select.compiled import without_wrappers
from torchrecorder.views.pipeline import ViewOptions, make_view

pytestmark = pytest.mark.usefixtures("strict_but_quiet")

compiled = partial(torch.compile, backend="eager")


class Net(nn.Module):
    """A part that may be compiled, in a loop, and a head."""

    def __init__(self, wrap=lambda part: part) -> None:
        super().__init__()
        self.part = wrap(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        self.head = wrap(nn.Linear(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = self.part(x) + 1
        return self.head(x)


def paths(recording):
    """The path and class of each scope, with the number of the call."""
    return [(scope.path.replace("_orig_mod.", ""), scope.cls, scope.call)
            for scope in recording.scopes.values()]


@pytest.mark.parametrize("depth", (0, 1, 2, "ops", None))
def test_views_are_those_of_the_plain_model(depth):
    """At each depth: the same boxes and arrows."""
    x, shapes = torch.ones(2, 4), []
    for wrap in (lambda part: part, compiled):
        view = make_view(record(Net(wrap), x), ViewOptions(depth=depth, fold=False))
        places = {name: place for place, name in enumerate((*view.boxes, *view.clusters))}
        shapes.append((
            [places.get(box.cluster) for box in view.boxes.values()],
            [places.get(cluster.parent) for cluster in view.clusters.values()],
            [(places[arrow.tail], places[arrow.head], arrow.slot) for arrow in view.arrows],
        ))
    assert shapes[0] == shapes[1]


def test_call_is_one_of_the_module_inside():
    """With its class, parameters and number; the scope is that of the wrapper."""
    model, x = Net(compiled), torch.ones(2, 4)
    recording = record(model, x, backward=True, stats=True, memory=True, flops=True)
    merged = without_wrappers(recording)
    assert paths(merged) == paths(record(Net(), x, backward=True))
    assert structure(recording) == structure(merged) == []
    calls = [scope for scope in merged.scopes.values() if scope.kind is ScopeKind.COMPILED]
    assert [scope.path for scope in calls] == ["part", "part", "head"]
    assert {scope.id for scope in calls} < recording.scopes.keys()
    head = merged.module_of(calls[-1])
    assert (head.qualname, len(head.parameters)) == ("torch.nn.modules.linear.Linear", 2)
    assert head.calls == (calls[-1].id,)
    assert len(merged.modules) == len(recording.modules) - 2
    assert merged.ops.keys() == recording.ops.keys()
    assert without_wrappers(merged) is merged


def test_operations_of_hooks_of_the_wrapper_are_inside():
    """Also if they call modules."""
    model, other = Net(compiled), nn.ReLU()
    model.head.register_forward_pre_hook(lambda module, args: other(args[0]))
    model.head.register_forward_hook(lambda module, args, output: output * 2)
    recording = without_wrappers(record(model, torch.ones(2, 4)))
    head = next(scope.id for scope in recording.scopes.values() if scope.name == "head")
    assert [item.name for item in recording.children[head]] == ["other", "linear", "mul"]


def test_number_of_a_call_counts_those_without_the_wrapper():
    """As PyTorch counts the calls of one module."""
    model = compiled(nn.Linear(4, 4))
    with Recorder() as recorder:
        model._orig_mod(model(torch.ones(2, 4)))
        model(torch.ones(2, 4))
    merged = without_wrappers(recorder.recording)
    assert [scope.call for scope in merged.scopes.values()] == [0, 1, 2]
    assert [module.calls for module in merged.modules.values()] == [tuple(merged.scopes)]


def error(y: Tensor, target: Tensor) -> Tensor:
    return (y - target).flatten()


@pytest.mark.parametrize("loss, name", ((nn.MSELoss(), "loss"), (error, "error")))
def test_outermost_compiled_module_beside_a_loss(loss, name):
    """Each is one box."""
    model, x = compiled(nn.Linear(4, 4)), torch.ones(2, 4)
    with Recorder() as recorder:
        loss(model(x), x)
    view = make_view(recorder.recording, ViewOptions(functions=True))
    scopes = view.recording.scopes
    assert [scopes[box].name for box in view.boxes if box in scopes] == ["model", name]


def test_failed_call():
    """The failure is in the scope that is left."""
    with pytest.raises(RuntimeError) as caught, Recorder():
        compiled(nn.Linear(3, 3))(torch.ones(2, 4))
    recording = recording_of(caught.value)
    merged = without_wrappers(recording)
    assert list(problems(merged)) == []
    assert recording.scopes[recording.run.failure.scope].name == "_orig_mod"
    assert merged.scopes[merged.run.failure.scope].kind is ScopeKind.COMPILED


def test_what_happened_in_the_module_inside_happened_in_its_scope():
    """Communication, graph breaks, calls of functions, grad nodes and memory."""
    recording = record(compiled(nn.Linear(4, 4)), torch.ones(2, 4))
    outer, inner = recording.scopes
    call = blank(FunctionCall, id="f0", scope=inner, ops=(), scopes=())
    merged = without_wrappers(replace(
        recording,
        communications=(blank(Communication, scope=inner), blank(Communication, scope=None)),
        graph_breaks=(blank(GraphBreak, scope=inner),),
        function_calls=keyed([call]),
        allocations=(blank(Allocation, made_in=inner, freed_in=""),),
        measured={"bytes": {outer: 2.0, inner: 1.0}},
    ))
    assert [one.scope for one in merged.communications] == [outer, None]
    assert [one.scope for one in merged.graph_breaks] == [outer]
    assert merged.function_calls["f0"].scope == outer
    assert [(one.made_in, one.freed_in) for one in merged.allocations] == [(outer, "")]
    assert merged.measured == {"bytes": {outer: 2.0}}
    assert {grad.scope for grad in merged.grad_nodes.values()} <= {outer, None}
    assert {op.scope for op in merged.ops.values()} == {outer}


def test_module_with_the_name_of_the_attribute_is_kept():
    """Only a wrapper of PyTorch is left out."""
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._orig_mod = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self._orig_mod(x)

    recording = record(Own(), torch.ones(2, 4))
    assert without_wrappers(recording) is recording


def test_summary_has_one_line_for_each_compiled_module():
    lines = record(Net(compiled), torch.ones(2, 4)).summary().splitlines()
    assert not any("_orig_mod" in line for line in lines)
    assert any("head (Linear, compiled)" in line and line.split()[-1] == "10" for line in lines)


def test_module_that_did_not_run_is_kept():
    """Only modules that are part of others' calls are left out."""
    model = Net(compiled)
    model.spare = nn.Linear(4, 4)
    merged = without_wrappers(record(model, torch.ones(2, 4)))
    (spare,) = (module for module in merged.modules.values() if not module.calls)
    assert spare.names == ("spare",)


def test_failure_outside_of_compiled_modules_stays_there():
    """In the scope that it has."""
    model = Net(compiled)
    model.head = nn.Linear(3, 3)
    with pytest.raises(RuntimeError) as caught, Recorder(model):
        model(torch.ones(2, 4))
    recording = recording_of(caught.value)
    merged = without_wrappers(recording)
    assert merged.run.failure == recording.run.failure
    assert merged.scopes[merged.run.failure.scope].name == "head"

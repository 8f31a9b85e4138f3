"""What is said where numbers ceased to be finite, and where gradients did not come."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from torchrecorder.annotations import nan_origin


class Poisoned(torch.nn.Module):
    """The gradient of ``first`` is NaN, ``idle`` has none, that of ``last`` is a number."""

    def __init__(self):
        super().__init__()
        self.first, self.idle, self.last = (torch.nn.Linear(3, 3) for _ in range(3))

    def forward(self, x):
        bad = torch.sqrt(self.first(x) * 0) * 0
        return self.last(bad + self.idle(x).detach())


def test_one_bad_number_is_enough():
    """For the norm; the rest is of the others."""
    with tr.Recorder(stats=True) as recorder:
        torch.tensor([1.0, -1.0, 4.0]).log()
        torch.tensor([1.0, 0.0, 4.0]).log()
    bad, endless = (each for each in recorder.recording.statistics if each.nans or each.infs)
    assert math.isnan(bad.norm) and math.isinf(endless.norm)
    assert math.isclose(bad.high, math.log(4), rel_tol=1e-6)


def test_a_norm_with_a_bad_number_in_it_is_none():
    """In rankings, where it comes first, in tables and in what a series remarks."""
    model, x = Poisoned(), torch.ones(2, 3)
    recording = tr.record(model, x, backward=True, stats=True)
    ranked = recording.top("parameter_gradient_norm")
    assert [each.name for each in ranked] == ["first", "last"]
    assert math.isnan(ranked[0].number) and math.isfinite(ranked[1].number)
    series = tr.Series(model)
    with series.step():
        model(x).sum().backward()
    remarks = list(series.remarks())
    assert not any(each.startswith("vanishing") for each in remarks)
    assert any("first" in each for each in remarks if each.startswith("not finite"))


def test_the_summary_names_weights_without_a_gradient():
    """Those of modules that were called, where others have one."""
    recording = tr.record(Poisoned(), torch.ones(2, 3), backward=True)
    lines = recording.summary().splitlines()
    told = {line.split()[1]: line for line in lines if "(Linear)" in line}
    assert {name: "no gradient" in line for name, line in told.items()} == {
        "first": False, "idle": True, "last": False,
    }
    assert "no gradient" not in tr.record(Poisoned(), torch.ones(2, 3)).summary()


def test_weights_that_are_read_or_not_without_a_gradient():
    """Of modules that are never called: only what is read could have had a gradient."""

    class Reads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.read, self.idle = (torch.nn.Linear(3, 3, bias=False) for _ in range(3))

        def forward(self, x):
            return self.fc(x) @ self.read.weight.detach()

    lines = tr.record(Reads(), torch.ones(2, 3), backward=True).summary().splitlines()
    told = {line.split()[1]: line.split("  ")[-1].strip() for line in lines if "(Linear)" in line}
    assert told["read"] == "weights read, never called, no gradient"
    assert told["idle"] == "never called"


def test_the_summary_names_the_one_weight_without_a_gradient():
    """Of a module that has others below it: they did get theirs, or are trained."""

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)
            self.scale = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            return self.fc(x) * self.scale.detach()

    model = Scaled()
    said = [tr.record(model, torch.ones(2, 3), backward=True).summary().splitlines()[2]]
    model.scale.requires_grad_(False)
    said.append(tr.record(model, torch.ones(2, 3), backward=True).summary().splitlines()[2])
    assert [line.split("  ")[-1].strip() for line in said] == [
        "no gradient for scale", "frozen scale",
    ]


def test_a_fold_shows_in_which_of_its_siblings_the_first_bad_number_is():
    """The inside that is drawn is that of the first."""

    class Root(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)

        def forward(self, x):
            return torch.sqrt(self.fc(x))

    model = torch.nn.Sequential(Root(), Root(), Root())
    with torch.no_grad():
        for each, bias in zip(model, (1.0, -1.0, 1.0)):
            each.fc.weight.zero_()
            each.fc.bias.fill_(bias)
    recording = tr.record(model, torch.ones(2, 3), stats=True)
    told = [
        [line.text for shape in tr.figure(recording, **options).shapes for line in shape.label]
        for options in ({}, {"depth": 1}, {"fold": False})
    ]
    assert [sum("first NaN in 1" in text for text in each) for each in told] == [1, 1, 0]
    assert "first NaN" in told[2]


class Masked(torch.nn.Module):
    """Attention weights under a mask that leaves nothing of some rows."""

    def forward(self, scores, mask):
        return scores.masked_fill(mask, float("-inf")).softmax(-1)


def test_the_infinity_of_a_mask_is_meant():
    """It is not named, and does not hide the first NaN; an infinity that was computed is."""
    scores, mask = torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    mask[0, 0] = True
    good = tr.record(Masked(), (scores, mask), stats=True)
    mask[0] = True
    bad = tr.record(Masked(), (scores, mask), stats=True)
    divided = tr.record(lambda x: (x / 0).log() - x / 0, torch.ones(3), stats=True)
    told = [
        [line.split(" at ")[0] for line in each.summary().splitlines() if "first" in line]
        for each in (good, bad, divided)
    ]
    assert told[:2] == [[], ["Note: first NaN: softmax() in Masked"]]
    assert [line.split(" in ")[0] for line in told[2]] == [
        "Note: first Inf: div()", "Note: first NaN: sub()",
    ]


def test_a_nan_that_an_infinite_argument_makes_is_named():
    """A mask makes infinities, and no NaN."""
    with tr.Recorder(stats=True) as recorder:
        torch.zeros(3) * float("inf")
    found = recorder.recording.first_not_finite()
    assert recorder.recording[found.node].name == "mul" and found.nans == 3


def test_a_color_that_was_asked_for_stays():
    """Where the first NaN was made only the outline says so: the fill is on the scale."""
    bad = tr.record(Masked(), (torch.ones(1, 3), torch.ones(1, 3, dtype=torch.bool)), stats=True)
    plain, heated = (
        next(s for s in tr.figure(bad, **options).shapes if s.name == "softmax").look
        for options in ({"depth": 1}, {"depth": 1, "color_by": "output_bytes"})
    )
    colors = tr.style.themes.LIGHT.heat
    assert heated.fill in colors and plain.fill not in colors
    assert (plain.stroke, plain.bold) == (heated.stroke, heated.bold)


def test_the_first_of_all_is_had_by_a_call():
    """The operation with its line, a grad node where forward is clean, or nothing."""
    recording = tr.record(Poisoned(), torch.ones(2, 3), backward=True, stats=True)
    found = recording.first_not_finite()
    assert recording.grad_nodes[found.node].name == "SqrtBackward0" and found.nans
    assert str(found).startswith("first NaN or Inf in backward: SqrtBackward0 of sqrt() in ")
    recording = tr.record(lambda x: (x - 1).log().exp(), torch.ones(2, 3), stats=True)
    found = recording.first_not_finite()
    assert recording[found.node].name == "log" and (found.nans, found.infs) == (0, 6)
    assert f"at tests/capture/test_not_finite.py:{recording[found.node].source.line}" in str(found)
    assert tr.record(torch.nn.ReLU(), torch.ones(2), stats=True).first_not_finite() is None
    with pytest.raises(tr.UnknownAnnotation, match=r"record\(..., stats=True\) measures"):
        tr.record(torch.nn.ReLU(), torch.ones(2)).first_not_finite()


class Normalized(torch.nn.Module):
    """Divides by a norm whose gradient at 0 is NaN."""

    def forward(self, x):
        return x / (x.pow(2).sum(-1, keepdim=True).sqrt() + 1e-6)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_step_with_the_gradients_of_a_bad_pass_is_no_origin(steps):
    """Nor is the pass, which in a second step adds to gradients in place."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), Normalized())
    torch.nn.init.zeros_(model[0].weight)
    torch.nn.init.zeros_(model[0].bias)
    optimizer = torch.optim.Adam(model.parameters())
    with tr.Recorder(model, stats=True) as recorder:
        for _ in range(steps):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    recording = recorder.recording
    assert recording.grad_nodes[recording.first_not_finite().node].name == "SqrtBackward0"
    (note,) = (line for line in recording.summary().splitlines() if "first" in line)
    assert note.startswith("Note: first NaN or Inf in backward: SqrtBackward0 of sqrt() in 1 at ")
    assert f", call 1 of {steps} (" in note or steps == 1


def test_the_origins_are_in_run_order():
    """What the program computes after the pass comes after it."""
    weight = torch.zeros(2, requires_grad=True)
    with tr.Recorder(stats=True) as recorder:
        weight.sqrt().sum().backward()
        torch.zeros(2).log()
    first, last = (line for line in recorder.recording.summary().splitlines() if "first" in line)
    assert "SqrtBackward0" in first and "first Inf: log()" in last
    assert str(recorder.recording.first_not_finite()) == first.removeprefix("Note: ")


def test_the_first_bad_number_in_a_loop_has_the_number_of_its_round():
    """Of a module that is called again the name alone does not say when."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
    optimizer = torch.optim.SGD(model.parameters(), 1e30)
    with tr.Recorder(model, stats=True) as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).pow(2).sum().backward()
            optimizer.step()
    recording = recorder.recording
    assert "pow() at" in str(recording.first_not_finite())
    assert ", call 2 of 4 (6 Inf)" in str(recording.first_not_finite())
    told = [line.text for shape in tr.figure(recording).shapes for line in shape.label]
    assert "first Inf, call 2 of 4" in told


def test_an_input_or_weight_that_had_the_number_is_named():
    """Not the operation that reads it first."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
    x = torch.ones(2, 3)
    x[0, 0] = float("nan")
    recording = tr.record(model, x, stats=True)
    found = recording.first_not_finite()
    assert found.node == recording.inputs[0].value and (found.nans, found.infs) == (1, 0)
    assert str(found).startswith("first NaN: input, which linear() in 0 at ")
    shapes = tr.figure(recording).shapes
    told = [shape.name for shape in shapes if "first NaN" in [line.text for line in shape.label]]
    assert told == ["input"]
    for bad in (float("nan"), float("inf")):
        with torch.no_grad():
            model[2].weight[0, 0] = bad
        found = tr.record(model, torch.ones(2, 3), stats=True).first_not_finite()
        assert "2.weight, which linear() in 2 at " in str(found)


def test_the_infinity_of_a_mask_that_is_a_tensor_is_meant():
    """As that of a number; a NaN that comes of it is made by the operation."""
    mask = torch.zeros(2, 3)
    mask[0] = float("-inf")
    bad = tr.record(lambda scores: (scores + mask).softmax(-1), torch.ones(2, 3), stats=True)
    told = [line for line in bad.summary().splitlines() if "first" in line]
    assert len(told) == 1 and told[0].startswith("Note: first NaN: softmax() in ")


@pytest.mark.parametrize("on_weight", [False, True])
def test_a_hook_that_makes_the_first_bad_gradient_is_named(on_weight):
    """Not the node whose gradient it replaces, nor the one that receives it."""
    layer = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    with tr.Recorder(layer, stats=True) as recorder:
        hidden = layer(torch.ones(2, 3))
        hooked = layer.weight if on_weight else hidden
        hooked.register_hook(lambda gradient: gradient / 0)
        hidden.tanh().sum().backward()
        optimizer.step()
    told = [line for line in recorder.recording.summary().splitlines() if "first" in line]
    assert len(told) == 1 and told[0].startswith("Note: first Inf: div() at ")
    assert str(recorder.recording.first_not_finite()) == told[0].removeprefix("Note: ")


def test_gradients_that_a_step_unscales_in_place_are_no_origin():
    """It writes to them, so they cannot be measured before."""
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    with tr.Recorder(model, stats=True) as recorder:
        large = (model(torch.ones(2, 3)) * 1e5).sum()
        scaler.scale(large - large.detach()).backward()
        scaler.step(optimizer)
    found = recorder.recording.first_not_finite()
    assert recorder.recording.grad_nodes[found.node].name.startswith("Mul")


def test_a_gradient_that_only_its_weight_shows():
    """Nodes of a reentrant checkpoint are not recorded, only what they add to weights."""

    def root(x):
        return (layer(x) * 0).sqrt()

    layer = torch.nn.Linear(3, 3)
    with tr.Recorder(layer, stats=True) as recorder:
        x = torch.ones(2, 3, requires_grad=True)
        checkpoint(root, x, use_reentrant=True).sum().backward()
    text = str(recorder.recording.first_not_finite())
    assert text.startswith("first NaN or Inf in backward: AccumulateGrad of bias (")


def test_a_nan_of_a_hook_is_searched_once(monkeypatch):
    """The operations of the run are not gone through again for the pass."""
    layer = torch.nn.Linear(2, 2)
    layer.weight.register_hook(lambda gradient: gradient / 0)
    with tr.Recorder(layer, stats=True) as recorder:
        layer(torch.zeros(1, 2)).sum().backward()
    searched = []

    def counted(recording):
        searched.append(recording)
        return first_bad_ops(recording)

    first_bad_ops = nan_origin._first_bad_ops
    monkeypatch.setattr(nan_origin, "_first_bad_ops", counted)
    found = nan_origin.first_not_finite(recorder.recording)
    assert found is not None and "div() " in found.text and len(searched) == 1

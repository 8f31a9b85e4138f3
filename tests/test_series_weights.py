"""Series: weights, clipped gradients, updates and histograms, against the model itself."""

from __future__ import annotations

import copy
import math

import pytest
import torch

import torchrecorder as tr
from torchrecorder.capture.probes.weights import WeightProbe, histogram
from torchrecorder.errors import InvalidArgument, UnknownFormat


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def norm(tensors):
    return torch.cat([each.detach().flatten() for each in tensors]).norm().item()


def train(net, steps=1, clip=0.1, series=None, optimizer=None, stepped=True):
    """Train *net* with clipping; the norms of gradients before and after it, of all weights."""
    optimizer = optimizer or torch.optim.AdamW(net.parameters(), 1e-2)
    for _ in range(steps):
        with series.step() if series is not None else torch.enable_grad():
            optimizer.zero_grad()
            net(torch.ones(3, 4)).square().sum().backward()
            raw = {name: each.grad.clone() for name, each in net.named_parameters()}
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
            clipped = {name: each.grad.clone() for name, each in net.named_parameters()}
            before = {name: each.detach().clone() for name, each in net.named_parameters()}
            if stepped:
                optimizer.step()
    return raw, clipped, before


def test_gradients_before_and_after_clipping_weights_and_updates():
    """Each module's numbers are those of its parameters, taken by hand."""
    net = model()
    series = tr.Series(net, every=1)
    raw, clipped, before = train(net, 3, series=series)
    for point in (each for each in series.points if each.step == 2 and each.scope in "02"):
        names = [f"{point.scope}.weight", f"{point.scope}.bias"]
        after = [net.get_parameter(name) for name in names]
        change = norm(new - before[name] for name, new in zip(names, after))
        held = norm(before[name] for name in names)
        assert point.parameter_gradient_norm == pytest.approx(norm(raw[n] for n in names), rel=1e-5)
        assert point.clipped_gradient_norm == pytest.approx(
            norm(clipped[name] for name in names), rel=1e-5
        )
        assert point.clipped_gradient_norm < point.parameter_gradient_norm
        assert point.weight_norm == pytest.approx(held, rel=1e-5)
        assert point.update_ratio == pytest.approx(change / held, rel=1e-3)
    (relu,) = (each for each in series.points if each.step == 2 and each.scope == "1")
    assert relu.weight_norm is relu.update_ratio is None


def test_without_an_optimizer_there_are_no_updates():
    """The gradient is the one that was left at the end of the block."""
    net = model()
    series = tr.Series(net, every=1)
    _, clipped, _ = train(net, series=series, stepped=False)
    first = series.points[0]
    assert first.clipped_gradient_norm == pytest.approx(
        norm([clipped["0.weight"], clipped["0.bias"]]), rel=1e-5
    )
    assert first.weight_norm is not None and first.update_ratio is None


def test_following_leaves_the_training_as_it_is():
    """Weights, state and random numbers have the same bits, and no hook is left."""
    found = []
    for followed in (False, True):
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        series = tr.Series(net, every=1, histograms=True) if followed else None
        train(net, 3, series=series, optimizer=optimizer)
        state = [each["momentum_buffer"] for each in optimizer.state.values()]
        found.append([*net.parameters(), *state, torch.get_rng_state()])
    assert all(torch.equal(one, other) for one, other in zip(*found))


def test_histograms_are_those_of_numpy():
    """Of weights and of gradients as the optimizer got them; by the names of parameters."""
    numpy = pytest.importorskip("numpy")
    net = model()
    series = tr.Series(net, every=1, scopes="0", histograms=True)
    _, clipped, before = train(net, series=series)
    assert [(each.name, each.what) for each in series.histograms] == [
        ("0.weight", "weights"), ("0.weight", "gradients"),
        ("0.bias", "weights"), ("0.bias", "gradients"),
    ]
    for each in series.histograms:
        tensor = (before if each.what == "weights" else clipped)[each.name].double().numpy()
        counts, edges = numpy.histogram(tensor, 40)
        assert list(each.bars.counts) == counts.tolist()
        assert list(each.bars.edges) == pytest.approx(edges.tolist())
        assert each.bars.total == pytest.approx(tensor.sum())
        assert each.bars.squares == pytest.approx((tensor**2).sum())


@pytest.mark.parametrize(
    ("numbers", "count"), [([2.0, 2.0], 2), ([float("nan"), 1.0], 1), ([float("inf")], 0), ([], 0)]
)
def test_histograms_of_odd_tensors(numbers, count):
    """Equal numbers, those that are not finite, none at all."""
    bars = histogram(torch.tensor(numbers))
    assert sum(bars.counts) == count and len(bars.edges) == 41
    assert bars.edges[0] < bars.edges[-1]
    finite = [number for number in numbers if math.isfinite(number)] or [0.0]
    assert (bars.edges[0] + bars.edges[-1]) / 2 == pytest.approx(sum(finite) / len(finite))


def test_an_error_of_torchrecorder_does_not_stop_the_step():
    """The step goes on, and a warning says what is missing."""
    net = model()
    plain, followed = copy.deepcopy(net), WeightProbe(net)
    train(plain)
    followed._record_weight = lambda *args, **kwargs: 1 / 0
    with pytest.warns(tr.NothingFound, match="could not be followed: ZeroDivisionError"), followed:
        train(net)
    assert torch.equal(net[0].weight, plain[0].weight)


def test_plots_in_each_format_and_a_page(tmp_path):
    """Of each number, and all of them with what stands out."""
    net = model()
    series = tr.Series(net, every=1)
    train(net, 3, series=series)
    begins = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!DOCTYPE html>"}
    for suffix, begin in begins.items():
        path = series.plot(tmp_path / f"plot{suffix}", "update_ratio")
        assert path.read_bytes().startswith(begin)
    page = series.page(tmp_path / "all.html").read_text()
    assert page.count("<svg") == 9 and "Update, relative to the weight" in page
    for wrong in (lambda: series.page("all.svg"), lambda: series.plot("all.bmp")):
        with pytest.raises(UnknownFormat):
            wrong()
    with pytest.raises(InvalidArgument, match="histograms must be"):
        tr.Series(net, histograms="weights")


def test_accumulated_gradients():
    """The norm of the last pass is without the gradients of earlier ones; the optimizer has all."""
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    series, passes, accumulated = tr.Series(net, every=1), [], []
    for step in range(4):
        x = torch.rand(2, 4)
        passes.append(norm(torch.autograd.grad(net(x).sum(), [*net.parameters()])))
        with series.step():
            net(x).sum().backward()
            accumulated.append(norm(each.grad for each in net.parameters()))
            if step % 2:
                optimizer.step()
                optimizer.zero_grad()
    assert [point.parameter_gradient_norm for point in series.points] == pytest.approx(passes)
    assert [point.clipped_gradient_norm for point in series.points] == pytest.approx(accumulated)
    assert accumulated[1] > passes[1]

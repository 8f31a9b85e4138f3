"""Numbers of tensors: statistics, histograms and weights over a step, as NumPy tells them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor, nn

from torchrecorder.capture.probes.statistics import numbers
from torchrecorder.capture.probes.weights import BINS, WeightProbe, histogram
from torchrecorder.capture.scope import chosen

np = pytest.importorskip("numpy")

ANY = st.floats(width=32, allow_subnormal=False)
LISTS = st.lists(ANY | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]), max_size=12)


def close(one: float, other: float) -> bool:
    """Whether two numbers are one, but for rounding."""
    return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-300) or (
        math.isnan(one) and math.isnan(other))


@given(LISTS)
def test_statistics(values: list[float]) -> None:
    """Counts of all, figures of those that are finite."""
    all_of = np.array(values, dtype=np.float64)
    finite = all_of[np.isfinite(all_of)]
    found = numbers(torch.tensor(values))
    if not values:
        assert found is None
        return
    assert found is not None
    count, mean, std, low, high, norm, zeros, nans, infinities = found
    assert count == len(values) and zeros == int((finite == 0).sum())
    assert nans == int(np.isnan(all_of).sum()) and infinities == int(np.isinf(all_of).sum())
    figures = (mean, std, low, high)
    if not finite.size:
        assert figures == (0.0, 0.0, 0.0, 0.0)
    else:
        assert (low, high) == (finite.min(), finite.max()) and low <= mean <= high or low == high
        size = np.abs(finite).max()
        assert abs(mean - finite.mean()) <= 1e-9 * size and abs(std - finite.std()) <= 1e-9 * size
    with np.errstate(invalid="ignore"):
        assert close(norm, float(np.sqrt((all_of ** 2).sum())))


FORMS = {
    "half": lambda: torch.tensor([[1.0, -3.0], [0.5, 2.0]]).half(),
    "turned": lambda: torch.tensor([[1.0, 0.5], [-3.0, 2.0]]).t(),
    "compressed": lambda: torch.tensor([[1.0, -3.0], [0.5, 2.0]]).to_sparse_csr(),
    "coordinates": lambda: torch.tensor([[1.0, -3.0], [0.5, 2.0]]).to_sparse(),
    "told twice": lambda: torch.sparse_coo_tensor(
        torch.tensor([[0, 1, 2, 3, 3]]), torch.tensor([1.0, -3.0, 0.5, 1.5, 0.5]), (9,)),
    "nested": lambda: torch.nested.nested_tensor(
        [torch.tensor([1.0, -3.0, 0.5]), torch.tensor([2.0])], layout=torch.jagged),
    "with gradients": lambda: torch.tensor([1.0, -3.0, 0.5, 2.0], requires_grad=True),
}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.filterwarnings("ignore")
def test_forms_of_a_tensor(kind: str) -> None:
    """Of the same four numbers, whatever holds them."""
    found = numbers(FORMS[kind]())
    assert found is not None and found[0] == 4
    values = np.array([1.0, -3.0, 0.5, 2.0])
    assert found[1:6] == pytest.approx((
        values.mean(), values.std(), -3.0, 2.0, math.sqrt(14.25)))


def test_complex_numbers_are_measured_by_their_size() -> None:
    """Tensors without decimal numbers, and without numbers at all, are not."""
    found = numbers(torch.tensor([3 + 4j, -2j]))
    assert found is not None and found[:5] == (2, 3.5, 1.5, 2.0, 5.0)
    others = [torch.tensor([1]), torch.tensor([True]), torch.ones(0), torch.ones(2, device="meta")]
    assert [numbers(each) for each in others] == [None] * 4


@pytest.mark.parametrize(
    ("choice", "paths", "found"),
    [
        (True, ["a"], True), (False, ["a"], False), ("a", ["a"], True), ("a", ["a.b"], False),
        ("a.*", ["a.b"], True), ("a?", ["b", "ab"], True), (["x", "b"], ["a", "b"], True),
        ([], ["a"], False), ("A", ["a"], False), ("", [""], True),
    ],
)
def test_choices(choice: Any, paths: list[str], found: bool) -> None:
    """All, none, or those whose path one of the patterns matches."""
    assert bool(chosen(choice, paths)) == found


FEW = st.lists(st.floats(-100, 100, width=32) | st.sampled_from([math.nan, math.inf]), max_size=20)


@given(FEW)
def test_histograms(values: list[float]) -> None:
    """Of the finite numbers, between the least and the largest; of one number, around it."""
    found = histogram(torch.tensor(values))
    finite = np.array([value for value in values if math.isfinite(value)], dtype=np.float64)
    assert len(found.counts) + 1 == len(found.edges) == BINS + 1
    assert sum(found.counts) == finite.size
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    spare = 0.5 if low == high else 0.0
    assert found.edges[0] == low - spare and found.edges[-1] == high + spare
    assert np.allclose(np.diff(found.edges), (high - low + 2 * spare) / BINS)
    edges = np.array(found.edges)
    for edge in edges[1:-1]:
        below = sum(count for count, upper in zip(found.counts, edges[1:]) if upper <= edge)
        near = (np.abs(finite - edge) < 1e-9 * max(1.0, abs(low), abs(high))).sum()
        assert abs(below - (finite < edge).sum()) <= near
    assert found.total == pytest.approx(finite.sum(), abs=1e-9)
    assert found.squares == pytest.approx((finite ** 2).sum())


class Several(nn.Module):
    """Weights of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(2, 1)
        self.frozen = nn.Parameter(torch.tensor([3.0, 4.0]), requires_grad=False)
        self.unused = nn.Parameter(torch.tensor([2.0]))
        self.away = nn.Parameter(torch.ones(2, device="meta"))
        self.lazy = nn.LazyLinear(2)


def size(tensor: Tensor) -> float:
    """The length of a vector."""
    return math.sqrt(sum(float(each) ** 2 for each in tensor.flatten().tolist()))


@pytest.mark.parametrize("histograms", [False, True])
def test_weights_over_a_step(histograms: bool) -> None:
    """Lengths of the weight before, the gradient that was used, and the change."""
    model = Several()
    before = {name: each.detach().clone() for name, each in model.one.named_parameters()}
    optimizer = torch.optim.SGD(model.one.parameters(), lr=0.5)
    with WeightProbe(model, histograms=histograms) as followed:
        model.one(torch.tensor([[1.0, 2.0]])).sum().backward()
        other = nn.Parameter(torch.ones(1))
        other.grad = torch.ones(1)
        torch.optim.SGD([other], lr=1).step()
        optimizer.step()
    assert {*followed.weights} == {"one.weight", "one.bias", "frozen", "unused", "away"}
    for name, gradient in (("weight", torch.tensor([1.0, 2.0])), ("bias", torch.ones(1))):
        weight = followed.weights[f"one.{name}"]
        assert weight.norm == pytest.approx(size(before[name]))
        assert weight.gradient == pytest.approx(size(gradient))
        assert weight.update == pytest.approx(0.5 * size(gradient))
        assert [*weight.histograms] == ["weights", "gradients"] * histograms
        if histograms:
            assert weight.histograms["weights"] == histogram(before[name])
            assert weight.histograms["gradients"] == histogram(gradient)
    frozen, unused, away = (followed.weights[name] for name in ("frozen", "unused", "away"))
    assert (frozen.norm, frozen.gradient, frozen.update) == (5.0, None, None)
    assert (unused.norm, unused.gradient, unused.update) == (2.0, None, None)
    assert (away.norm, away.gradient, away.update) == (None, None, None)
    assert [*frozen.histograms] == ["weights"] * histograms and not away.histograms


def test_weights_without_a_step() -> None:
    """The gradient is that at the end, and there is no change."""
    model = nn.Linear(2, 1, bias=False)
    with WeightProbe(model) as followed:
        model(torch.tensor([[3.0, 4.0]])).sum().backward()
    (weight,) = followed.weights.values()
    assert (weight.gradient, weight.update) == (5.0, None)
    assert weight.norm == pytest.approx(size(model.weight))
    with WeightProbe(len) as nothing:
        pass
    assert nothing.weights == {}


def test_what_cannot_be_followed_is_a_warning(monkeypatch: Any) -> None:
    """And the step of the program goes on."""
    model = nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1)

    def fail(*given: Any) -> Any:
        raise RuntimeError("no memory")

    with pytest.warns(UserWarning, match="could not be followed: RuntimeError: no memory"):
        with WeightProbe(model):
            model(torch.ones(1, 2)).sum().backward()
            monkeypatch.setattr(torch.linalg, "vector_norm", fail)
            optimizer.step()
    assert torch.equal(model.weight, before - 1)


def test_a_step_after_the_block_is_not_followed() -> None:
    """The numbers are those of the step in it."""
    model = nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    with WeightProbe(model) as followed:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    (weight,) = followed.weights.values()
    before = replace(weight)
    optimizer.step()
    assert weight == before and weight.norm != pytest.approx(size(model.weight))

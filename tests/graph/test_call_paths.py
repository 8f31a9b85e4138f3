"""A shared module has several paths; which of them a call has depends on the caller."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.annotations.limits import exceeded
from torchrecorder.errors import NothingFound
from torchrecorder.recording import Recording
from torchrecorder.views.view import View

PATHS = ("encoder.embed", "decoder.embed")


class Part(nn.Module):
    """A part that shares *embed* with another one, and calls it if *calls*."""

    def __init__(self, embed: nn.Module, calls: bool) -> None:
        super().__init__()
        self.embed, self.fc, self.calls = embed, nn.Linear(4, 4), calls

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.embed(x) if self.calls else x)  # type: ignore[no-any-return]


class Shares(nn.Module):
    """An encoder and a decoder with a common embedding, which they, or this model, call."""

    def __init__(self, parts_call: bool) -> None:
        super().__init__()
        embed = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.encoder, self.decoder = Part(embed, parts_call), Part(embed, parts_call)
        self.common = nn.ModuleList([embed])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in (self.encoder, self.decoder):
            x = part(x if part.calls else part.embed(x))
        return x


@pytest.fixture(scope="module")
def called_above() -> Recording:
    """A run in which the model calls the shared module, in place of its parts."""
    return torchrecorder.record(Shares(parts_call=False), torch.ones(1, 4))


@pytest.fixture(scope="module")
def called_by_parts() -> Recording:
    """A run in which each part calls the shared module."""
    return torchrecorder.record(Shares(parts_call=True), torch.ones(1, 4))


def paths(recording: Recording) -> list[list[str]]:
    """The paths of all calls of the shared module."""
    scopes = recording.scopes.values()
    return [[*recording.call_paths[one.id]] for one in scopes if one.cls == "Sequential"]


def test_a_call_has_the_paths_that_fit_its_caller(
    called_above: Recording, called_by_parts: Recording
) -> None:
    """All if the model calls it; its own and those further up if a part of the model does."""
    assert paths(called_above) == [[*PATHS, "common.0"]] * 2
    assert paths(called_by_parts) == [["encoder.embed"], ["decoder.embed"]]
    inner = called_above.scopes[called_above.find("decoder.embed.1")[1].id]  # type: ignore[index]
    assert [*called_above.call_paths[inner.id]] == [
        "encoder.embed.1", "decoder.embed.1", "common.0.1"
    ]


class Borrows(nn.Module):
    """Calls a module of another part of the model, which it keeps in a list."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.borrowed = [module]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.borrowed[0](x)  # type: ignore[no-any-return]


def test_a_call_by_another_part_has_all_paths() -> None:
    """None of them goes through the caller."""
    shares = Shares(parts_call=False)
    shares.encoder.fc = Borrows(shares.decoder.fc)  # type: ignore[assignment]
    shares.others = nn.ModuleList([shares.decoder.fc])
    recording = torchrecorder.record(shares, torch.ones(1, 4))
    called = [scope for scope in recording.scopes.values() if scope.cls == "Linear"]
    found = [[*recording.call_paths[one.id]] for one in called if one.path == "decoder.fc"]
    assert found == [["decoder.fc", "others.0"], ["decoder.fc"]]


def _options(path: str) -> list[dict[str, Any]]:
    return [{"hide": path}, {"hide": f"{path}.*"}, {"closed": path}, {"closed": f"{path}.1"},
            {"focus": path}, {"focus": f"{path}.1"}, {"until": path},
            {"group": {"Table": [path]}}, {"group": {"Table": [f"{path}.1.relu"]}}]


@pytest.mark.parametrize("number", range(9))
def test_options_know_all_paths(called_above: Recording, number: int) -> None:
    """Each gives the same figure, without a warning."""
    def view(path: str) -> View:
        return torchrecorder.view(called_above, depth=9, **_options(path)[number])

    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingFound)
        first, *others = (view(path) for path in (*PATHS, "common.0"))
    plain = torchrecorder.view(called_above, depth=9)
    assert first.boxes != plain.boxes or first.clusters != plain.clusters
    assert all(other.boxes == first.boxes for other in others)
    assert all(other.clusters == first.clusters for other in others)


@pytest.mark.parametrize("option", ["hide", "closed", "focus"])
def test_calls_by_other_parts_have_other_paths(called_by_parts: Recording, option: str) -> None:
    """The path of a call by the encoder is not that of a call by the decoder."""
    first, other = (
        torchrecorder.view(called_by_parts, **{option: path}).boxes.keys() for path in PATHS
    )
    assert first != other


def _recorded(model: nn.Module, **options: Any) -> Recording:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingFound)
        return torchrecorder.record(model, torch.ones(1, 4), backward=True, **options)


def test_tensors_are_kept_under_the_path_that_is_given() -> None:
    """Also those of operations; under the first path if several fit a pattern."""
    model = Shares(parts_call=False)
    kept = _recorded(model, keep=[*PATHS, "common*.1: relu"])
    assert list(kept.activations) == ["common.0.1: relu", *PATHS]
    for table in (kept.activations, kept.gradients):
        first, other = (table[path] for path in PATHS)
        assert len(first) == 2 and all(map(torch.equal, first, other))
    assert torch.equal(kept.activations["common.0.1: relu"][1], kept.activations[PATHS[0]][1])
    assert set(_recorded(model, keep="*.embed").activations) == {"encoder.embed"}
    by_parts = _recorded(Shares(parts_call=True), keep="decoder.embed")
    assert isinstance(by_parts.activations["decoder.embed"], torch.Tensor)


def test_statistics_of_a_shared_module() -> None:
    """They are the same by each of its paths."""
    def measured(path: str, run: Callable[..., Recording] = _recorded) -> set[str]:
        return {one.node for one in run(Shares(parts_call=False), stats=path).statistics}

    first, *others = map(measured, (*PATHS, "common.0"))
    assert first and all(other == first for other in others)


@pytest.mark.parametrize("path", ["encoder.embed.0", "decoder.embed.0", "common.0.0"])
def test_new_names_and_limits_know_each_path(called_above: Recording, path: str) -> None:
    """A module inside a shared one, its operations and its weights have a name by each of them."""
    rename = {path: "A", f"{path}.linear": "B", f"{path}.weight": "C"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a name that is unknown warns
        figures = [
            torchrecorder.figure(called_above, depth=depth, parameters=True, rename=rename)
            for depth in (2, "ops")
        ]
    titles = [[shape.label[0].text for shape in figure.shapes] for figure in figures]
    closed, opened = ([found.count(title) for title in "ABC"] for found in titles)
    assert closed == [2, 0, 1] and opened == [0, 2, 1]
    lines = exceeded(called_above, {path: {"parameters": 1}})
    assert lines == [f"{path}: parameters: 20 of 1"]


@pytest.mark.parametrize("scopes", ["encoder.*.0", "decoder.*.0", "common.0.0"])
def test_a_series_of_a_shared_module(scopes: str) -> None:
    """Has its points and histograms by each of its paths."""
    model = Shares(parts_call=False)
    series = torchrecorder.Series(model, every=1, scopes=scopes, histograms=True)
    with series.step():
        model(torch.ones(1, 4)).sum().backward()
    assert series.scopes == ("encoder.embed.0",)
    assert series.points[0].gradient_norm is not None
    names = {bars.name.rpartition(".")[2] for bars in series.histograms}
    assert names == {"weight", "bias"}


def test_modules_that_are_shared_in_a_shared_module() -> None:
    """They have the paths through each path of the module around them."""
    inner = nn.ReLU()
    block = nn.Sequential(inner, inner)
    found = torchrecorder.record(nn.Sequential(block, block), torch.ones(1, 4))
    called = [list(found.call_paths[one.id]) for one in found.scopes.values() if one.cls == "ReLU"]
    assert all({*each} == {"0.0", "0.1", "1.0", "1.1"} for each in called) and len(called) == 4


def test_a_module_that_contains_itself() -> None:
    """It has no end of paths, of which some are enough."""
    class Loops(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    model = nn.Sequential(Loops(), Loops())
    model[0].next, model[1].next = model[1], model[0]
    found = torchrecorder.record(model, torch.ones(1, 4))
    assert [each.id for each in found.find("0.next.next.next")] == ["m2", "s2"]


def test_the_paths_of_calls_are_a_mapping() -> None:
    """It lists the calls, and has nothing else."""
    recording = torchrecorder.record(Shares(True), torch.ones(1, 4))
    assert [*recording.call_paths] == [*recording.scopes]
    assert len(recording.call_paths) == len(recording.scopes)
    assert [*dict(recording.call_paths.items())["s0"]] == [""]
    assert "s99" not in recording.call_paths

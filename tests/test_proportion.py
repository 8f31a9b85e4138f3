"""Nothing grows faster than the run: the work of long chains and loops, counted in lines."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
from tests import torchvision_shim
from tests.views.loops import trained
from tests.work import growth, lines_run
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view

BOUND = 2.2
"""2 is in proportion to the size, 4 is its square."""

WRITTEN: dict[str, dict[str, Any]] = {
    "page.html": {}, "figure.svg": {"fold": False, "depth": 9}, "run.json": {}
}
"""Files, and the options with which they are written."""


class Block(torch.nn.Module):
    """Two layers and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu()) + x  # type: ignore[no-any-return]


def chain(blocks: int) -> Recording:
    """A run of so many equal blocks."""
    model = torch.nn.Sequential(*(Block() for _ in range(blocks)))
    with torch.no_grad():
        return torchrecorder.record(model, torch.rand(1, 4))


def training(steps: int) -> Recording:
    """So many steps of training."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9, foreach=False)
    return trained(model, optimizer, steps)


RUNS: dict[str, tuple[Callable[[int], Recording], int]] = {
    "chain": (chain, 16), "training": (training, 4)
}
"""What makes a run, and the smallest of its three sizes."""


@pytest.mark.parametrize("kind", RUNS)
def test_recording_is_in_proportion(kind: str) -> None:
    """Twice as many blocks or steps are twice the work."""
    make, size = RUNS[kind]
    make(1)  # what is imported and made once
    assert growth(lambda number: lambda: make(number), size) < BOUND


class Repeated(torch.nn.Module):
    """The same function so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = torch.sin(x)
        return x


class Idle(torch.nn.Module):
    """So many layers that are not called."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def called(layers: int) -> torch.nn.Module:
    """So many layers that are called, with gradients."""
    return torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(layers)))


@pytest.mark.parametrize("make, most", [(called, 1_613), (Repeated, 373), (Idle, 462)])
def test_lines_that_recording_takes(
    make: Callable[[int], torch.nn.Module], most: int
) -> None:
    """An eighth more than when this was written, for each layer or operation."""
    def recorded(number: int) -> int:
        model, x = make(number), torch.rand(1, 4)
        return lines_run(lambda: torchrecorder.record(model, x))

    recorded(1)
    assert (recorded(32) - recorded(16)) / 16 < most


@pytest.mark.parametrize("file, most", [("page.html", 2_142), ("figure.svg", 970)])
def test_lines_that_each_operation_takes(file: str, most: int, tmp_path: Path) -> None:
    """An eighth more than when this was written: features that run for each operation add up."""
    def writing(blocks: int) -> tuple[int, int]:
        recording = chain(blocks)
        return len(recording.ops), lines_run(lambda: recording.render(tmp_path / file))

    chain(1).render(tmp_path / file)
    (few, one), (many, two) = writing(16), writing(32)
    assert (two - one) / (many - few) < most


def flat_weights(number: int) -> Recording:
    """So many parameters that are parts of one tensor."""
    def run(x: torch.Tensor) -> torch.Tensor:
        flat = x.repeat(number)
        return torch.stack([x * torch.nn.Parameter(part) for part in flat.split(2)])

    return torchrecorder.record(run, torch.rand(2))


def unknown_flat_weights(number: int) -> Recording:
    """So many parameters that are parts of one tensor, which the run does not read."""
    model = torch.nn.ParameterList(map(torch.nn.Parameter, torch.rand(2 * number).split(2)))
    return torchrecorder.record(lambda x: [x * part for part in model], torch.rand(2))


def written_views(number: int) -> Recording:
    """So many views of one tensor, all written, then all read."""
    def run(x: torch.Tensor) -> list[torch.Tensor]:
        views = [*x.clone().unbind()]
        for view in views:
            view.add_(1)
        return [view.relu() for view in views]

    return torchrecorder.record(run, torch.rand(number))


def reads_of_written(number: int) -> Recording:
    """So many writes to a part of a tensor, and a read of all after each."""
    def run(x: torch.Tensor) -> torch.Tensor:
        whole = torch.zeros(number)
        for place in range(number):
            whole[place] = x
            x = x + whole.sum()
        return x

    return torchrecorder.record(run, torch.rand(()))


@pytest.mark.parametrize(
    "make", [flat_weights, unknown_flat_weights, written_views, reads_of_written]
)
def test_views_are_recorded_in_proportion(make: Callable[[int], Recording]) -> None:
    """Parts of one storage are not compared with all other parts."""
    make(1)
    assert growth(lambda number: lambda: make(number), 40) < BOUND


class Doubled(torch.autograd.Function):
    """Every tensor times 2."""

    @staticmethod
    def forward(_: Any, *given: torch.Tensor) -> Any:
        return tuple(each * 2 for each in given)

    @staticmethod
    def backward(_: Any, *grads: torch.Tensor) -> Any:
        return tuple(each * 2 for each in grads)


def many_results(number: int) -> Recording:
    """One custom function of so many weights, whose results are read one after another."""
    def run() -> torch.Tensor:
        weights = [torch.ones(2, requires_grad=True) for _ in range(number)]
        return torch.stack([each.sum() for each in Doubled.apply(*weights)])  # type: ignore

    return torchrecorder.record(run)


def layers_of_no_model(number: int) -> Recording:
    """So many trained layers, none inside another."""
    layers = [torch.nn.Linear(2, 2) for _ in range(number)]
    with torchrecorder.Recorder() as recorder:
        x = torch.ones(2)
        for layer in layers:
            x = layer(x)
    return recorder.recording


def list_of_unknown(number: int) -> Recording:
    """One operation on a list of so many tensors from before the run."""
    given = [torch.ones(2) for _ in range(number)]
    with torchrecorder.Recorder() as recorder:
        torch._foreach_add_(given, 1.0)
    return recorder.recording


class Yields(torch.nn.Module):
    """A generator as a forward pass."""

    def forward(self, number: int) -> Iterator[torch.Tensor]:
        for place in range(number):
            yield torch.ones(2) + place


def generated(number: int) -> Recording:
    """A model that yields so many results."""
    with torchrecorder.Recorder() as recorder:
        for each in Yields()(number):
            each.sum()
    return recorder.recording


@pytest.mark.parametrize("make", [many_results, layers_of_no_model, list_of_unknown, generated])
def test_many_of_a_kind_are_in_proportion(make: Callable[[int], Recording]) -> None:
    """Each takes as much work as the first, not a look at all others."""
    make(1)
    assert growth(lambda number: lambda: make(number), 40) < BOUND


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("name", WRITTEN)
def test_writing_is_in_proportion(kind: str, name: str, tmp_path: Path) -> None:
    """A page of all, a figure in which all is open, and the saved file."""
    make, size = RUNS[kind]
    make(1).render(tmp_path / name, **WRITTEN[name])

    def writing(number: int) -> Callable[[], Any]:
        recording = make(number)
        return lambda: recording.render(tmp_path / name, **WRITTEN[name])

    assert growth(writing, size) < BOUND


NAMED: dict[str, Callable[[int], dict[str, Any]]] = {
    "groups": lambda number: {"group": {"Pair": ["*.first", "*.relu"]}},
    "weights": lambda number: {
        "group": {"All": [*map(str, range(number)), *(f"{n}.first.bias" for n in range(number))]}
    },
    "hidden": lambda number: {"hide": [f"{place}.first" for place in range(number)]},
    "closed": lambda number: {"closed": [str(place) for place in range(number)]},
}
"""Options that name so many parts."""


@pytest.mark.parametrize("option", NAMED)
def test_named_parts_are_in_proportion(option: str) -> None:
    """Names are looked up, and all groups of a name are added at once."""
    def viewing(number: int) -> Callable[[], Any]:
        recording, named = chain(number), NAMED[option](number)
        return lambda: make_view(recording, ViewOptions(fold=False, depth=9, **named))

    viewing(1)()
    assert growth(viewing, 16) < BOUND


def test_tensors_outside_the_graph_are_found_in_proportion() -> None:
    """The graph is walked once for all tensors whose gradients are requested."""
    def asking(number: int) -> Callable[[], Any]:
        weights = [torch.ones(2, requires_grad=True) for _ in range(number)]
        unused = torch.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError), torchrecorder.Recorder() as recorder:
            total = torch.stack([weight * 2 for weight in weights]).sum()
            torch.autograd.grad(total, [*weights, unused])
        return recorder.recording.why_backward_failed

    assert "inputs[2]" in str(asking(2)())
    assert growth(asking, 16) < BOUND


@pytest.mark.parametrize("kind", RUNS)
def test_loading_is_in_proportion(kind: str, tmp_path: Path) -> None:
    """The saved file is read, and what is in it fits together."""
    make, size = RUNS[kind]

    def loading(number: int) -> Callable[[], Any]:
        path = make(number).save(tmp_path / f"{number}.json")
        return lambda: torchrecorder.load(path)

    loading(1)()
    assert growth(loading, size) < BOUND


def test_equal_parts_of_a_run_are_kept_once() -> None:
    """Shapes and arguments do not take memory again in each step."""
    recording = training(3)
    for parts in (
        [op.arguments for op in recording.ops.values()],
        [value.shape for value in recording.values.values()],
    ):
        assert len({id(part) for part in parts}) == len({*parts}) < len(parts)


@pytest.mark.skipif(not importlib.util.find_spec("torchvision"), reason="records its models")
@pytest.mark.parametrize("trained", [False, True])
def test_size_of_a_saved_recording(trained: bool, tmp_path: Path) -> None:
    """Each operation takes as many bytes as the guide says."""
    torchvision_shim.install()
    from torchvision.models import resnet18

    text = (Path(__file__).parents[1] / "docs" / "guide" / "saving.md").read_text()
    said = text.partition("For each operation")[2].partition("Nothing in the file")[0]
    ranges = re.findall(r"([\d,]+) to ([\d,]+)", said)
    flags = {"backward": True, "stats": True} if trained else {}
    made = torchrecorder.record(resnet18().eval(), torch.rand(1, 3, 64, 64), **flags)
    for name, (low, high) in zip(("run.json", "run.json.gz"), ranges[2:] if trained else ranges):
        each = made.save(tmp_path / name).stat().st_size / len(made.ops)
        assert 0.9 * float(low.replace(",", "")) < each < 1.1 * float(high.replace(",", ""))

"""Tensors that a scope looks up, made before it: they are drawn in it, as constants are."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.events import ScopeId
from torchrecorder.export.table.folded_rows import folded
from torchrecorder.export.table.rows import every_row
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind, View

LAYERS = 4


class Cache:
    """Holds the length of each layer."""

    def __init__(self) -> None:
        self.lengths = [torch.tensor(0) for _ in range(LAYERS)]


class Layer(nn.Module):
    """Reads its length in a cache, or is given it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, cache: Cache | None, length: Tensor | None = None) -> Tensor:
        if cache is not None:
            length = cache.lengths[self.number]
        assert length is not None
        found: Tensor = self.linear(x) + length
        return found


class Model(nn.Module):
    """Layers that *share* one length, are *given* theirs, or look them up."""

    def __init__(self, given: bool = False, share: bool = False) -> None:
        super().__init__()
        self.given = given
        self.layers = nn.ModuleList(Layer(0 if share else number) for number in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        cache = Cache()
        for number, layer in enumerate(self.layers):
            x = layer(x, None, cache.lengths[number]) if self.given else layer(x, cache)
        return x


def recorded(**options: bool) -> Recording:
    return torchrecorder.record(Model(**options), torch.rand(2, 4))


def folds(view: View) -> list[int]:
    return [cluster.count for cluster in view.clusters.values() if cluster.count > 1]


def homes(view: View) -> list[str]:
    """The paths of the scopes in which lengths are drawn."""
    scopes, ops = view.recording.scopes, view.recording.ops
    return [
        scopes[box.cluster].path
        for box in view.boxes.values()
        if box.cluster in scopes and box.id in ops and ops[box.id].name == "tensor"
    ]


ALL = ViewOptions(depth="ops", fold=False)


def test_layers_that_look_up_a_tensor_of_their_own_fold() -> None:
    """The cache is made before them; in the recording it stays where it ran."""
    recording = recorded()
    assert folds(make_view(recording)) == [LAYERS]
    assert homes(make_view(recording, ALL)) == [f"layers.{number}" for number in range(LAYERS)]
    made = [op for op in recording.ops.values() if op.name == "tensor"]
    assert {op.scope for op in made} == {recording.roots[0]}


def test_the_functions_that_made_a_cache_have_no_box_without_it() -> None:
    view = make_view(recorded(), ViewOptions(depth="ops", fold=False, functions=True))
    assert len(homes(view)) == LAYERS
    names = [view.recording.scopes[cluster].name for cluster in view.clusters]
    assert "Cache" not in names and "__init__" not in names


def test_what_a_layer_is_given_is_drawn_outside() -> None:
    assert homes(make_view(recorded(given=True), ALL)) == [""] * LAYERS


def test_what_several_layers_look_up_is_drawn_outside() -> None:
    """Where it was made; also what nothing reads."""
    assert homes(make_view(recorded(share=True), ALL)) == [""] * LAYERS


def test_layers_stay_in_the_order_in_which_they_ran() -> None:
    """Although what they look up was made before the first of them."""
    view = make_view(recorded(), ViewOptions(depth=1, fold=False))
    names = [view.recording.scopes[box].name for box in view.boxes if box in view.recording.scopes]
    assert names == [f"layers.{number}" for number in range(LAYERS)]


class Frozen(nn.Module):
    """Its layer runs in a region, which is no module and is given nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            found: Tensor = self.layer(x)
        return found


def test_what_a_model_is_given_is_drawn_outside_of_its_regions() -> None:
    """The program makes it; only a layer in a region of the model reads it."""
    model = Frozen()
    with torchrecorder.Recorder(model) as recorder:
        model(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    view = make_view(recorder.recording, ALL)
    [made] = (op.id for op in recorder.recording.ops.values() if op.name == "tensor")
    assert view.boxes[made].cluster is None


def test_what_a_program_makes_is_drawn_outside_of_its_regions() -> None:
    """It did not run under ``no_grad``, whether it is given to a model there or to a function."""
    model = nn.Linear(4, 4)
    with torchrecorder.Recorder(model) as recorder:
        x, y = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor(5.0)
        with torch.no_grad():
            model(x).add(1).mul(y)
    view = make_view(recorder.recording, ALL)
    made = [op.id for op in recorder.recording.ops.values() if op.name == "tensor"]
    assert [view.boxes[op].cluster for op in made] == [None, None]


def test_a_table_lists_what_a_layer_looks_up_where_it_ran() -> None:
    """Before the model, as the program ran it; with a line for each op, and without."""
    layer = Layer(0)
    model, cache = nn.Sequential(nn.Tanh(), nn.ReLU()), Cache()
    model.append(_Reads(layer, cache))
    with torchrecorder.Recorder(model) as recorder:
        cache.lengths[0] = torch.tensor(0)
        model(torch.rand(2, 4))
    recording = recorder.recording
    [made] = (op for op in recording.ops.values() if op.name == "tensor")
    assert make_view(recording, ALL).boxes[made.id].cluster is not None
    for ops in (False, True):
        listed = every_row(recording, ops=ops)
        assert [row.ids for row in folded(recording, listed)] == [row.ids for row in listed]


class _Reads(nn.Module):
    """Calls a layer with a cache."""

    def __init__(self, layer: Layer, cache: Cache) -> None:
        super().__init__()
        self.layer = layer
        self.cache = cache

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x, self.cache)
        return found


def test_what_a_program_reads_in_a_region_of_its_own_stays_outside() -> None:
    """The state of an environment, say: the last one is read by nothing, and folds all the same."""
    model = nn.Linear(4, 2)

    def play() -> None:
        state = torch.rand(4)
        for _ in range(5):
            with torch.no_grad():
                model(state[None]).argmax()
            state = torch.rand(4)
            model(torch.rand(8, 4)).sum().backward()

    with torchrecorder.Recorder(model) as recorder:
        play()
    view = make_view(recorder.recording, ViewOptions())
    assert max(folds(view)) == 5


COEFFICIENTS = [torch.full((1,), 1 / (number + 1)) for number in range(3)]
"""Constants of a file, such as the tableau of a Runge-Kutta method."""


def solve(x: Tensor, scale: Tensor) -> Tensor:
    """Reads the constants of its file, and what it is given."""
    for coefficient in COEFFICIENTS:
        x = x + x.tanh() * coefficient
    return x * scale


class Solver(nn.Module):
    """Calls a function that reads constants; another operation reads one of *shared* again."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.shared = shared

    def forward(self, x: Tensor) -> Tensor:
        x = solve(self.linear(x), x.exp())
        return x * COEFFICIENTS[0] if self.shared else x.sin()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns, so no names")
@pytest.mark.parametrize("shared", [False, True])
def test_constants_that_a_function_of_a_module_reads_are_in_it(shared: bool) -> None:
    """Not around it, and not drawn while it is closed; one that others read too is around it."""
    recording = torchrecorder.record(Solver(shared), torch.ones(2, 1))

    def constants(depth: int) -> list[str | None]:
        view = make_view(recording, ViewOptions(depth=depth, functions=True, fold=False))
        view.check()
        boxes = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
        homes = [view.recording.scopes[ScopeId(box.cluster)].name for box in boxes if box.cluster]
        assert len(homes) == len(boxes)
        return sorted(homes)

    assert constants(1) == ["Solver"] * shared
    assert constants(9) == ["Solver"] * shared + ["solve"] * (3 - shared)

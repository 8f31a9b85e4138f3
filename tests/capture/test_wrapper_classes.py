"""Compiled and scripted modules have the class that the program wrote, and names as all modules."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from torchrecorder import Recording, compare, record
from torchrecorder.events import ScopeKind
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import title_of
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view

pytestmark = pytest.mark.usefixtures("strict_but_quiet")


class Half(nn.Module):
    """A layer, and a function."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, values: Tensor) -> Tensor:
        return self.fc(values) / 2


def compiled(module: nn.Module) -> nn.Module:
    made: nn.Module = torch.compile(module, backend="eager")
    return made


def scripted(module: nn.Module) -> nn.Module:
    made: nn.Module = torch.jit.script(module)
    return made


def traced(module: nn.Module) -> nn.Module:
    made: nn.Module = torch.jit.trace(module, torch.ones(2, 4))
    return made


def titles(recording: Recording, **options: object) -> list[str]:
    """The titles of boxes and clusters."""
    figure = draw(make_view(recording, ViewOptions(**options)), Style())  # type: ignore[arg-type]
    return [title_of(drawn.label) for drawn in (*figure.shapes, *figure.groups)]


@pytest.mark.parametrize("wrap, kind", (
    (compiled, ScopeKind.COMPILED), (scripted, ScopeKind.SCRIPTED), (traced, ScopeKind.SCRIPTED),
))
def test_title_is_name_and_class_and_kind(wrap, kind):
    """In figures and summaries, of one and of several equal ones."""
    wrapped = (wrap(Half()) for _ in range(3))
    recording = record(nn.Sequential(nn.Sequential(*wrapped), wrap(Half())), torch.ones(2, 4))
    found = [scope for scope in recording.scopes.values() if scope.kind is kind]
    assert [(scope.name, scope.cls) for scope in found] == [(n, "Half") for n in "0121"]
    for shown in (titles(recording, depth=2), titles(recording)):
        assert {f"0 … 2: Half ({kind.value})  ×3", f"1: Half ({kind.value})"} <= set(shown)
    text = recording.summary()
    assert f"0 … 2 (Half, {kind.value})  ×3" in text and f"1 (Half, {kind.value})" in text
    classes = {module.cls for module in recording.modules.values()}
    assert classes == {"Sequential", "Half", "Linear"}


def test_model_that_is_compiled_as_a_whole():
    """Its argument has the name that the program gave it; a class of the program is its own."""
    recording = record(compiled(Half()), torch.ones(2, 4))
    assert recording.values[recording.inputs[0].value].names == ("values",)
    assert "Half (compiled)" in titles(recording)
    own = type("OptimizedModule", (Half,), {})
    assert [scope.cls for scope in record(own(), torch.ones(2, 4)).scopes.values()] == [
        "OptimizedModule", "Linear"]


@pytest.mark.parametrize("wrap, remark", ((compiled, "compiled"), (scripted, "scripted")))
def test_comparison_with_a_converted_model(wrap, remark):
    """It is the same model, and the remark says what became of it, in both directions."""
    fc, x = nn.Linear(4, 4), torch.ones(2, 4)
    plain, other = (
        record(nn.Sequential(nn.Sequential(part, nn.ReLU()), nn.ReLU()), x)
        for part in (fc, wrap(fc))
    )
    assert str(compare(plain, other)).splitlines()[1:] == [f"  changed   0.0  {remark}"]
    assert str(compare(other, plain)).splitlines()[1:] == [f"  changed   0.0  not {remark}"]


def test_comparison_with_a_model_that_is_compiled_as_a_whole():
    """The modules inside are the same."""
    model, x = nn.Sequential(Half()), torch.ones(2, 4)
    found = str(compare(record(model, x), record(compiled(model), x)))
    assert found.splitlines()[1:] == ["  changed   Sequential  compiled"]

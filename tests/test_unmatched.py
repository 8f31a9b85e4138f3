"""What asks for something that a recording does not have is told so, with what is like it."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.errors import ArgumentMismatch, InvalidArgument, NothingFound, UnknownAnnotation
from torchrecorder.export import by_suffix
from torchrecorder.style.style import Style


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x)) + 1


@pytest.fixture(scope="module")
def recording() -> torchrecorder.Recording:
    """One run, with nothing measured on request."""
    return torchrecorder.record(_Net(), torch.ones(1, 4))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hide": "encoder.o"}, "hide: no name matches 'encoder.o'; did you mean 'encoder"),
        ({"hide": ("relu", "*.dropout")}, r"hide: no name matches '\*\.dropout'"),
        ({"rename": {"haed": "Head"}}, "rename: no name matches 'haed'; did you mean 'he"),
        ({"colors": {"haed": "red"}}, "colors: no name matches 'haed'; did you mean 'head'"),
        ({"color_by": "backward_time"}, r"no 'backward_time': record\(..., backward=True\)"),
        ({"numbers": "flops"}, r"'flops': record\(..., flops=True\) measures it. It has param"),
    ],
)
def test_a_figure_without_what_was_asked_for_warns(
    recording: torchrecorder.Recording, options: dict[str, object], said: str
) -> None:
    """The rest is drawn; the warning is at the caller's line."""
    with pytest.warns(NothingFound, match=said) as caught:
        torchrecorder.figure(recording, **options)
    assert {each.filename for each in caught} == {__file__}


def test_a_backward_pass_that_has_nowhere_to_start_warns() -> None:
    """Of a frozen model, or without gradients; where inputs require grad, it runs."""
    frozen = _Net().requires_grad_(False)
    with pytest.warns(NothingFound, match="no output requires grad.*autograd=True") as caught:
        torchrecorder.record(frozen, torch.ones(1, 4), backward=True)
    with torch.no_grad(), pytest.warns(NothingFound, match="gradients are off"):
        torchrecorder.record(_Net(), torch.ones(1, 4), backward=True)
    assert {each.filename for each in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ran = torchrecorder.record(frozen, torch.ones(1, 4), backward=True, autograd=True)
    assert ran.grad_runs


@pytest.mark.parametrize(
    "options",
    [
        {"hide": ("head", "ReLU", "encoder.*", "add"), "depth": 5},
        {"rename": {"Linear": "L", "encoder.?": "E", "head.linear": "l", "x": "in", "output": "y"}},
        {"rename": {"Body": "B"}, "group": {"Body": "encoder, head"}},
        {"colors": {"Linear": "red", "*.?": "red", "add": "red", "x": "red", "output": "red"}},
        {"colors": {"Body": "red"}, "group": {"Body": "encoder, head"}},
        {"hide": "head", "rename": {"head": "Head"}, "focus": "encoder"},
        {"color_by": "parameters", "numbers": ("output_bytes", "forward_time")},
    ],
)
def test_what_is_there_is_not_warned_of(
    recording: torchrecorder.Recording, options: dict[str, object]
) -> None:
    """By path, class, pattern, op, tensor or made-up group; outside of the focus too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torchrecorder.figure(recording, **options)


def test_tables_show_what_was_not_measured(recording: torchrecorder.Recording) -> None:
    """A column that stays empty is warned of; a ranking of nothing is an error."""
    with pytest.warns(NothingFound, match="no 'saved_bytes': .* of tensors that require grad"):
        recording.summary(columns=["saved_bytes"])
    with pytest.warns(NothingFound, match="no 'zeros'"):
        recording.table(["zeros"])
    with pytest.warns(NothingFound, match="no 'flops'"):
        exporter = type(by_suffix("x.explorer-data.json"))(annotation="flops")  # type: ignore
        exporter.export(torchrecorder.view(recording), Style())
    with pytest.raises(UnknownAnnotation, match=r"no 'gradient_norm': record\(..., stats=True, b"):
        recording.top("gradient_norm")


def test_times_left_out_of_a_file_are_named(tmp_path, recording) -> None:
    """No flag of ``record`` would help there."""
    recording.save(tmp_path / "run.json", times=False)
    with pytest.raises(UnknownAnnotation, match="it was saved without times"):
        torchrecorder.load(tmp_path / "run.json").top("forward_time")


@pytest.mark.parametrize("option", ["keep", "stats"])
def test_a_scope_to_watch_that_does_not_run_is_warned_of(option: str) -> None:
    """At the line that records, with the name that was probably meant."""
    with pytest.warns(NothingFound, match=f"{option}: no name matches 'haed'") as caught:
        torchrecorder.record(_Net(), torch.ones(1, 4), **{option: ["haed", "encoder.*"]})
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"since": "head", "until": "encoder"}, "the other direction has some"),
        ({"focus": "encoder", "since": "head"}, "no operation is left of focus='encoder', since"),
        ({"focus": "encodre"}, "no module is called 'encodre'; did you mean 'encoder'"),
        ({"until": "haed"}, "no tensor or module is called 'haed'; did you mean 'head'"),
    ],
)
def test_nothing_to_draw_is_an_error(
    recording: torchrecorder.Recording, options: dict[str, object], said: str
) -> None:
    """Where all that was asked for is not there."""
    with pytest.raises(InvalidArgument, match=said):
        torchrecorder.view(recording, **options)


def test_parts_that_do_not_depend_on_each_other_are_stated() -> None:
    """Two branches side by side have nothing between them."""
    def branches(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.relu(), x.tanh()

    recording = torchrecorder.record(branches, torch.ones(2))
    with pytest.raises(InvalidArgument, match="neither depends on the other"):
        torchrecorder.view(recording, since="o0", until="o1")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: torchrecorder.record(_Net(), backwards=True), r"record\(\) .*mean 'backward'"),
        (lambda: torchrecorder.Recorder(_Net(), nmae="x"), r"Recorder\(\) .* mean 'name'"),
        (lambda: torchrecorder.Series(_Net(), evry=1), r"Series\(\) .* mean 'every'"),
        (lambda: torchrecorder.load("x.json", limits=1), r"load\(\) .* mean 'limit'"),
        (lambda: torchrecorder.record(_Net(), labels=1), r"goes into kwargs={'labels': \.\.\.}"),
        (
            lambda: torchrecorder.render_network(_Net(), torch.ones(1, 4), backward=True),
            r"record\(model, ..., backward=...\).render\(path\) does",
        ),
    ],
)
def test_a_misspelled_argument_is_guessed(call, said: str) -> None:
    """A TypeError still, as for every function."""
    with pytest.raises(ArgumentMismatch, match=said):
        call()


@pytest.mark.parametrize(
    ("name", "value"),
    [("backward", "no"), ("fake", 1), ("restore", None), ("stats", 3), ("keep", [3]), ("name", 3)],
)
def test_what_is_no_flag_is_refused_before_the_model_runs(name: str, value: object) -> None:
    """``backward="no"`` would be true."""
    with pytest.raises(InvalidArgument, match=f"^{name} must be"):
        torchrecorder.record(_Net(), torch.ones(1, 4), **{name: value})


def test_a_number_that_colors_is_not_shown_twice() -> None:
    """It stands on the boxes already."""
    recording = torchrecorder.record(_Net(), torch.ones(1, 4))
    figure = torchrecorder.figure(
        recording, color_by="output_bytes", numbers=("output_bytes", "parameters"), depth=1
    )
    head = next(each for each in figure.shapes if each.label[0].text.startswith("head"))
    said = [each.text for each in head.label if each.text.endswith(" B")]
    assert said == ["Output size 8 B"]

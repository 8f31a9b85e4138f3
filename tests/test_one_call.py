"""One call: record and list, or record and draw; inputs from shapes and dtypes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder import record, render_network, summary
from torchrecorder.errors import InvalidArgument, TorchRecorderError, UnknownAnnotation


class Tagger(nn.Module):
    """Takes words and a mask by name, as language models do."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.cell, self.head = nn.Embedding(2, 4), nn.LSTMCell(4, 8), nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """Step by step."""
        state, rows = None, []
        for word in self.table(ids).unbind(1):
            state = self.cell(word, state)
            rows.append(state[0])
        return self.head(torch.stack(rows, 1)) * scale


def dtypes_of(recording: torchrecorder.Recording) -> dict[str, str]:
    """The dtype of each input by its name."""
    return {slot.name: recording.values[slot.value].dtype for slot in recording.inputs}


@pytest.mark.parametrize(
    ("shapes", "dtypes"),
    [
        ({"ids": ((1, 5), torch.int64), "scale": (3,)}, None),
        ({"ids": (1, 5), "scale": (3,)}, {"ids": torch.int64}),
        ([(1, 5), (3,)], [torch.int64, None]),
        ([((1, 5), torch.int64), (3,)], None),
        ([((1, 5), torch.int64), 3], (None, torch.float32)),
    ],
)
def test_inputs_of_a_dtype(shapes: object, dtypes: object) -> None:
    """Said with the shape or beside it, by name or by place; the rest has the model's."""
    recording = torchrecorder.record(Tagger(), input_shapes=shapes, dtypes=dtypes)
    assert dtypes_of(recording) == {"ids": "int64", "scale": "float32"}


def test_one_dtype() -> None:
    """For a single shape, and for all."""
    add = torchrecorder.record(torch.add, input_shapes=[(2,), (2,)], dtypes=torch.int32)
    assert set(dtypes_of(add).values()) == {"int32"}
    table = nn.Embedding(2, 4)
    for shapes, dtypes in (((1, 5), torch.int64), (((1, 5), torch.int64), None)):
        recording = torchrecorder.record(table, input_shapes=shapes, dtypes=dtypes)
        assert list(dtypes_of(recording).values()) == ["int64"]


def test_random_inputs_are_in_range_and_leave_the_random_state(tmp_path: Path) -> None:
    """Whole numbers are 0 and 1, flags both, floating-point numbers between them."""
    before = torch.get_rng_state()
    seen: dict[torch.dtype, torch.Tensor] = {}
    for dtype in (torch.int64, torch.bool, torch.float16, torch.complex64):
        shapes = ((400,), dtype)
        torchrecorder.record(lambda x: seen.setdefault(x.dtype, x.clone()), input_shapes=shapes)
    assert seen[torch.int64].unique().tolist() == [0, 1]
    assert seen[torch.bool].unique().tolist() == [False, True]
    assert 0 <= seen[torch.float16].min() < seen[torch.float16].max() <= 1
    assert torch.complex64 in seen and torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("shapes", "dtypes"),
    [
        ((1, 5), "int64"),
        ((1, 5), [torch.int64, torch.int64]),
        ({"ids": (1, 5)}, {"idz": torch.int64}),
        ({"ids": (1, 5)}, {"ids": 3}),
    ],
)
def test_dtypes_that_fit_no_shapes(shapes: object, dtypes: object) -> None:
    """The message says what would."""
    with pytest.raises(InvalidArgument, match=r"dtypes must be one dtype such as torch\.int64"):
        torchrecorder.record(Tagger(), input_shapes=shapes, dtypes=dtypes)


def test_dtypes_without_shapes() -> None:
    """They are of no use."""
    with pytest.raises(InvalidArgument, match="dtypes apply to input_shapes"):
        torchrecorder.record(Tagger(), torch.ones(1), dtypes=torch.int64)


SHAPES = {"ids": ((1, 30), torch.int64), "scale": (3,)}


def test_summary_is_that_of_the_recording() -> None:
    """It takes what both take."""
    model = Tagger().eval()
    asked = {"depth": 1, "ops": True, "columns": ["output", "parameters"]}
    recording = torchrecorder.record(model, input_shapes=SHAPES)
    for fold in (True, False, "similar"):
        table = torchrecorder.summary(model, input_shapes=SHAPES, fold=fold, **asked)
        assert table == recording.summary(fold=fold, **asked)
    assert repr(table) == str(table)


def test_summary_folds_what_repeats() -> None:
    """A recurrent net that is unrolled needs one line, not thirty."""
    folded = torchrecorder.summary(Tagger(), input_shapes=SHAPES).splitlines()
    whole = torchrecorder.summary(Tagger(), input_shapes=SHAPES, fold=False).splitlines()
    assert [line for line in folded if "cell (LSTMCell)  ×29" in line]
    assert len(whole) == len(folded) + 28  # the first call is given no state


def test_summary_measures_its_columns(tmp_path: Path) -> None:
    """So that nobody has to know which flag of `record` a number needs."""
    table = torchrecorder.summary(nn.Linear(4, 2), torch.ones(1, 4), columns=["flops", "zeros"])
    assert "16 FLOP" in table
    with pytest.raises(UnknownAnnotation, match="did you mean 'flops'"):
        torchrecorder.summary(nn.Linear(4, 2), torch.ones(1, 4), columns=["flop"])


def test_render_network_measures_what_it_shows(tmp_path: Path) -> None:
    """Without a warning that there is no such number."""
    path = torchrecorder.render_network(
        nn.Linear(4, 2), torch.ones(1, 4), directory=tmp_path, color_by="flops", fmt="dot",
    )
    assert "16 FLOP" in path.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": "two"}, "depth must be a whole number"),
        ({"format": "pdf"}, "unknown option 'format'; did you mean 'fmt'"),
        ({"annotation": "flops"}, "'annotation': only .explorer-data.json files have it. Known "),
        ({"expand": True}, "unknown option 'expand'; depth= opens levels of modules"),
        ({"spread": 2}, "unknown option 'spread'. Known options"),  # and not ``pad``
        ({"nodsep": 2}, "unknown option 'nodsep'; did you mean 'nodesep'"),
        ({"input_shape": (1, 4)}, "unknown option 'input_shape'; did you mean 'input_shapes'"),
        ({"path": "model.svg"}, "filename='model.svg' names the file"),
        ({"fmt": "jpg"}, "did you mean '.png'"),
        ({"filename": "model.jpg"}, "did you mean '.png'"),
        ({"directory": "nowhere"}, "there is no folder 'nowhere'"),
        ({"filename": "nowhere/model.svg"}, "there is no folder 'nowhere'"),
    ],
)
def test_a_wrong_option_is_refused_before_the_model_runs(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run may take minutes."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TorchRecorderError, OSError), match=re.escape(message)):
        torchrecorder.render_network(_must_not_run, torch.ones(1), **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{"depth": "two"}, {"fold": "yes"}, {"ops": 1}])
def test_a_table_fails_before_the_model_runs(options: dict[str, Any]) -> None:
    """As figures do."""
    with pytest.raises(InvalidArgument, match=f"{next(iter(options))} must"):
        torchrecorder.summary(_must_not_run, torch.ones(1), **options)


def _must_not_run(x: torch.Tensor) -> torch.Tensor:
    raise AssertionError("the model ran")


@pytest.mark.parametrize("call", [record, summary, render_network])
@pytest.mark.parametrize("backward", [False, True])
def test_tracebacks_begin_in_the_program(call: Any, backward: bool) -> None:
    """pytest and IPython hide our frames between the call and the model, or its backward."""
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone() if backward else 1 / 0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return 1 / 0

    asked = {"color_by": "backward_time"} if call is render_network else {"backward": True}
    with pytest.raises(ZeroDivisionError) as caught:
        call(lambda x: Fails.apply(x).sum(), torch.ones(2, requires_grad=True), **asked)
    ours = [
        frame.frame for frame in caught.traceback
        if frame.frame.f_globals["__name__"].startswith("torchrecorder.")
    ]
    assert ours and all(frame.f_locals.get("__tracebackhide__") for frame in ours)

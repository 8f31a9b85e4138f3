"""What drawing a recording leaves: files by their names, and what is opened."""

from __future__ import annotations

import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
from tests.figures import network
from torchrecorder.drawing import file_name, temporary
from torchrecorder.errors import InvalidArgument, InvalidRecording, NothingFound
from torchrecorder.export import by_suffix
from torchrecorder.options import drawing


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("ResNet", "ResNet"), ("a b-c_d.e+(f)", "a b-c_d.e+(f)"), ("a/b\\c:d*", "a_b_c_d_"),
        (" x ", "x"), ("", "model"), ("  ", "model"), ("x" * 200, "x" * 100), ("Réseau", "Réseau"),
    ],
)
def test_names_of_files(name: str, file: str) -> None:
    """What any file system takes, not too long, and never nothing."""
    assert file_name(name) == file
    for fmt in ("html", ".html"):
        path = temporary(name, fmt)
        assert path.name == f"{file}.html" and path.parent.is_dir() and not path.exists()
        path.parent.rmdir()


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("options", [{}, {"browser": True}, {"browser": False}])
def test_what_is_written_is_opened(
    there: bool, options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Unless that is not wanted; if there is no browser, the path is told."""
    opened: list[str] = []

    def open_(url: str) -> bool:
        opened.append(url)
        return there

    monkeypatch.setattr(webbrowser, "open", open_)
    path = network().show(tmp_path / "a.dot", **options)
    wanted = options.get("browser", True)
    assert path.read_text(encoding="utf-8").startswith("digraph")
    assert opened == [path.as_uri()] * wanted
    out, err = capsys.readouterr()
    assert not out and (str(path) in err) == (wanted and not there)


def test_only_a_page_is_shown_inline(tmp_path: Path) -> None:
    """Nothing is written otherwise."""
    with pytest.raises(InvalidArgument, match=r"a\.svg does not end in \.html"):
        network().show(tmp_path / "a.svg", inline=True)
    assert not [*tmp_path.iterdir()]


def test_what_a_recording_contains() -> None:
    """What can be found in it, by a text; nothing else is in it."""
    recording = network()
    assert "relu" in recording and "body.0" in recording
    assert "zzz" not in recording and 3 not in recording and None not in recording


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_recording_is_written_without_a_view(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless options have names in them: those that match nothing are warned of."""
    recording = network()
    mappings = ({"rename": {"bdoy": "Body"}}, {"colors": {"bdoy": "red"}})
    for options in ({"hide": "bdoy"}, {"closed": "bdoy"}, *mappings):
        with pytest.warns(NothingFound) as caught:
            recording.render(tmp_path / f"a{suffix}", **options)
        assert any("no name matches 'bdoy'" in str(warning.message) for warning in caught)
    monkeypatch.setattr(torchrecorder.drawing, "readable_view", None)
    written = recording.render(tmp_path / f"a{suffix}", color_by="parameters")
    assert torchrecorder.load(written) == recording


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"focus": "body"}, "focus has no effect on .json, which has all of the recording"),
        ({"depth": 1, "hide": "body"}, "depth, hide have no effect on .json,"),
    ],
)
def test_a_recording_is_written_as_a_whole(
    options: Any, said: str, tmp_path: Path
) -> None:
    """A module of it cannot be loaded alone, so those who ask for one are told."""
    recording = network()
    with pytest.warns(NothingFound, match=said):
        assert torchrecorder.load(recording.render(tmp_path / "a.json", **options)) == recording


def test_a_part_cannot_be_saved(tmp_path: Path) -> None:
    """What it refers to is in the whole recording, which can be."""
    linear = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    recording = torchrecorder.record(linear, torch.ones(1, 2), backward=True)
    part = torchrecorder.view(recording, focus="0").recording
    with pytest.raises(InvalidRecording, match="may be a part, such as that of a view: save the"):
        part.save(tmp_path / "part.json")


def test_a_graph_without_a_styler_has_no_boxes_of_tensors() -> None:
    """With one it has, for 1.x had; unless that is not wanted."""
    recording = network()
    inner = [op.outputs[0] for op in recording.ops.values()][0]
    plain, styled, without = (
        torchrecorder.make_dot(recording, depth=9, **options).source
        for options in ({}, {"styler_cls": torchrecorder.GraphvizStyler},
                        {"styler_cls": torchrecorder.GraphvizStyler, "tensors": False})
    )
    assert inner in styled and inner not in plain and inner not in without


@pytest.mark.parametrize("dpi", [None, 30])
def test_a_format_keeps_what_is_not_set(dpi: int | None) -> None:
    """And gets what is."""
    exporter = by_suffix("a.png")
    chosen = drawing(exporter, **({} if dpi is None else {"dpi": dpi})).exporter
    assert chosen == (exporter if dpi is None else replace(exporter, dpi=dpi))
    assert drawing(None, depth=1).exporter is None


def test_a_graph_to_compute_with_has_tensors() -> None:
    """Between the ops, unless they are not wanted."""
    recording = network()
    made = {value.id for value in recording.values.values() if value.producer}
    assert made <= {*recording.to_networkx().nodes}
    assert not made & {*recording.to_networkx(values=False).nodes}


def test_a_place_that_cannot_be_is_found_before_the_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a figure that cannot be written."""

    def laid_out(*args: object) -> None:
        raise AssertionError("it was drawn first")

    monkeypatch.setattr("torchrecorder.drawing.write", laid_out)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        network().render(tmp_path / "gone" / "a.svg")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        (tmp_path / "b.svg").mkdir()
        network().render(tmp_path / "b.svg")

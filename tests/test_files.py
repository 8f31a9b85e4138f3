"""Files are written completely, or not at all."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest
import torch

import torchrecorder
from torchrecorder import Recording
from torchrecorder.files import write_file


def test_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """When the disk gives up, the old file is still there and no litter is left."""
    path = tmp_path / "model.svg"
    write_file(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="cannot write: No space left.*model.svg"):
        write_file(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["model.svg"]


def test_written_file_keeps_link_and_permissions(tmp_path):
    """A link stays a link; permissions stay; a new file gets the usual ones."""
    path, link = tmp_path / "model.svg", tmp_path / "latest.svg"
    write_file(path, "one")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o600)
    link.symlink_to(path)
    write_file(link, b"two")
    assert link.is_symlink() and path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_paths_that_cannot_be_written(tmp_path):
    """A missing folder and a folder are told by name; parents are not made in silence."""
    with pytest.raises(FileNotFoundError, match="no folder .*figures"):
        write_file(tmp_path / "figures" / "model.svg", "")
    with pytest.raises(IsADirectoryError, match="folder"):
        write_file(tmp_path, "")
    write_file(Path(os.devnull), "swallowed")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("write", [Recording.save, Recording.to_trace])
@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_an_interrupt_keeps_the_file_from_before(tmp_path, monkeypatch, write, name):
    """Also of saved recordings and traces, which are large."""
    recording = torchrecorder.record(torch.nn.Linear(2, 2), torch.ones(1, 2))
    path = tmp_path / name
    before = write(recording, path).read_bytes()

    class Interrupted(io.FileIO):
        """Writes half."""

        def write(self, data):
            super().write(data[: len(data) // 2])
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fdopen", lambda handle, mode: Interrupted(handle, "wb"))
    monkeypatch.setattr(Path, "write_bytes", lambda path, data: path.open("wb").write(data[:9]))
    with pytest.raises(KeyboardInterrupt):
        write(recording, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [name]

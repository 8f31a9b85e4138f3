"""Digests of files: equal to those of the loaded recordings, also where a table was read before."""

from __future__ import annotations

import json
import operator
from dataclasses import replace
from functools import cache

import pytest
import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from tests.ranks.made import recorded, timed
from torchrecorder.errors import InvalidRecording, TorchRecorderError
from torchrecorder.graph.codec import encode
from torchrecorder.graph.saved_files import loads
from torchrecorder.ranks import digest_codec
from torchrecorder.ranks.digest import digest
from torchrecorder.ranks.digest_codec import DigestDecoder, DigestReader, encode_digest
from torchrecorder.recording import LIMIT


class Reduced(nn.Module):
    """A layer with a collective in the forward pass."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        """The sum over all processes, in halves."""
        found = self.layer(x)
        dist.all_reduce(found.detach())
        return sum(found.chunk(2))


def _step(rank):
    Reduced()(torch.ones(4, 2)).sum().backward()
    dist.broadcast(torch.ones(3), 0)
    dist.send(torch.ones(3), (rank + 1) % 4) if rank % 2 else dist.recv(torch.ones(3), rank - 1)


@cache
def _recordings():
    return recorded(_step)


def _digest(recording):
    return digest(recording, recording.run.rank)


def _saved(folder, data):
    path = folder / f"{len([*folder.iterdir()])}.json"
    path.write_text(json.dumps(data))
    return str(path)


def test_files_give_the_digests_of_their_recordings(tmp_path):
    """With one reader for all of them, and the times of each."""
    reader = DigestReader(LIMIT)
    for rank, recording in enumerate(_recordings()):
        recording = timed(recording, *[0.5 + rank] * len(recording.communications))
        path = recording.save(tmp_path / f"{rank}.json.gz")
        assert repr(reader.read(str(path))) == repr(_digest(recording))


def test_what_ranks_have_in_common_is_read_once(tmp_path, monkeypatch):
    """One recording is decoded for its program, and one for the lane."""
    decoded = []
    monkeypatch.setattr(
        digest_codec, "loads", lambda *given: decoded.append(loads(*given)) or decoded[-1]
    )
    first = _recordings()[0]
    for rank in range(5):
        facts = first.run.rank._replace(rank=rank)
        other = replace(first, run=replace(first.run, rank=facts, seconds=2.0 + rank))
        timed(other, *[0.5 + rank] * len(first.communications)).save(tmp_path / f"{rank}.json")
    torchrecorder.merge(f"{tmp_path}/*.json")
    assert len(decoded) == 1


def _changed(cell):
    """Another value of the same type; None where there is none."""
    if isinstance(cell, bool):
        return not cell
    if isinstance(cell, (int, float)):
        return cell + 1
    if isinstance(cell, list) and cell:
        return cell[:-1] if _changed(cell[-1]) is None else [*cell[:-1], _changed(cell[-1])]
    return None if cell is None else "broadcast" if isinstance(cell, str) else ["1"]


TABLES = ("scopes", "ops", "values", "grad_nodes", "communications", "modules", "grad_runs")


@pytest.mark.parametrize("table", TABLES)
def test_no_difference_is_overlooked(table, tmp_path):
    """Whatever is changed in a second file, its digest is that of the changed recording."""
    data = encode(_recordings()[1])
    reader = DigestReader(LIMIT)
    reader.read(_saved(tmp_path, data))
    compared = 0
    for column, cells in data[table].items():
        for place, cell in enumerate(cells):
            changed = {**data, table: {**data[table], column: [*cells]}}
            changed[table][column][place] = _changed(cell)
            path = _saved(tmp_path, changed)
            try:
                expected = _digest(torchrecorder.load(path))
            except TorchRecorderError:
                continue
            assert repr(reader.read(path)) == repr(expected), (column, cell)
            compared += 1
    assert compared > 3


def test_changes_of_what_a_digest_is_made_of_are_seen(tmp_path):
    """A module of another class, a larger tensor, an operation of another name."""
    data = encode(_recordings()[1])
    reader = DigestReader(LIMIT)
    first = reader.read(_saved(tmp_path, data))
    for table, column in (("scopes", "cls"), ("ops", "name"), ("communications", "name")):
        changed = {**data, table: {**data[table], column: ["other", *data[table][column][1:]]}}
        found = reader.read(_saved(tmp_path, changed))
        assert found.exact != first.exact and found.similar != first.similar


def test_columns_with_each_others_names_are_another_program(tmp_path):
    """Their texts, one after the other, are equal."""
    data = encode(_recordings()[1])
    reader = DigestReader(LIMIT)
    first = reader.read(_saved(tmp_path, data))
    names = {"cls": "path", "path": "cls"}
    scopes = {names.get(column, column): cells for column, cells in data["scopes"].items()}
    path = _saved(tmp_path, {**data, "scopes": scopes})
    found = reader.read(path)
    assert found.exact == _digest(torchrecorder.load(path)).exact != first.exact


def test_what_ranks_have_in_common_is_in_memory_once():
    """Kinds of communications, and groups."""
    data = encode_digest(_digest(_recordings()[1]))
    decoder = DigestDecoder()
    one, other = decoder.decode(data), decoder.decode(data)
    assert one.sent.kinds is other.sent.kinds and one.sent.kinds
    assert all(map(operator.is_, one.rank.groups, other.rank.groups))


@pytest.mark.parametrize(("column", "cells"), [
    ("group", ["nowhere"] * 3), ("order", [2**40] * 3), ("peer", [0]), ("peer", ["0"] * 3),
])
def test_columns_that_cannot_be(column, cells, tmp_path):
    """They are refused, as a whole file is."""
    data = encode(_recordings()[1])
    data["communications"][column] = cells
    reader = DigestReader(LIMIT)
    with pytest.raises(InvalidRecording):
        reader.read(_saved(tmp_path, data))


def test_a_file_of_something_else(tmp_path):
    """It is named, as by `load`."""
    with pytest.raises(InvalidRecording, match="not a saved recording"):
        DigestReader(LIMIT).read(_saved(tmp_path, {"name": "no"}))

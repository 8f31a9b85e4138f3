"""Saved recordings: what is saved comes back, and nothing else gets in."""

from __future__ import annotations

import copy
import gzip
import json
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from tests.figures import network, regions
from tests.graph.schema import schema
from tests.graph.test_version_1 import old
from tests.random_recordings import recordings
from torchrecorder.errors import (
    InvalidArgument, InvalidRecording, RecordingVersionError, TorchRecorderError,
)
from torchrecorder.export import EXPORTERS
from torchrecorder.graph.codec import OPTIONAL_TABLES, TABLES, VERSION, decode, encode
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.flat import flat
from torchrecorder.graph.recording import RunFacts
from torchrecorder.graph.saved_files import dumps, loads, save
from torchrecorder.option_table import options_of
from torchrecorder.recording import Recording, load
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view

WRITERS = [each for each in EXPORTERS if "timeout" not in options_of(each)]  # without a layout
SCHEMA = Path(__file__).parents[2] / "docs" / "recording.schema.json"


@settings(max_examples=60, deadline=None)
@given(recordings())
def test_round_trip(recording: Recording) -> None:
    """What is written is read back equal, whatever the texts and numbers."""
    assert loads(dumps(recording), Recording) == recording


class Odd(str):
    """A text of a class of its own, as libraries use them for names."""


def test_texts_of_other_classes() -> None:
    """Names are saved as plain texts, whatever class of texts they come in."""
    recording = replace(network(), name=Odd("Net"))
    assert loads(dumps(recording), Recording) == recording


@settings(max_examples=30, deadline=None)
@given(recordings())
def test_fits_the_schema(recording: Recording) -> None:
    """What is written is valid by the published schema."""
    jsonschema.Draft202012Validator(schema()).validate(json.loads(dumps(recording)))


def test_schema_is_published(update_golden: bool) -> None:
    """The schema in the documentation is that of the types that are read."""
    text = json.dumps(schema(), indent=2) + "\n"
    if update_golden:
        SCHEMA.write_text(text)
    assert SCHEMA.read_text() == text
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_every_part_is_saved() -> None:
    """A part added to a recording, a row, its run or its failure is saved."""
    whole = network()
    asked: dict[str, Any] = {
        name: (make(*[None] * len(make.__annotations__)),) for name, make in OPTIONAL_TABLES.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchrecorder.graph.consistency.problems", lambda recording: [])
        data = encode(replace(whole, **asked))
    assert set(data) - {"format", "version"} == {
        each.name for each in fields(Recording) if each.compare
    }
    tables = {**TABLES, **OPTIONAL_TABLES}
    assert {name: list(data[name]) for name in tables} == {
        name: list(make.__annotations__) for name, make in tables.items()
    }
    assert list(data["run"]) == [each.name for each in fields(RunFacts)]
    failed = encode(replace(network(), run=replace(network().run, failure=Failure(
        "ValueError", "no", None, None, False
    ))))
    assert list(failed["run"]["failure"]) == [each.name for each in fields(Failure)]


@pytest.mark.parametrize("name", ["run.json", "run.json.gz", "RUN.JSON.GZ"])
def test_files(tmp_path: Path, name: str) -> None:
    """A file is compressed where its name says so, and read either way."""
    path = save(network(), tmp_path / name)
    assert load(path) == network()
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.lower().endswith(".gz")
    renamed = path.rename(tmp_path / "other")
    assert load(renamed) == network()


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_same_recording_same_bytes(tmp_path: Path, name: str) -> None:
    """Nothing of the place or time of saving is in the file."""
    (tmp_path / "sub").mkdir()
    first, second = save(regions(), tmp_path / name), save(regions(), tmp_path / "sub" / name)
    assert first.read_bytes() == second.read_bytes()


@settings(max_examples=30, deadline=None)
@given(recordings())
def test_times_can_be_left_out(recording: Recording) -> None:
    """Without times no measured second is written, and the rest is."""
    loaded = loads(dumps(recording, times=False), Recording)
    assert not any(op.seconds for op in loaded.ops.values())
    assert not any(scope.seconds for scope in loaded.scopes.values())
    assert loaded.run.seconds is loaded.run.overhead is None
    assert loads(dumps(loaded), Recording) == loaded
    assert loaded.values == recording.values


def test_counts_stay_whole_numbers() -> None:
    """Tables of a loaded recording read as before: FLOPs are no 8.0."""
    recording = replace(network(), measured={"flops": {"o0": 8, "o1": 0.5}})
    loaded = loads(dumps(recording), Recording)
    assert repr(loaded.measured) == repr(recording.measured)


def test_wrong_suffix(tmp_path: Path) -> None:
    """Saving as a figure says how figures are written."""
    with pytest.raises(InvalidArgument, match=r"\.json or \.json\.gz.*render"):
        save(network(), tmp_path / "run.svg")


def test_newer_version() -> None:
    """A file from the future says that it needs a newer reader."""
    with pytest.raises(RecordingVersionError, match="install a newer one"):
        decode({**encode(network()), "version": VERSION + 1}, Recording)


def test_older_files_may_lack_columns() -> None:
    """A column that has a default need not be there; one that has none must."""
    data = encode(network())
    del data["grad_nodes"]["failed"]
    assert decode(data, Recording) == network()
    del data["ops"]["qualname"]
    with pytest.raises(InvalidRecording, match="required field `qualname` - at `\\$.ops`"):
        decode(data, Recording)


def test_unknown_parts_are_ignored() -> None:
    """A reader passes over what a newer writer of the same version added."""
    data = encode(network())
    data["weather"] = "fine"
    data["ops"]["mood"] = [1, 2]
    assert decode(data, Recording) == network()


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "7", '"x"', "{}", "nonsense", "{", '{"format": "x"}', "[" * 100_000,
        '{"a":' * 100_000, "9" * 10_000, '{"x": 1e999}', f'{{"x": {2**64}}}', '{"x": NaN}',
        "\ud800",
        '{"format": "torchrecorder recording"}',
        '{"format": "torchrecorder recording", "version": true}',
        '{"format": "torchrecorder recording", "version": "1"}',
        '{"format": "torchrecorder recording", "version": -1}',
        '{"format": "torchrecorder recording", "version": 1}',
        '{"format": "torchrecorder recording", "version": 1, "strings": [1]}',
        '{"format": "torchrecorder recording", "version": 2}',
    ],
    ids=lambda text: text[:40],
)
def test_not_a_recording(text: str) -> None:
    """Other JSON, and what is no JSON at all, is refused in a sentence."""
    with pytest.raises(InvalidRecording) as caught:
        loads(text, Recording)
    assert 10 < len(str(caught.value)) < 300


def _broken(*path: Any, put: Any, version: int = 2) -> Any:
    """The data of a recording with something else in one place."""
    data = json.loads(dumps(network())) if version == 2 else old("network")
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = put
    return data


def _refused(data: Any) -> str:
    with pytest.raises(InvalidRecording) as caught:
        decode(data, Recording)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_broken("ops", "scope", 0, put="s99"), "scopes: there is no 's99'"),
        (_broken("ops", "scope", 0, put=1), "Expected `str | null`, got `int` - at `$.ops.scope["),
        (_broken("ops", "inputs", 0, put=[["", "v99"]]), "values: there is no 'v99'"),
        (_broken("values", "producer", 1, put="o99"), "ops: there is no 'o99'"),
        (_broken("scopes", "module", 1, put="m99"), "modules: there is no 'm99'"),
        (_broken("values", "grad", 1, put=["g99", 0]), "grad_nodes: there is no 'g99'"),
        (_broken("ops", "name", 1, put=7), "Expected `str`, got `int` - at `$.ops.name[1]`"),
        (_broken("ops", "kind", 1, put="odd"), "Invalid enum value 'odd' - at `$.ops.kind[1]`"),
        (_broken("ops", "failed", put=[]), "ops: its columns differ in length"),
        (_broken("ops", "failed", 0, put=2), "Expected `bool`, got `int` - at `$.ops.failed[0]`"),
        (_broken("ops", "outputs", 0, put=None), "Expected `array`, got `null`"),
        (_broken("ops", "inputs", 0, put=[[0]]), "Expected `array` of length 2, got 1"),
        (_broken("ops", "seconds", 0, put="1"), "Expected `float | null`, got `str`"),
        (_broken("ops", "id", 1, put="o0"), "ops: two rows have the same id"),
        (_broken("ops", "id", 1, put=""), "ops: a row has no id"),
        (_broken("ops", "id", 1, put="v0"), "'v0' is also the id of another row"),
        (_broken("ops", put=[]), "Expected `object`, got `array` - at `$.ops`"),
        (_broken("scopes", "parent", 0, put="s0"), "comes before the scope around it"),
        (_broken("scopes", "parent", 1, put="s2"), "comes before the scope around it"),
        (_broken("scopes", "recompute", 0, put=True), "lies in a recomputed scope"),
        (_broken("scopes", "module", 1, put=None), "disagree on the calls"),
        (_broken("modules", "calls", 1, put=[]), "disagree on the calls"),
        (_broken("values", "shape", 0, put=[1.5]), "Expected `int`, got `float`"),
        (_broken("run", put=None), "Expected `object`, got `null` - at `$.run`"),
        (_broken("run", put={}), "required field `torch_version` - at `$.run`"),
        (_broken("run", "failure", put={
            "error": "E", "message": "", "scope": None, "op": "o99", "backward": False
        }), "ops: there is no 'o99'"),
        (_broken("inputs", put=[["x", "v999"]]), "values: there is no 'v999'"),
        (_broken("measured", put={"flops": {"node": ["o0"], "amount": []}}),
         "numbers of amounts and nodes differ"),
        (_broken("measured", put={"flops": {"node": ["m0"], "amount": [1]}}), "for 'm0', which"),
        (_broken("name", put=None), "Expected `str`, got `null` - at `$.name`"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_damage_is_named(data: Any, message: str) -> None:
    """The error says which fact does not fit."""
    assert message in _refused(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_broken("ops", "scope", 0, put=99, version=1), "ops.scope: there is no row of scopes 9"),
        (_broken("ops", "scope", 0, put=-1, version=1), "there is no row of scopes -1"),
        (_broken("ops", "scope", 0, put=True, version=1), "there is no row of scopes True"),
        (_broken("ops", "name", 1, put="linear", version=1), "ops.name: there is no string linear"),
        (_broken("ops", "failed", 0, put=2, version=1), "Expected `bool`, got `int`"),
        (_broken("ops", "outputs", 0, put=None, version=1), "outputs: expected a list, not None"),
        (_broken("ops", "inputs", 0, put=[[0]], version=1), "expected 2 facts in a list, not 1"),
        (_broken("ops", put=[], version=1), "Expected `object`, got `array` - at `$.ops`"),
        (_broken("run", put=[], version=1), "Expected `object`, got `array` - at `$.run`"),
        (_broken("run", "failure", put=[], version=1), "run: expected a dict, not []"),
        (_broken("measured", put={"flops": {}}, version=1), "required field `amount`"),
        (_broken("measured", put={"flops": {"node": [9999], "amount": [1]}}, version=1), "no node"),
        (_broken("strings", put=None, version=1), "at `$.strings`"),
        (_broken("statistics", put={}, version=1), "required field `node` - at `$.statistics`"),
        (_broken("ops", put={}, version=1), "values.producer: there is no row of ops 0"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_damage_of_old_files_is_named(data: Any, message: str) -> None:
    """Files of version 1 are checked as well."""
    assert message in _refused(data)


@pytest.mark.parametrize(("end", "beyond"), [(2**63 - 1, 2**63), (-(2**63), -(2**63) - 1)])
def test_whole_numbers_have_64_bits(end: int, beyond: int) -> None:
    """The last that fit are read as they are; one more is refused."""
    recording = network()
    at_end = replace(recording, run=replace(recording.run, lost=end))
    assert loads(dumps(at_end), Recording) == at_end
    with pytest.raises(InvalidRecording, match="the whole number .* is too large"):
        loads(dumps(at_end).replace(str(end), str(beyond)), Recording)


def test_bomb(tmp_path: Path) -> None:
    """A small file that unpacks to a huge one is refused before it is unpacked."""
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b" " * 200_000_000, 9))
    tracemalloc.start()
    with pytest.raises(InvalidRecording, match=r"more than 1,000,000 bytes.*load\(path, limit="):
        load(bomb, limit=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_large_file(tmp_path: Path) -> None:
    """A plain file beyond the limit is refused as well; one that is packed is not damaged."""
    for name in ("run.json", "run.json.gz"):
        path = save(network(), tmp_path / name)
        for limit in (1, 100, 1000):
            with pytest.raises(InvalidRecording, match=f"more than {limit:,} bytes"):
                load(path, limit=limit)
        data = path.read_bytes()
        whole = len(gzip.decompress(data) if name.endswith(".gz") else data)
        assert load(path, limit=whole) == network()
        with pytest.raises(InvalidRecording, match="more than"):
            load(path, limit=whole - 1)
        assert load(path, limit=10**30) == network()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files(data: Any) -> None:
    """A file cut off or with bytes changed gives a recording or our error."""
    packed = data.draw(st.booleans())
    raw = bytearray(dumps(network()).encode())
    if packed:
        raw = bytearray(gzip.compress(bytes(raw), mtime=0))
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=4)):
        raw[place] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.integers(0, len(raw))) :]
    _load_bytes(bytes(raw))


def _load_bytes(raw: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        try:
            assert isinstance(load(file.name), Recording)
        except InvalidRecording as error:
            assert str(error)


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 40), st.integers(), st.floats(allow_nan=False),
    st.text(max_size=3), st.lists(st.integers(0, 3), max_size=3),
    st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 3), max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_hostile_facts(data: Any) -> None:
    """Anything in any place gives a sound recording or our error."""
    new = [json.loads(dumps(each)) for each in (network(), regions())]
    document = copy.deepcopy(data.draw(st.sampled_from([*new, old("network"), old("regions")])))
    for _ in range(data.draw(st.integers(1, 3))):
        _spoil(document, data)
    try:
        recording = decode(document, Recording)
    except InvalidRecording as error:
        assert 10 < len(str(error)) < 400
    else:
        assert decode(encode(recording), Recording) == recording
        _use(recording, data.draw(st.integers(0, 4)))


def _use(recording: Recording, depth: int) -> None:
    """Everything that reads a recording bears what the check let through."""
    view = make_view(recording, ViewOptions(depth=depth))
    for exporter in WRITERS:
        try:
            exporter().export(view, Style())
        except TorchRecorderError as error:
            assert str(error)
    flat(recording, grads=True)
    flat(recording, values=False)


def _spoil(document: Any, data: Any) -> None:
    """Put something else in a random place of the document."""
    inner = document
    while True:
        keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
        key = data.draw(st.sampled_from(list(keys)))
        deeper = inner[key]
        if not isinstance(deeper, (dict, list)) or not deeper or data.draw(st.integers(0, 5)) == 0:
            inner[key] = data.draw(JUNK)
            return
        inner = deeper

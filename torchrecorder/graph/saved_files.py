"""Saved files: a recording as a JSON file, compressed with the suffix ``.json.gz``."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from torchrecorder.checks import FLAG, check_one, path_of, suggests_names, whole_number
from torchrecorder.errors import InvalidArgument, InvalidRecording
from torchrecorder.files import write_file
from torchrecorder.graph.codec import decode, encode
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.recording import RecordedRun, RecordingT, check_recording

SUFFIXES = (".json", ".json.gz")
"""The suffixes of saved recordings."""

PART = 2**20
"""The number of bytes of a file that are read at once."""

LONG = re.compile(rb"(?<![.\d])\d{19}")
"""Matches text that may be an integer of more than 64 bits."""


@suggests_names
def save(recording: RecordedRun, path: str | Path, *, times: bool = True) -> Path:
    """Write *recording* to a file, which `load` reads.

    Args:
        recording: The recording to save.
        path: With the suffix ``.json``, or ``.json.gz`` for a file of a fifth to an eighth of the
            size.
        times: Write measured times. Without them, two runs of the same model give the
            same bytes.

    Returns:
        The path.

    Raises:
        InvalidArgument: The suffix is another one.
    """
    check_recording(recording)
    check_one("times", times, FLAG)
    target = checked_path(path)
    text = dumps(recording, times=times).encode()
    write_file(target, packed(text) if target.name.lower().endswith(".gz") else text)
    return target


def checked_path(path: object, name: str = "path") -> Path:
    """*path*, to which a recording is to be saved.

    Raises:
        InvalidArgument: The suffix is another one.
    """
    target = path_of(path, name)
    if not target.name.lower().endswith(SUFFIXES):
        raise InvalidArgument(
            f"a recording is saved as {' or '.join(SUFFIXES)}, not as {target.name!r};"
            " recording.render(path) writes figures and other formats"
        )
    return target


def load(path: str | Path, *, make: type[RecordingT], limit: int) -> RecordingT:
    """The recording in a file, of the class *make*; see `torchrecorder.load`."""
    check_one("limit", limit, whole_number(1))
    with naming(path):
        return loads(read(path, limit), make)


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Name the file in errors about what is in it."""
    try:
        yield
    except InvalidRecording as error:
        raise type(error)(f"{path}: {error}") from None


def read(path: str | Path, limit: int) -> bytes:
    """The JSON text in a file, uncompressed.

    Raises:
        InvalidRecording: It has more than *limit* bytes, or the compression is damaged.
    """
    with open(path_of(path), "rb") as file:
        packed = file.peek(2)[:2] == b"\x1f\x8b"
        data = _unpacked(file, limit) if packed else _start_of(file, limit)
    if len(data) > limit:
        raise InvalidRecording(
            f"the file holds more than {limit:,} bytes;"
            " if you trust it, load(path, limit=...) reads more"
        )
    return data


@without_gc()
def dumps(recording: RecordedRun, *, times: bool = True) -> str:
    """*recording* as JSON text, one line per column."""
    return "".join(_lines(encode(recording, times=times)))


@without_gc()
def loads(text: str | bytes, make: type[RecordingT]) -> RecordingT:
    """The recording in JSON text, as an instance of *make*.

    Raises:
        RecordingVersionError: It was saved by a newer version.
        InvalidRecording: It is not a saved recording, or damaged.
    """
    try:
        data = _parsed(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    except (ValueError, RecursionError) as error:
        raise InvalidRecording(
            f"this is not a saved recording, which save() writes as JSON: {error}"
        ) from None
    return decode(data, make)


def _parsed(text: bytes) -> Any:
    """Parse JSON *text*.

    JSON that msgspec rejects is invalid or rare: half of a surrogate pair in a path.
    """
    if LONG.search(text) is None:
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(text)
    return json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_refuse)


def packed(data: bytes) -> bytes:
    """*data* compressed, without a time or name, so that equal data gives equal bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()


def _unpacked(packed: BinaryIO, limit: int) -> bytes:
    """The contents of a *packed* file, but no more than one byte beyond *limit*."""
    try:
        with gzip.GzipFile(fileobj=packed) as file:
            return _start_of(file, limit)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidRecording(f"the compressed file is damaged: {error}") from None


def _start_of(file: io.BufferedIOBase, limit: int) -> bytes:
    """The contents of a file, but no more than one byte beyond *limit*.

    They are read in parts: ``file.read(limit + 1)`` takes memory for so many bytes, also if the
    file has less.
    """
    found = io.BytesIO()
    while part := file.read(min(PART, limit + 1 - found.tell())):
        found.write(part)
    return found.getvalue()


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """JSON with one line per part, and one per column of a table."""
    mark = "{"
    for name, part in data.items():
        yield f"{mark}{_json(name)}:"
        if isinstance(part, dict) and part:
            inner = (f" {_json(key)}:{_json(column)}" for key, column in part.items())
            yield "{\n" + ",\n".join(inner) + "}"
        else:
            yield _json(part)
        mark = ",\n"
    yield "}\n"


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def _whole(text: str) -> int:
    """Parse an integer of at most 64 bits."""
    if len(text) > 18 and not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"the whole number {text[:20]}… is too large")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")

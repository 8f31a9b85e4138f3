"""merge: saved recordings of one run, one file per process, put together."""

from __future__ import annotations

import functools
import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Union

from torchrecorder.checks import advised, check_one, shown, whole_number
from torchrecorder.errors import InvalidArgument
from torchrecorder.ranks.ranks import Ranks, Source, ranks_of
from torchrecorder.recording import LIMIT, Recording, load

Given = Union[str, Path, Recording]


@advised
def merge(recordings: Given | Sequence[Given], *, limit: int = LIMIT) -> Ranks:
    """The recordings of many processes as one run. PyTorch need not be installed.

    Args:
        recordings: Paths of saved recordings, patterns such as ``"run/rank*.json.gz"``, or
            recordings; one or several.
        limit: The number of bytes that a file may unpack to.

    Returns:
        The run, with what its processes sent to each other put together.

    Raises:
        InvalidArgument: There is no such file, one is no recording of a process, or two are of
            the same.
        InvalidRecording: A file is no saved recording.

    Example:
        ``run = torchrecorder.merge("run/rank*.json.gz")``, then ``print(run.summary())``.
    """
    check_one("limit", limit, whole_number(1))
    given = [recordings] if isinstance(recordings, (str, Path, Recording)) else recordings
    if not isinstance(given, (tuple, list)):
        raise InvalidArgument(
            f"merge takes paths, patterns or recordings, not {shown(recordings)}"
        )
    return ranks_of([item for source in given for item in _found(source, limit)])


def _found(source: Given, limit: int) -> Iterator[Source]:
    """The recordings that *source* names, each with what to call it."""
    if isinstance(source, Recording):
        yield f"a recording of {source.name}", lambda: source
        return
    if not isinstance(source, (str, Path)):
        raise InvalidArgument(f"merge takes paths, patterns or recordings, not {shown(source)}")
    paths = [str(source)] if Path(source).exists() else sorted(glob.glob(str(source)))
    if not paths:
        raise InvalidArgument(f"there is no file {str(source)!r}")
    for path in paths:
        yield path, functools.partial(load, path, limit=limit)

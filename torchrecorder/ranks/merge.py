"""merge: join the saved recordings of one run, one file per process."""

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
    """Join the recordings of several processes. PyTorch is not required.

    Args:
        recordings: Paths of saved recordings, patterns such as ``"run/rank*.json.gz"``, or
            recordings; one or several.
        limit: The maximum number of bytes of an uncompressed file.

    Returns:
        The joined run, with the communication between its processes.

    Raises:
        InvalidArgument: A file does not exist, a recording is not of a distributed process, or two
            are of the same rank.
        InvalidRecording: A file is not a saved recording.

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
    """The recordings of *source*, each with its name for messages."""
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

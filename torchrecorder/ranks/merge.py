"""Merge: joins the saved recordings of one run, one file per process."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Union

from torchrecorder.checks import check_one, shown, suggests_names, whole_number
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.ranks.digest import Digest, digest, rank_of
from torchrecorder.ranks.digest_codec import DigestReader
from torchrecorder.ranks.lanes import first_ranks
from torchrecorder.ranks.ranks import Ranks
from torchrecorder.recording import LIMIT, Recording, load

Mergeable = Union[str, Path, Recording]


@suggests_names
def merge(recordings: Mergeable | Sequence[Mergeable], *, limit: int = LIMIT) -> Ranks:
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
        raise InvalidArgument(f"merge takes paths, patterns or recordings, not {shown(recordings)}")
    reader = DigestReader(limit)
    return _joined([item for source in given for item in _found(source, reader)])


class _Source(NamedTuple):
    """One recording, which is loaded when it is needed."""

    where: str  # its name in messages
    digest: Callable[[], Digest]
    load: Callable[[], Recording]


def _found(source: Mergeable, reader: DigestReader) -> Iterator[_Source]:
    """The recordings of *source*."""
    if isinstance(source, Recording):
        where = f"a recording of {source.name}"
        yield _Source(where, lambda: digest(source, rank_of(source.run, where)), lambda: source)
        return
    if not isinstance(source, (str, Path)):
        raise InvalidArgument(f"merge takes paths, patterns or recordings, not {shown(source)}")
    if Path(source).is_dir():
        pattern = str(Path(source) / "*.json.gz")
        raise InvalidArgument(f"{str(source)!r} is a folder: give its files, as {pattern!r}")
    paths = [str(source)] if Path(source).exists() else sorted(glob.glob(str(source)))
    if not paths:
        raise InvalidArgument(f"there is no file {str(source)!r}")
    for path in paths:
        yield _Source(path, partial(reader.read, path), partial(load, path, limit=reader.limit))


@without_gc()
def _joined(sources: Sequence[_Source]) -> Ranks:
    """The joined run. Only the recording of the first rank of each lane is loaded."""
    if not sources:
        raise InvalidArgument("nothing to merge: pass the recording of each rank")
    digests: list[Digest] = []
    seen: dict[int, _Source] = {}
    for source in sources:
        found = source.digest()
        rank = found.rank.rank
        if rank in seen:
            raise InvalidArgument(
                f"{source.where} and {seen[rank].where} are both recordings of rank {rank}"
            )
        seen[rank] = source
        digests.append(found)
    return Ranks(digests, {rank: seen[rank].load() for rank in first_ranks(digests)})

"""gather: send the recordings of all processes to one of them, which joins them."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from torchrecorder.capture.internals.processes import in_use
from torchrecorder.checks import suggests_names
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.recording import check_recording
from torchrecorder.graph.saved_files import dumps, loads, packed
from torchrecorder.ranks.digest import Digest, digest, rank_of
from torchrecorder.ranks.digest_codec import DigestDecoder, encode_digest
from torchrecorder.ranks.lanes import first_ranks
from torchrecorder.ranks.ranks import Ranks
from torchrecorder.recording import Recording


@suggests_names
def gather(recording: Recording, group: Any = None) -> Ranks | None:
    """Join the recordings of all processes of a *group*: a collective, so every member calls it.

    If several processes ran the same operations, one sends its whole recording; the others send
    only differences and times.

    Args:
        recording: The recording of this process.
        group: A process group, preferably with a CPU backend; by default all processes.

    Returns:
        The joined run on the first rank of the group; None on the others.

    Raises:
        InvalidArgument: ``torch.distributed`` is not initialized; or numpy, with which it sends
            objects, is missing; or, on all members, one of them passed something else than its own
            recording.
    """
    if not in_use():
        raise InvalidArgument(
            "gather needs torch.distributed to be initialized; merge joins saved recordings"
        )
    if importlib.util.find_spec("numpy") is None:
        raise InvalidArgument(
            "gather needs numpy, with which torch.distributed sends objects: pip install numpy, "
            "or save each recording and join the files with merge"
        )
    from gzip import decompress

    members = _GatherGroup(group)
    collected = members.collect(_digest_of(recording))
    wanted: Any = None
    digests: list[Digest] = []
    if collected is not None:
        wrong = [item for item in collected if isinstance(item, str)]
        decoder = DigestDecoder()
        with without_gc():
            digests = [decoder.decode(item) for item in collected if not isinstance(item, str)]
        wanted = wrong[0] if wrong else first_ranks(digests)
    wanted = members.announce(wanted)
    if isinstance(wanted, str):
        raise InvalidArgument(wanted)
    mine = members.rank in wanted
    parts = members.collect(packed(dumps(recording).encode()) if mine else None)
    if parts is None:
        return None
    texts = dict(zip(members.ranks, parts))
    return Ranks(digests, {rank: loads(decompress(texts[rank]), Recording) for rank in wanted})


def _digest_of(recording: Any) -> bytes | str:
    """The encoded digest of *recording*, or an error message: an exception here would let the
    other members wait forever."""
    try:
        check_recording(recording)
        return encode_digest(digest(recording, rank_of(recording.run, "a recording to gather")))
    except InvalidArgument as error:
        return str(error)


class _GatherGroup:
    """A process group whose first rank collects the data."""

    def __init__(self, group: Any) -> None:
        self.distributed: Any = sys.modules["torch.distributed"]
        self.group = group
        world = self.distributed.group.WORLD
        self.ranks = self.distributed.get_process_group_ranks(world if group is None else group)
        self.rank = self.distributed.get_rank()

    def collect(self, message: Any) -> list[Any] | None:
        """``gather_object``: the messages of all ranks, on the first rank; None on the others."""
        first = self.rank == self.ranks[0]
        found = [None for _ in self.ranks] if first else None
        self.distributed.gather_object(message, found, dst=self.ranks[0], group=self.group)
        return found

    def announce(self, message: Any) -> Any:
        """``broadcast_object_list``: the message of the first rank, on all ranks."""
        found = [message]
        self.distributed.broadcast_object_list(found, src=self.ranks[0], group=self.group)
        return found[0]

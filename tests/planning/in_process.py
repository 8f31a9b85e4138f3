"""Workers that run each rank here, one after the other, as the processes of a plan do."""

from __future__ import annotations

import torch.distributed as dist

from torchrecorder.capture.planned import recorded
from torchrecorder.planning.plan import _RankSampling
from torchrecorder.planning.translate import MeshLayout
from torchrecorder.ranks.digest import digest
from torchrecorder.ranks.digest_codec import DigestDecoder, encode_digest
from torchrecorder.ranks.ranks import Ranks


class Here:
    """In the place of `Workers`."""

    def __init__(self, factory, mesh, backward=True):
        self.factory, self.mesh, self.backward = factory, mesh, backward
        self.decoder = DigestDecoder()
        self.recordings = {}

    def run(self, ranks):
        """The digests of these ranks."""
        return {rank: self._run(rank) for rank in ranks}

    def _run(self, rank):
        try:
            found = recorded(rank, self.factory, self.mesh, backward=self.backward, name="job")
        finally:
            dist.destroy_process_group()
        self.recordings[rank] = found
        facts = found.run.rank._replace(host="")
        return self.decoder.decode(encode_digest(digest(found, facts)))


def probed(factory, mesh):
    """The run of a mesh, and which ranks were recorded for it."""
    workers = Here(factory, mesh)
    found, run = _RankSampling(workers, MeshLayout.from_sizes(mesh)).digests()
    digests = [found[rank] for rank in sorted(found)]
    return Ranks(digests, workers.recordings, assumed={*found} - run), run


def run_all(factory, mesh):
    """The run of a mesh, with each rank recorded."""
    workers = Here(factory, mesh)
    found = workers.run(range(MeshLayout.from_sizes(mesh).world))
    return Ranks([*found.values()], workers.recordings)

"""Workers that run each rank here, one after the other, as the processes of a plan do."""

from __future__ import annotations

import torch.distributed as dist

from torchrecorder.capture.planned import recorded
from torchrecorder.planning.layout import Layout
from torchrecorder.planning.plan import _RankSampling
from torchrecorder.planning.workers import PlanJob
from torchrecorder.ranks.digest import digest
from torchrecorder.ranks.digest_codec import DigestDecoder, encode_digest
from torchrecorder.ranks.ranks import Ranks


class Here:
    """In the place of `Workers`."""

    def __init__(self, factory, mesh, backward=True):
        self.job = PlanJob(factory, Layout.from_sizes(mesh), backward, "job")
        self.decoder = DigestDecoder()
        self.recordings = {}

    def run(self, ranks):
        """The digests of these ranks."""
        return {rank: self._run(rank) for rank in ranks}

    def _run(self, rank):
        try:
            found = recorded(self.job, rank)
        finally:
            dist.destroy_process_group()
        self.recordings[rank] = found
        facts = found.run.rank._replace(host="")
        return self.decoder.decode(encode_digest(digest(found, facts)))


def probed(factory, mesh):
    """The run of a mesh, and which ranks were recorded for it."""
    workers = Here(factory, mesh)
    found, run = _RankSampling(workers, workers.job.layout).digests()
    digests = [found[rank] for rank in sorted(found)]
    return Ranks(digests, workers.recordings, assumed={*found} - run), run


def run_all(factory, mesh):
    """The run of a mesh, with each rank recorded."""
    workers = Here(factory, mesh)
    found = workers.run(range(workers.job.layout.world))
    return Ranks([*found.values()], workers.recordings)

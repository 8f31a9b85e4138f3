"""Parts: files in which the processes of a job pass their recordings to the first process.

They are in one folder, so that the others can be joined if a process has died.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchrecorder.ranks.merge import merge
from torchrecorder.ranks.ranks import Ranks
from torchrecorder.recording import Recording

PATIENCE = 60.0
"""The time that the first process waits for the others after its own end, in seconds."""


@dataclass(frozen=True)
class Parts:
    """The files of the recordings of one job.

    Attributes:
        folder: Beside the file that is to be written; one for all processes.
        rank: The rank of this process.
        world: The number of processes.
    """

    folder: Path
    rank: int
    world: int

    @staticmethod
    def of_job(output: Path, environment: Mapping[str, str] = os.environ) -> Parts | None:
        """The parts of the job that ``torchrun`` or another launcher started; None if none did."""
        rank, world = environment.get("RANK", ""), environment.get("WORLD_SIZE", "")
        if not (rank.isdigit() and world.isdigit() and int(world) > 1):
            return None
        return Parts(output.with_name(f"{output.name}.ranks"), int(rank), int(world))

    def clear(self) -> None:
        """Remove the file of this process from an earlier run."""
        self._file(self.rank).unlink(missing_ok=True)

    def leave(self, recording: Recording) -> Path:
        """Write the recording of this process atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self._file(self.rank)
        unfinished = recording.save(target.with_name(f"unfinished-{target.name}"))
        return unfinished.replace(target)

    def together(self, patience: float = PATIENCE) -> Ranks:
        """Wait for the other processes up to a limit, and join the recordings that exist."""
        until = time.monotonic() + patience
        while time.monotonic() < until and not all(map(Path.exists, self._files())):
            time.sleep(0.1)
        return merge([file for file in self._files() if file.exists()])

    def _files(self) -> list[Path]:
        return [self._file(rank) for rank in range(self.world)]

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.json.gz"

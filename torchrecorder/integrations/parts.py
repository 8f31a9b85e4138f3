"""Parts: the files in which the processes of one job leave their recordings for the first.

They meet in a folder, so that those that are left can be put together where one has died.
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
"""Seconds that the first process waits for the others once it has ended itself."""


@dataclass(frozen=True)
class Parts:
    """Where the processes of one job leave what they recorded.

    Attributes:
        folder: Beside the file that is to be written; one for all processes.
        rank: Which process this is.
        world: How many there are.
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
        """Forget what this process left the last time."""
        self._file(self.rank).unlink(missing_ok=True)

    def leave(self, recording: Recording) -> Path:
        """Write the recording of this process, all at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self._file(self.rank)
        unfinished = recording.save(target.with_name(f"unfinished-{target.name}"))
        return unfinished.replace(target)

    def together(self, patience: float = PATIENCE) -> Ranks:
        """Wait for the others, not for ever, and put together what is there."""
        until = time.monotonic() + patience
        while time.monotonic() < until and not all(map(Path.exists, self._files())):
            time.sleep(0.1)
        return merge([file for file in self._files() if file.exists()])

    def _files(self) -> list[Path]:
        return [self._file(rank) for rank in range(self.world)]

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.json.gz"

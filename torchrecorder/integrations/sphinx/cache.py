"""Cache: recordings and figures in a folder, named by a digest of their sources and options.

Files are written whole and under names that no other content can have, so that processes
which read or write at the same time need no lock.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchrecorder import drawing
from torchrecorder.files import write_file
from torchrecorder.graph.saved_files import dumps, packed
from torchrecorder.integrations.sphinx import notices
from torchrecorder.integrations.sphinx.request import Request
from torchrecorder.integrations.sphinx.sources import Dependencies, digest, own_state
from torchrecorder.options import fitting
from torchrecorder.recording import Recording, load

FITTED: Mapping[str, Any] = {"fit": "page", "min_fontsize": 0}
"""Default options of figures in documents: they fit a page, without a warning."""


class Cache:
    """Recordings and figures in *folder*.

    If each build uses all that is still needed, files that none used for *days* are removed when a
    new figure is written. Sphinx does not: it keeps documents that did not change.
    """

    def __init__(self, folder: Path, days: float | None = None) -> None:
        self.folder = folder
        self.days = days
        folder.mkdir(parents=True, exist_ok=True)

    def recorded(self, request: Request) -> tuple[str, Dependencies]:
        """The name of the recording of *request*; records it if it is not in the cache.

        Raises:
            TorchRecorderError: The target cannot be found or used, or its code raised.
        """
        listed = self.folder / f"{digest(request.identity())}.sources.json"
        sources = _read(listed)
        if sources is not None:
            name = digest(request.identity(), sources.state())
            if _use_again(self._recording(name)):
                _use(listed)
                return name, sources
        said: list[str] = []
        with notices.notices_to(said.append):
            recording, sources = request.run()
        name = digest(request.identity(), sources.state())
        write_file(self._recording(name), packed(dumps(recording).encode()))
        notices.keep(said, self._recording(name))
        write_file(listed, json.dumps(asdict(sources)))
        return name, sources

    def recording(self, name: str) -> Recording:
        """The recording of this name."""
        return _load(self._recording(name))

    def figure(
        self,
        name: str,
        suffix: str,
        options: Mapping[str, Any],
        finish: Callable[..., Any] | None = None,
    ) -> Path:
        """The figure of a recording; draws it if it is not in the cache.

        Raises:
            TorchRecorderError: It cannot be drawn.
        """
        key = repr((sorted(options.items()), suffix, finish is not None))
        path = self.folder / f"{digest(name, key, own_state())}{suffix}"
        if not _use_again(path):
            more: dict[str, Any] = {"finish": finish} if finish is not None else {}
            usual = FITTED if suffix in (".svg", ".pdf") and "fit" not in options else {}
            own = fitting({**usual, **options}, suffix)
            said: list[str] = []
            with notices.notices_to(said.append):
                drawing.render(self.recording(name), path, **own, **more)
            notices.keep(said, path)
            if self.days is not None:
                self._remove_unused(time.time() - self.days * 24 * 3600)
        return path

    def _remove_unused(self, since: float) -> None:
        for path in self.folder.iterdir():
            try:
                if path.stat().st_atime < since:
                    path.unlink()
            except OSError:  # another process has removed it, or reads it
                continue

    def _recording(self, name: str) -> Path:
        return self.folder / f"{name}.json.gz"


def _use_again(path: Path) -> bool:
    """Use a file with the warnings that came when it was made; returns whether it is there."""
    there = _use(path)
    if there and _use(notices.kept_in(path)):
        notices.repeat(path)
    return there


def _use(path: Path) -> bool:
    """Note that a build uses a file, by its time of access; returns whether it is there."""
    try:
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
    except OSError:
        return path.is_file()  # it may belong to another user
    return True


def _read(listed: Path) -> Dependencies | None:
    """The dependencies of a request as they were saved last."""
    try:
        found = json.loads(listed.read_text(encoding="utf-8"))
        return Dependencies(tuple(found["files"]), tuple(found["packages"]))
    except (OSError, ValueError, KeyError):
        return None


_load = functools.lru_cache(maxsize=4)(load)

"""The recording itself as JSON, to be loaded again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torchrecorder.checks import FLAG, check
from torchrecorder.graph.storage import dumps, packed
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


@dataclass(frozen=True)
class Json:
    """A recording as `save` writes it: all of it, whatever the view shows.

    Attributes:
        times: Write measured times.
    """

    suffix: ClassVar[str] = ".json"
    times: bool = True

    def __post_init__(self) -> None:
        check(self, {"times": FLAG})

    def export(self, view: View, style: Style) -> str:
        """The contents of the file."""
        return dumps(view.recording, times=self.times)


@dataclass(frozen=True)
class JsonGz:
    """The same, compressed.

    Attributes:
        times: Write measured times.
    """

    suffix: ClassVar[str] = ".json.gz"
    times: bool = True

    def __post_init__(self) -> None:
        check(self, {"times": FLAG})

    def export(self, view: View, style: Style) -> bytes:
        """The contents of the file."""
        return packed(dumps(view.recording, times=self.times).encode())

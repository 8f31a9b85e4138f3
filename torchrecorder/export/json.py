"""JSON: the recording itself, which can be loaded again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Union

from torchrecorder.export.exporter import times_option
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.option_table import Checked, documented
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


@documented
@dataclass(frozen=True)
class Json(Checked):
    """The whole recording as `save` writes it, independent of the view."""

    suffix: ClassVar[str] = ".json"
    times: bool = times_option()

    def export(self, view: View, style: Style) -> Union[str, bytes]:
        return self.written(view.recording)

    def written(self, recording: RecordedRun) -> Union[str, bytes]:
        """The contents of a file with *recording*."""
        from torchrecorder.graph.saved_files import dumps

        return self.contents(dumps(recording, times=self.times))

    @staticmethod
    def contents(text: str) -> Union[str, bytes]:
        """The contents of a file with this JSON."""
        return text


@documented
@dataclass(frozen=True)
class JsonGz(Json):
    """The same, compressed."""

    suffix: ClassVar[str] = ".json.gz"

    @staticmethod
    def contents(text: str) -> bytes:
        from torchrecorder.graph.saved_files import packed

        return packed(text.encode())

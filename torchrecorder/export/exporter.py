"""Exporter: the protocol of a format."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Union

from torchrecorder.checks import FLAG, above_0
from torchrecorder.layout import engine
from torchrecorder.option_table import option
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


class Exporter(Protocol):
    """Writes a view in one format. Options are the fields of the frozen dataclass.

    Attributes:
        suffix: The suffix of its files, ``".svg"``.
    """

    suffix: ClassVar[str]

    def export(self, view: View, style: Style) -> Union[str, bytes]:
        """The contents of the file."""


def timeout_option() -> Any:
    """The option of all formats with a layout."""
    return option(
        "Time limit of the layout in seconds.",
        above_0("a number of seconds"),
        default=engine.TIMEOUT,
        placeholder="SECONDS",
    )


def times_option() -> Any:
    """The option of all formats that contain times."""
    return option(
        "Write measured times. Without them, two runs of the same model give the same bytes.",
        FLAG,
        default=True,
    )

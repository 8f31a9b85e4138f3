"""TensorBoard: writes a series as scalars and histograms, and a recording as an image."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from torchrecorder.checks import Check, check_one, takes, whole_number
from torchrecorder.drawing import render
from torchrecorder.graph.recording import RecordedRun, check_recording
from torchrecorder.series import NUMBERS, Series

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torchrecorder.signatures import DrawingOptions

WRITER = Check(
    "a torch.utils.tensorboard.SummaryWriter",
    lambda value: callable(getattr(value, "add_histogram_raw", None)),
)
SERIES = Check("a torchrecorder.Series", lambda value: isinstance(value, Series))


@takes(series=SERIES, writer=WRITER)
def write_series(series: Series, writer: Any) -> None:
    """Write every number of *series*: scalars such as ``gradient_norm/layer1.0``, and histograms.

    Args:
        series: The series; its steps are the steps.
        writer: A ``torch.utils.tensorboard.SummaryWriter``.
    """
    for what in NUMBERS:
        for scope, line in series.lines(what).items():
            for step, number in line:
                writer.add_scalar(f"{what}/{scope}", number, step)
    for histogram in series.histograms:
        bars = histogram.bars
        writer.add_histogram_raw(
            f"{histogram.what}/{histogram.name}",
            min=bars.edges[0],
            max=bars.edges[-1],
            num=sum(bars.counts),
            sum=bars.total,
            sum_squares=bars.squares,
            bucket_limits=bars.edges[1:],
            bucket_counts=bars.counts,
            global_step=histogram.step,
        )


def write_figure(
    recording: RecordedRun,
    writer: Any,
    tag: str = "model",
    step: int = 0,
    **options: Unpack[DrawingOptions],
) -> None:
    """Write the figure of *recording* as an image; Pillow has to be installed, as for all images.

    Args:
        recording: The recording to draw.
        writer: A ``torch.utils.tensorboard.SummaryWriter``.
        tag: Its name in TensorBoard.
        step: The step that it belongs to.
        **options: See `torchrecorder.Recording.render`.
    """
    check_recording(recording)
    check_one("writer", writer, WRITER)
    check_one("step", step, whole_number(0))
    import numpy
    from PIL import Image

    writer.add_image(
        tag,
        numpy.asarray(Image.open(BytesIO(png_of(recording, **options))).convert("RGB")),
        step,
        dataformats="HWC",
    )


def png_of(recording: RecordedRun, **options: Unpack[DrawingOptions]) -> bytes:
    """The figure of *recording* as a PNG file."""
    with TemporaryDirectory() as folder:
        return render(recording, Path(folder) / "figure.png", **options).read_bytes()

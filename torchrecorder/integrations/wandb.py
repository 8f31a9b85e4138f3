"""Weights & Biases: logs a series as metrics and histograms, and a recording as an image."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from torchrecorder.checks import Check, check_one, takes
from torchrecorder.graph.recording import RecordedRun, check_recording
from torchrecorder.integrations.tensorboard import SERIES, png_of
from torchrecorder.series import NUMBERS, Series

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torchrecorder.signatures import DrawingOptions

RUN = Check("a run of wandb.init()", lambda value: callable(getattr(value, "log", None)))


@takes(series=SERIES, run=RUN)
def write_series(series: Series, run: Any) -> None:
    """Log every number of *series*, one call of ``run.log`` for each step.

    Metrics are called as ``torchrecorder/gradient_norm/layer1.0``. Weights & Biases takes steps in
    rising order only, so the step is logged as the metric ``torchrecorder/step``.

    Args:
        series: The series.
        run: The run that ``wandb.init()`` returned.
    """
    import numpy
    from wandb import Histogram

    logged: dict[int, dict[str, Any]] = {}
    for what in NUMBERS:
        for scope, line in series.lines(what).items():
            for step, number in line:
                logged.setdefault(step, {})[f"torchrecorder/{what}/{scope}"] = number
    for histogram in series.histograms:
        counts, edges = numpy.array(histogram.bars.counts), numpy.array(histogram.bars.edges)
        bars = Histogram(np_histogram=(counts, edges))
        logged.setdefault(histogram.step, {})[
            f"torchrecorder/{histogram.what}/{histogram.name}"
        ] = bars
    for step, metrics in sorted(logged.items()):
        run.log({"torchrecorder/step": step, **metrics})


def write_figure(
    recording: RecordedRun, run: Any, tag: str = "model", **options: Unpack[DrawingOptions]
) -> None:
    """Log the figure of *recording* as an image; Pillow has to be installed.

    Args:
        recording: The recording to draw.
        run: The run that ``wandb.init()`` returned.
        tag: Its name.
        **options: See `torchrecorder.Recording.render`.
    """
    check_recording(recording)
    check_one("run", run, RUN)
    from PIL import Image
    from wandb import Image as Logged

    run.log({tag: Logged(Image.open(BytesIO(png_of(recording, **options))))})

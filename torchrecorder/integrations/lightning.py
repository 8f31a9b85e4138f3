"""Lightning: a callback that records a training as a series, and logs its numbers."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from torchrecorder.checks import FLAG, TEXTS, takes, whole_number
from torchrecorder.errors import TorchRecorderError
from torchrecorder.series import NUMBERS, Point, Series


class LightningMissing(TorchRecorderError, ImportError):
    """Neither ``lightning`` nor ``pytorch_lightning`` is installed."""


@takes(every=whole_number(1), scopes=TEXTS.or_none(), histograms=FLAG, log=FLAG)
def callback(
    *,
    every: int = 50,
    scopes: str | Sequence[str] | None = None,
    histograms: bool = False,
    log: bool = True,
) -> Any:
    """A Lightning callback with a `Series` of the training: ``Trainer(callbacks=[callback()])``.

    A step is a batch: forward, backward, clipping and the optimizer's step. The numbers of each
    recorded step go to the loggers of the trainer, as ``gradient_norm/encoder.0``.

    Args:
        every: Record every n-th batch.
        scopes: Dotted paths with ``*``; the innermost modules if not given.
        histograms: Take histograms of weights and gradients, for ``callback.series.histograms``.
        log: Pass the numbers to the loggers.

    Returns:
        The callback. Its attribute ``series`` is the `Series`, available once training starts.

    Raises:
        LightningMissing: Lightning is not installed.
    """
    Base = _callback_class()

    class Follow(Base):  # type: ignore[misc, valid-type]
        """Records a training."""

        series: Series | None = None

        def __init__(self) -> None:
            super().__init__()
            self._open = contextlib.ExitStack()

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            self.series = Series(pl_module, every=every, scopes=scopes, histograms=histograms)

        def on_train_batch_start(
            self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
        ) -> None:
            assert self.series is not None
            self._open.enter_context(self.series.step())

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            assert self.series is not None
            before = len(self.series.points)
            self._open.close()
            metrics = _metrics(self.series.points[before:])
            for logger in trainer.loggers if log and metrics else ():
                logger.log_metrics(metrics, step=trainer.global_step)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self._open.__exit__(type(exception), exception, exception.__traceback__)

    return Follow()


def _callback_class() -> Any:
    """The base class of callbacks, preferably of the package that is already imported."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in sorted(names, key=lambda name: name not in sys.modules):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name).Callback
    raise LightningMissing("Lightning is not installed: pip install lightning")


def _metrics(points: Sequence[Point]) -> dict[str, float]:
    """The numbers of one step, by name."""
    return {
        f"{what}/{point.scope}": number
        for point in points
        for what in NUMBERS
        if (number := getattr(point, what)) is not None
    }

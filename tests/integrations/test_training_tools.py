"""TensorBoard, Weights & Biases and Lightning, with the real packages where they are installed."""

from __future__ import annotations

import csv
import importlib
import sys

import pytest
import torch

import torchrecorder as tr
from tests import torchvision_shim
from tests.test_series_weights import model, train
from torchrecorder.errors import InvalidArgument
from torchrecorder.integrations import lightning, tensorboard, wandb
from torchrecorder.series import NUMBERS


@pytest.fixture
def series():
    """Three recorded steps with histograms."""
    net = model()
    made = tr.Series(net, every=2, histograms=True)
    train(net, 5, series=made)
    return made


def numbers(series):
    """Every number, by name and step."""
    return {
        (f"{what}/{scope}", step): number
        for what in NUMBERS
        for scope, line in series.lines(what).items()
        for step, number in line
    }


def test_tensorboard_reads_what_was_written(series, tmp_path):
    """Scalars, histograms and the figure, by TensorBoard's own reader."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        tensorboard.write_series(series, writer)
        recording = tr.record(model(), torch.ones(1, 4))
        tensorboard.write_figure(recording, writer, "figure", 4, depth=1)
    read = EventAccumulator(str(tmp_path), size_guidance={"histograms": 0})
    read.Reload()
    tags = read.Tags()
    found = {
        (tag, event.step): event.value for tag in tags["scalars"] for event in read.Scalars(tag)
    }
    wanted = numbers(series)
    assert found.keys() == wanted.keys()
    assert all(found[key] == pytest.approx(wanted[key], rel=1e-6) for key in wanted)
    assert set(tags["histograms"]) == {
        f"{what}/{name}" for what in ("weights", "gradients")
        for name in ("0.weight", "0.bias", "2.weight", "2.bias")
    }
    wanted = ("0.bias", "weights")
    bars = [each.bars for each in series.histograms if (each.name, each.what) == wanted]
    told = [each.histogram_value for each in read.Histograms("weights/0.bias")]
    assert [each.bucket for each in told] == [[*map(float, each.counts)] for each in bars]
    assert [each.sum for each in told] == [each.total for each in bars]
    (image,) = read.Images("figure")
    assert image.step == 4 and image.encoded_image_string.startswith(b"\x89PNG")
    assert image.height > 100


def test_wandb_gets_one_call_for_each_step(series):
    """With its own histograms and pictures."""
    pytest.importorskip("wandb")
    from wandb import Histogram, Image

    class Run:
        def __init__(self):
            self.logged = []

        def log(self, metrics):
            self.logged.append(metrics)

    run = Run()
    wandb.write_series(series, run)
    assert [each["torchrecorder/step"] for each in run.logged] == [0, 2, 4]
    found = {
        (name.removeprefix("torchrecorder/"), metrics["torchrecorder/step"]): number
        for metrics in run.logged
        for name, number in metrics.items()
        if isinstance(number, (int, float)) and not name.endswith("/step")
    }
    assert found == numbers(series)
    bars = run.logged[0]["torchrecorder/weights/0.weight"]
    assert isinstance(bars, Histogram) and sum(bars.histogram) == 32
    wandb.write_figure(tr.record(model(), torch.ones(1, 4)), run, "figure")
    assert isinstance(run.logged[-1]["figure"], Image)


def test_lightning_trains_as_without_us(tmp_path):
    """The same weights; a series of every second batch; the numbers at the logger."""
    torchvision_shim.install()
    pl = pytest.importorskip("lightning.pytorch", exc_type=ImportError)
    from lightning.pytorch.loggers import CSVLogger

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model()

        def training_step(self, batch, batch_idx):
            return self.net(batch[0]).square().sum()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-2)

    def fit(callbacks):
        torch.manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(12, 4))
        module, logger = Module(), CSVLogger(str(tmp_path))
        trainer = pl.Trainer(
            max_epochs=1, logger=logger, callbacks=callbacks, gradient_clip_val=0.1,
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
            accelerator="cpu", log_every_n_steps=1,
        )
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=3))
        return module, logger

    plain, _ = fit([])
    follow = lightning.callback(every=2)
    followed, logger = fit([follow])
    assert all(map(torch.equal, plain.state_dict().values(), followed.state_dict().values()))
    assert sorted({each.step for each in follow.series.points}) == [0, 2]
    point = next(each for each in follow.series.points if each.scope == "net.0")
    assert point.clipped_gradient_norm < point.parameter_gradient_norm
    assert point.update_ratio > 0
    with open(logger.experiment.metrics_file_path) as file:
        logged = [row["weight_norm/net.0"] for row in csv.DictReader(file)]
    assert [float(each) for each in logged if each] == [
        each.weight_norm for each in follow.series.points if each.scope == "net.0"
    ]


def test_lightning_shows_the_error_of_the_program(monkeypatch):
    """Also of one before the training starts, or without any."""
    monkeypatch.setattr(lightning, "_callback_class", lambda: object)
    follow, error = lightning.callback(), ValueError("no data")
    follow.on_exception(None, None, error)
    follow.on_fit_start(None, model())
    follow.on_train_batch_start(None, None, None, 0)
    follow.on_exception(None, None, error)
    assert follow.series.points == []


def test_wrong_arguments_are_refused(series):
    """Before anything is written."""
    for wrong in (
        lambda: tensorboard.write_series(series, "runs"),
        lambda: tensorboard.write_series([], None),
        lambda: tensorboard.write_figure(series, "runs"),
        lambda: wandb.write_series(series, None),
        lambda: lightning.callback(every=0),
    ):
        with pytest.raises(InvalidArgument):
            wrong()


def test_without_lightning_the_message_names_it(monkeypatch):
    """And what to install."""
    monkeypatch.setattr(
        lightning.importlib, "import_module", lambda name: (_ for _ in ()).throw(
            ModuleNotFoundError(name)
        )
    )
    with pytest.raises(lightning.LightningMissing, match="pip install lightning"):
        lightning.callback()


@pytest.mark.parametrize("imported", ["lightning.pytorch", "pytorch_lightning"])
def test_the_callback_is_of_the_package_that_the_program_uses(imported, tmp_path, monkeypatch):
    """There are two of one content under two names, which do not know each other's classes."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        for part in (name.partition(".")[0], name):
            file = tmp_path / part.replace(".", "/") / "__init__.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"class Callback:\n    package = {name!r}\n")
    kept = {name: module for name, module in sys.modules.items() if "lightning" not in name}
    monkeypatch.setattr(sys, "modules", kept)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(imported)
    assert lightning._callback_class().package == imported

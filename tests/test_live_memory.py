"""Memory over time, against counts that share no code with it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import weakref
import xml.etree.ElementTree as tree

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from tests.callers import called
from tests.figures import network
from torchrecorder.errors import InvalidArgument, UnknownAnnotation, UnknownFormat
from torchrecorder.export.area_chart import AreaChart, Phase
from torchrecorder.graph.codec import decode, encode
from torchrecorder.live_memory import KINDS
from torchrecorder.recording import Recording


class Counted(TorchDispatchMode):
    """The memory of every new storage, until the last reference to it is gone."""

    def __init__(self, given):
        super().__init__()
        self.seen = {}
        self.live = self.peak = 0
        self.counts = []
        for tensor in given:
            self.meet(tensor)

    def meet(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self.seen:
            size, key = storage.nbytes(), storage._cdata
            self.change(size)
            self.seen[key] = weakref.ref(storage, lambda _: self.gone(key, size))

    def gone(self, key, size):
        self.seen.pop(key, None)
        self.change(-size)

    def change(self, size):
        self.live += size
        self.peak = max(self.peak, self.live)
        self.counts.append(self.live)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(each, torch.Tensor):
                self.meet(each)
        return made


class Checkpointed(nn.Module):
    """Runs a part of itself again in backward."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return checkpoint(lambda y: self.second(self.first(y).relu().exp()), x, use_reentrant=False)


def stored(model):
    return [*model.parameters(), *model.buffers()]


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 4)),
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2, 2)), nn.Conv2d(2, 4, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
        nn.MaxPool2d(2), nn.Flatten(),
    ),
    "transformer": lambda: nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.LayerNorm(8)
    ),
    "checkpointed": Checkpointed,
}


def step(model, x, optimizer):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_is_that_of_a_count_by_hand(name):
    """Every change of the bytes in use, the peak, and the end."""
    torch.manual_seed(0)
    model, x = MODELS[name](), torch.randn(6, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    step(model, x, optimizer)
    state = [each for held in optimizer.state.values() for each in held.values()]
    before = [*stored(model), *(each.grad for each in model.parameters()), *state, x]
    counting = Counted(before)
    start = len(counting.seen)
    del before
    with counting:
        step(model, x, optimizer)
    counts, peak = counting.counts[start - 1 :], counting.peak
    with tr.Recorder(model, memory=True) as recorder:
        step(model, x, optimizer)
    memory = recorder.recording.memory
    assert [each.live for each in memory.moments] == counts
    assert memory.peak == peak == sum(memory.by_kind().values())
    assert memory.peak == sum(each.bytes for each in memory.held())
    assert memory.peak == recorder.recording.annotations["peak_bytes"].total()
    sizes = {"parameters": model.parameters(), "gradients": model.parameters(), "inputs": [x]}
    first = memory.by_kind(0)
    for kind, tensors in {**sizes, "optimizer": state}.items():
        assert first[kind] == sum(each.nbytes for each in tensors), kind
    assert set(memory.by_kind(len(memory.moments) - 1)) <= {
        "parameters", "buffers", "gradients", "optimizer", "inputs"
    }


def test_the_peak_is_that_of_pytorchs_own_tracker():
    """Its memory tracker is another witness."""
    tracker = pytest.importorskip("torch.distributed._tools.mem_tracker")
    torch.manual_seed(0)
    model, x = MODELS["mlp"](), torch.randn(64, 8)
    optimizer = torch.optim.Adam(model.parameters())
    step(model, x, optimizer)
    optimizer.zero_grad()
    watch = tracker.MemTracker()
    watch.track_external(model, optimizer, x)
    with watch:
        model(x).square().mean().backward()
    peak = watch.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    optimizer.zero_grad()
    with tr.Recorder(model, memory=True) as recorder:
        model(x).square().mean().backward()
    state = [each for held in optimizer.state.values() for each in held.values()]
    assert recorder.recording.memory.peak + sum(each.nbytes for each in state) == peak


@pytest.mark.parametrize("grad", [True, False])
def test_fake_tensors_have_the_memory_of_real_ones(grad):
    """So that a model need not fit to be asked."""
    model, x = MODELS["transformer"](), torch.randn(6, 8)
    real, fake = (
        tr.record(model, x, backward=grad, memory=True, fake=fake) for fake in (False, True)
    )
    assert fake.memory.peak == real.memory.peak


def test_what_holds_memory():
    """At the peak: named tensors, and what made the others and where they are released."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with tr.Recorder(model, memory=True) as recorder:
        model(torch.ones(3, 4)).sum().backward()
    memory = recorder.recording.memory
    held = {each.name: each for each in memory.held()}
    assert held["0.weight"][:4] == (128, "0.weight", "parameters", (8, 4))
    relu = held["1: relu"]
    assert (relu.bytes, relu.kind, relu.shape, relu.made_in) == (96, "activations", (3, 8), "o2")
    assert memory.held(n=1) == memory.held()[:1]
    assert "1: relu" in str(memory) and f"peak {memory.peak} B in " in repr(memory)
    last = memory.held(at=len(memory.moments) - 1)
    assert {each.name for each in last if each.kind == "gradients"} == {
        f"gradient of {name}" for name, _ in model.named_parameters()
    }
    assert [row["live"] for row in memory.table()] == [each.live for each in memory.moments]
    assert {each.phase for each in memory.moments} == {"forward", "backward"}


def test_gradients_of_several_steps_have_names():
    """Also those of the first step, which the next one replaces."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tr.Recorder(model, memory=True) as recorder:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    memory = recorder.recording.memory
    named = (
        {item.name for item in memory.held(at) if item.kind == "gradients"}
        for at in range(len(memory.moments))
    )
    assert set().union(*named) == {"gradient of weight", "gradient of bias"}


def test_peak_of_each_module():
    """By module, as a column, and as a number to color by."""
    model = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 1))
    with torch.no_grad():
        recording = tr.record(model, torch.ones(3, 4), memory=True)
    weights = sum(each.nbytes for each in model.parameters()) + 48
    ranked = {each.name: each.number for each in recording.top("peak_bytes")}
    assert ranked["0"] == weights + 1200 and ranked["1"] == weights + 2400
    assert ranked["2"] == weights + 1200 + 12


@pytest.mark.parametrize("name", MODELS)
def test_watching_changes_nothing(name):
    """Outputs, gradients and random state have the bits of the plain run; nothing stays."""
    found = []
    for recorder in (contextlib.nullcontext(), tr.Recorder(memory=True, flops=True)):
        torch.manual_seed(0)
        model = MODELS[name]()
        with recorder:
            output = model(torch.ones(6, 8))
            output.sum().backward()
        gradients = [each.grad for each in model.parameters()]
        found.append([output.detach(), torch.get_rng_state(), *stored(model), *gradients])
    assert all(torch.equal(one, other) for one, other in zip(*found))
    assert recorder.recording.annotations["flops"].total() == (
        tr.record(MODELS[name](), torch.ones(6, 8), flops=True).annotations["flops"].total()
    )
    gone = weakref.ref(output.untyped_storage())
    del output, found
    assert gone() is None


def test_the_first_recording_of_a_process_is_like_others():
    """What PyTorch imports at its first dispatch mode keeps no tensor alive."""
    code = (
        "import torch, torchrecorder; from torch import nn;"
        "model = nn.Sequential(nn.Linear(4, 8), nn.ReLU());"
        "recording = torchrecorder.record(model, torch.ones(2, 4), memory=True);"
        "print(*[each.freed_in for each in recording.allocations if each.made_in])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["o1"]


def test_it_is_saved_and_read():
    """With the recording; a file of one without it is as before."""
    recording = tr.record(MODELS["mlp"](), torch.ones(6, 8), backward=True, memory=True)
    data = encode(recording)
    assert decode(data, Recording) == recording and decode(data, Recording).memory.peak
    assert "allocations" not in encode(network())
    data["allocations"]["bytes"] = [-1, *data["allocations"]["bytes"][1:]]
    with pytest.raises(tr.InvalidRecording, match="allocations"):
        decode(data, Recording)


def test_without_it_the_message_names_the_argument():
    """To record it."""
    with pytest.raises(UnknownAnnotation, match="memory=True"):
        network().memory.peak
    assert repr(network().memory) == "<Memory of Net: not recorded>"
    memory = tr.record(nn.ReLU(), torch.ones(1), memory=True).memory
    for at in (-1, len(memory.moments)):
        with pytest.raises(InvalidArgument, match="at must be"):
            memory.held(at=at)
        with pytest.raises(InvalidArgument, match="at must be"):
            memory.by_kind(at)
    assert memory.held(at=len(memory.moments) - 1)


def test_charts_in_each_format(tmp_path):
    """SVG has an area for each kind; bitmaps, PDF and pages are what their names say."""
    recording = tr.record(MODELS["mlp"](), torch.ones(6, 8), backward=True, memory=True)
    memory = recording.memory
    root = tree.parse(memory.plot(tmp_path / "memory.svg")).getroot()
    areas = [each.get("fill") for each in root.iter() if each.tag.endswith("polygon")]
    kinds = {kind for at in range(len(memory.moments)) for kind in memory.by_kind(at)}
    assert areas == [color for kind, color in KINDS.items() if kind in kinds]
    begins = {".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!DOCTYPE html>"}
    for suffix, begin in begins.items():
        assert memory.plot(tmp_path / f"memory{suffix}").read_bytes().startswith(begin)
    assert memory.plot(tmp_path / "again.pdf").read_bytes() == (
        tmp_path / "memory.pdf"
    ).read_bytes()
    with pytest.raises(UnknownFormat, match="written as .svg, .pdf, .png or .html"):
        memory.plot(tmp_path / "memory.bmp")


def test_many_moments_keep_the_peak():
    """Of thousands of columns, those that are drawn have the highest among them."""
    columns = [[place % 7, 10_000 if place == 3217 else place % 5] for place in range(5000)]
    chart = AreaChart(
        "T", "t", columns, {"a": "#111111", "b": "#222222"}, [Phase(0, "forward")], 3217, "<peak>",
        str,
    )
    text = chart.svg()
    root = tree.fromstring(text)
    areas = [each.get("points").split() for each in root.iter() if each.tag.endswith("polygon")]
    assert all(len(points) < 4 * 600 for points in areas)
    top = min(float(point.split(",")[1]) for point in areas[-1])
    assert top == pytest.approx(54 + (1 - 10_004 / 12_000) * (380 - 54 - 48), abs=0.1)
    assert "<peak>" in [each.text for each in root.iter()]


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_runs_again_is_backward(reentrant):
    """All that a checkpoint does a second time, in modules too; before it there is only forward."""
    inner = nn.Sequential(nn.Linear(8, 32), nn.Sequential(nn.ReLU(), nn.Linear(32, 8)))
    x = torch.ones(4, 8, requires_grad=True)
    with tr.Recorder(inner, memory=True) as recorder:
        y = checkpoint(inner, x, use_reentrant=reentrant).sum()
        made = torch.ones(3)
        y.backward()
    recording = recorder.recording
    assert any(scope.recompute for scope in recording.scopes.values())
    phases = [moment.phase for moment in recording.memory.moments]
    last = max(at for at, moment in enumerate(recording.memory.moments) if "ones" in moment.place)
    assert phases == ["forward"] * (last + 1) + ["backward"] * (len(phases) - last - 1)
    assert len(made) == 3 and phases[-1] == "backward"


def test_weights_of_a_model_that_is_made_while_it_is_recorded():
    """They are parameters and buffers under their names, from the moment they are there."""
    made = []

    def run():
        made.append(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
        made[0](torch.ones(4, 8)).sum().backward()

    with tr.Recorder(memory=True) as recorder:
        run()
    (model,) = made
    memory = recorder.recording.memory
    last = len(memory.moments) - 1
    kinds = memory.by_kind(last)
    assert kinds["parameters"] == sum(each.nbytes for each in model.parameters())
    assert kinds["buffers"] == sum(each.nbytes for each in model.buffers())
    held = {item.name: item.kind for item in memory.held(last)}
    root = called("made.0", "Sequential")
    names = {f"{root}.{name}" for name, _ in model.named_parameters()}
    assert {name for name, kind in held.items() if kind == "parameters"} == names
    assert kinds["gradients"] == kinds["parameters"]


def test_memory_that_is_written_in_place_is_allocated_once() -> None:
    """Whichever part of it is written, and also where it was there before."""
    x = torch.zeros(100)

    def run() -> torch.Tensor:
        y = torch.zeros(1000)
        y.add_(1).mul_(2)
        y[:10].add_(x[:10].add_(1))
        return y

    with tr.Recorder(memory=True) as recorder:
        y = run()
    sizes = sorted(item.bytes for item in recorder.recording.allocations)
    assert sizes == [400, 4000] and y[0] == 3.0


def test_copies_that_are_kept_are_no_memory_of_the_program() -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.ones(4, 8)
    peaks = {
        tr.record(model, x, memory=True, backward=True, keep=keep).memory.peak
        for keep in ((), ("*",))
    }
    assert len(peaks) == 1

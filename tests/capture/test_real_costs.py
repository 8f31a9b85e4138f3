"""Costs of real architectures, against independent counts: exact where counting is exact."""

from __future__ import annotations

import importlib.util
import warnings

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import torchrecorder as tr
from tests import torchvision_shim
from tests.capture.test_saved import packed_bytes
from torchrecorder.capture.tensors import tensors_in

LIBRARIES = {"resnet50": "torchvision", "bert": "transformers", "gpt2": "transformers"}


@pytest.fixture(autouse=True)
def quiet():
    """What the model libraries warn of is theirs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def make(name, *, full=False):
    """A model and its keyword arguments."""
    if importlib.util.find_spec(LIBRARIES[name]) is None:
        pytest.skip(f"needs {LIBRARIES[name]}")
    torch.manual_seed(0)
    if name == "resnet50":
        torchvision_shim.install()
        from torchvision.models import resnet50

        size = 224 if full else 64
        return resnet50(), {"x": torch.rand(1, 3, size, size)}
    import transformers

    ids = torch.randint(0, 1000, (2, 64 if full else 16))
    if name == "bert":
        small = {} if full else {"hidden_size": 64, "num_attention_heads": 4}
        config = transformers.BertConfig(num_hidden_layers=4, **small)
        return transformers.BertModel(config), {"input_ids": ids}
    small = {} if full else {"n_embd": 64, "n_head": 4}
    config = transformers.GPT2Config(n_layer=4, **small)
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def loss_of(output):
    found = [each for _, each in tensors_in(output) if each.requires_grad]
    return sum(each.float().sum() for each in found)


each_model = pytest.mark.parametrize("name", LIBRARIES)


@each_model
def test_saved_bytes_are_exact(name):
    """What hooks on saved tensors count around the plain run."""
    model, kwargs = make(name)
    state = torch.get_rng_state()
    wanted = packed_bytes(lambda: model(**kwargs), model.parameters())
    torch.set_rng_state(state)
    with tr.Recorder(model) as recorder:
        output = model(**kwargs)
    del output
    assert recorder.recording.annotations["saved_bytes"].total() == wanted


@each_model
def test_flops_are_exact(name):
    """What PyTorch's own counter counts, in each direction."""
    model, kwargs = make(name)
    with FlopCounterMode(display=False) as counter:
        loss = loss_of(model(**kwargs))
        forward = counter.get_total_flops()
        loss.backward()
    with tr.Recorder(model, flops=True) as recorder:
        loss_of(model(**kwargs)).backward()
    annotations = recorder.recording.annotations
    assert annotations["flops"].total() == forward
    assert annotations["backward_flops"].total() == counter.get_total_flops() - forward


def marked(model):
    """Hooks that mark each module's forward for the profiler; gives their handles."""
    running, handles = {}, []
    for path, module in model.named_modules():

        def before(module, args, path=path):
            mark = torch.profiler.record_function(f"module:{path}")
            mark.__enter__()
            running.setdefault(path, []).append(mark)

        def after(module, args, output, path=path):
            running[path].pop().__exit__(None, None, None)

        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    return handles


def kernels(event):
    """Seconds of the outermost ops under a mark, those of inner modules left out."""
    found, waiting = 0.0, list(event.cpu_children)
    while waiting:
        child = waiting.pop()
        if child.name.startswith("aten::"):
            found += child.cpu_time_total / 1e6
        elif not child.name.startswith("module:"):
            waiting.extend(child.cpu_children)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "gpt2"])
def test_times_agree_with_the_profiler(name):
    """In one and the same step: the ten most expensive modules, and totals within 15 %.

    The profiler's time of a grad node has the recorder's hooks in it, ours has not.
    """
    model, kwargs = make(name, full=True)
    loss_of(model(**kwargs)).backward()
    handles = marked(model)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with tr.Recorder(model) as recorder:
            loss_of(model(**kwargs)).backward()
    for handle in handles:
        handle.remove()
    recording = recorder.recording
    theirs = {}
    for event in profile.events():
        if event.name.startswith("module:"):
            path = event.name.removeprefix("module:") or recording.scopes["s0"].name
            theirs[path] = theirs.get(path, 0.0) + kernels(event)
    engine = [e for e in profile.events() if e.name.startswith("autograd::engine::evaluate")]
    backward = sum(each.cpu_time_total for each in engine) / 1e6
    ours = dict.fromkeys(theirs, 0.0)
    for place in recording.top("forward_time", 10**6, by="op"):
        path = place.name.rpartition(": ")[0]
        if path in ours:
            ours[path] += place.number
    assert sum(ours.values()) == pytest.approx(sum(theirs.values()), rel=0.15)
    assert recording.annotations["backward_time"].total() == pytest.approx(backward, rel=0.15)
    expensive = sorted(theirs, key=lambda path: -theirs[path])[:10]
    top = sorted(ours, key=lambda path: -ours[path])[:10]
    close = 0.85 * theirs[expensive[-1]]  # modules that take all but the same may change places
    assert all(path in top for path in expensive[:5])
    assert all(theirs[path] >= close for path in top)

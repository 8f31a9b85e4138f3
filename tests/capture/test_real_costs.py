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
from torchrecorder.capture.tensors.describe import tensors_in

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
    wanted = packed_bytes(lambda: model(**kwargs), [*model.parameters(), *model.buffers()])
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

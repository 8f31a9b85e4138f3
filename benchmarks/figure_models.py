"""The models whose figures are measured: real architectures, and steps that train them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import torchrecorder
from tests import real_models, torchvision_shim
from torchrecorder.recording import Recording

SMALL = (
    "resnet18", "densenet121", "inception_v3", "googlenet", "swin", "mobilenet_v3",
    "efficientnet", "shufflenet", "squeezenet", "convnext", "deeplab", "raft", "timm_vit",
    "timm_mixer", "timm_coatnet", "graph_network", "unet_diffusers", "unet_monai", "bert", "gpt2",
    "llama", "mixtral", "t5", "clip", "whisper", "mamba", "wav2vec2", "lstm_seq2seq",
    "transformer", "unet", "autoencoder", "ode_solver",
)
"""Models of the tests: whole architectures of small width."""

MADE: dict[str, Callable[[], Recording]] = {}
"""Models and training steps that are built here."""


def names() -> list[str]:
    """Every model that is measured."""
    return [*SMALL, *MADE]


def recorded(name: str) -> Recording:
    """The run of one of the models, the same each time."""
    torch.manual_seed(0)
    if name in MADE:
        return MADE[name]()
    run = real_models.make(name)
    return torchrecorder.record(run.model, run.args, run.kwargs or {}, restore=False)


def _made(build: Callable[[], Recording]) -> Callable[[], Recording]:
    MADE[build.__name__] = build
    return build


def _vision(name: str, *args: Any, **options: Any) -> Any:
    torchvision_shim.install()
    import torchvision

    return getattr(torchvision.models, name)(*args, weights=None, **options)


@_made
def mlp() -> Recording:
    """The first model of everybody."""
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return torchrecorder.record(model, input_shapes=(1, 784))


@_made
def resnet50() -> Recording:
    """Bottleneck blocks in four stages."""
    return torchrecorder.record(_vision("resnet50").eval(), input_shapes=(1, 3, 64, 64))


@_made
def vgg16() -> Recording:
    """One long chain."""
    return torchrecorder.record(_vision("vgg16").eval(), input_shapes=(1, 3, 32, 32))


@_made
def gpt2_12() -> Recording:
    """Twelve equal layers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_embd=24, n_head=12, vocab_size=99)).eval()
    return torchrecorder.record(model, (torch.randint(0, 90, (1, 8)),), {"use_cache": False})


@_made
def mask_rcnn() -> Recording:
    """Detection with masks: many operations that no module speaks for."""
    torchvision_shim.allow_boxes()
    from torchvision.models.detection import maskrcnn_resnet50_fpn

    model = maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=64,
        rpn_pre_nms_top_n_test=20, rpn_post_nms_top_n_test=10, box_detections_per_img=5,
    )
    return torchrecorder.record(model.eval(), ([torch.rand(3, 64, 64)],))


@_made
def training_step() -> Recording:
    """A step that trains a ResNet-18 with AdamW and clips its gradients."""
    model = _vision("resnet18", num_classes=5)
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 5, (2,))
    with torchrecorder.Recorder(model) as recorder:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return recorder.recording


@_made
def gan_step() -> Recording:
    """A step of a DCGAN: first its discriminator is trained, then its generator."""
    generator = nn.Sequential(
        nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh(),
    )
    discriminator = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1),
        nn.BatchNorm2d(32), nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4), nn.Flatten(0),
    )
    pair = nn.ModuleDict({"generator": generator, "discriminator": discriminator})
    first, second = (torch.optim.Adam(each.parameters()) for each in (discriminator, generator))
    real, yes, no = torch.rand(4, 3, 16, 16), torch.ones(4), torch.zeros(4)
    apart = nn.functional.binary_cross_entropy_with_logits
    with torchrecorder.Recorder(pair) as recorder:
        made = generator(torch.randn(4, 16, 1, 1))
        loss = apart(discriminator(real), yes) + apart(discriminator(made.detach()), no)
        loss.backward()
        first.step()
        second.zero_grad()
        apart(discriminator(made), yes).backward()
        second.step()
    return recorder.recording


@_made
def towers() -> Recording:
    """Two encoders that meet only in the similarity of what they give."""

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Sequential(nn.EmbeddingBag(99, 32), nn.Linear(32, 32), nn.ReLU())
            self.item = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())

        def forward(self, words: torch.Tensor, facts: torch.Tensor) -> torch.Tensor:
            return (self.query(words) * self.item(facts)).sum(-1).sigmoid()

    return torchrecorder.record(Towers(), (torch.randint(0, 99, (4, 7)), torch.rand(4, 20)))


@_made
def encoder_layers() -> Recording:
    """Six layers of an encoder, in training."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return torchrecorder.record(nn.TransformerEncoder(layer, 6), input_shapes=(2, 7, 32))

"""Real architectures in small sizes, each with inputs it accepts.

``MODELS`` maps a name to a builder of a `Run`. Libraries are imported when a builder is
called, so that a missing one costs only its own models.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

from tests import torchvision_shim
from tests.zoo.case import Run

MODELS: dict[str, Callable[[], Run]] = {}
NEEDS: dict[str, str] = {}

DEVICE = "cpu"
"""Where models are made."""

WITH_THE_CPU = frozenset(("gpt2_cached", "lstm_seq2seq"))
"""Models that are given tensors on the CPU, or inside of objects."""

ELSEWHERE = ("tests.language_models", "tests.plain_models", "tests.other_models")
"""Modules that add models of their own when they are imported."""


def model(needs: str = "torch") -> Callable[[Callable[[], Run]], Callable[[], Run]]:
    def add(build: Callable[[], Run]) -> Callable[[], Run]:
        MODELS[build.__name__] = build
        NEEDS[build.__name__] = needs
        return build

    return add


def make(name: str) -> Run:
    """The model of this name with fresh weights and inputs, the same each time."""
    if name not in available():
        pytest.skip(f"needs {NEEDS[name]}")
    torch.manual_seed(0)
    return MODELS[name]() if DEVICE == "cpu" else _on_device(name)


def use(device: str) -> None:
    """Make all models on *device*, and let it compute the same each time."""
    global DEVICE
    DEVICE = device
    if device != "cpu":
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # for cuBLAS to be deterministic
        torch.use_deterministic_algorithms(True, warn_only=True)


def _on_device(name: str) -> Run:
    if name in WITH_THE_CPU:
        pytest.skip("reads inputs on the CPU")
    run = MODELS[name]()
    owner = getattr(run.model, "__self__", run.model)
    owner.to(DEVICE)
    args, kwargs = tree_map(_moved, (run.args, run.kwargs))
    return replace(run, args=args, kwargs=kwargs)


def _moved(given: Any) -> Any:
    if not isinstance(given, torch.Tensor):
        return given
    return given.detach().to(DEVICE).requires_grad_(given.requires_grad)


def available() -> list[str]:
    """Names of the models whose libraries are installed."""
    for name in ELSEWHERE:
        importlib.import_module(name)
    return [name for name in MODELS if importlib.util.find_spec(NEEDS[name]) is not None]


def image(size: int = 64, batch: int = 1) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def tokens(length: int = 7, batch: int = 2, highest: int = 90) -> torch.Tensor:
    return torch.randint(3, highest, (batch, length))


# torchvision ----------------------------------------------------------------------------


def _vision(name: str, size: int = 64, batch: int = 1, train: bool = False, **options: Any) -> Run:
    torchvision_shim.install()
    import torchvision

    made = getattr(torchvision.models, name)(weights=None, num_classes=5, **options)
    return Run(made.train(train), (image(size, batch),))


@model("torchvision")
def resnet18() -> Run:
    return _vision("resnet18", batch=2, train=True)


@model("torchvision")
def densenet121() -> Run:
    return _vision("densenet121")


@model("torchvision")
def densenet121_checkpointed() -> Run:
    return _vision("densenet121", batch=2, train=True, memory_efficient=True)


@model("torchvision")
def inception_v3() -> Run:
    more = {"aux_logits": True, "init_weights": False}
    return _vision("inception_v3", size=299, batch=2, train=True, **more)


@model("torchvision")
def googlenet() -> Run:
    return _vision("googlenet", batch=2, train=True, aux_logits=True, init_weights=False)


@model("torchvision")
def vit() -> Run:
    torchvision_shim.install()
    from torchvision.models import VisionTransformer

    sizes = {"num_heads": 2, "hidden_dim": 16, "mlp_dim": 32, "num_classes": 5}
    made = VisionTransformer(32, 8, num_layers=2, **sizes)
    return Run(made, (image(32, 2),))


@model("torchvision")
def swin() -> Run:
    torchvision_shim.install()
    from torchvision.models import SwinTransformer

    made = SwinTransformer([2, 2], 8, [2, 2], [2, 2], [4, 4], num_classes=5)
    return Run(made.eval(), (image(32),))


@model("torchvision")
def swin_v2() -> Run:
    torchvision_shim.install()
    from torchvision.models.swin_transformer import (
        PatchMergingV2, SwinTransformer, SwinTransformerBlockV2,
    )

    made = SwinTransformer(
        [2, 2], 8, [2, 2], [2, 2], [4, 4], num_classes=5,
        block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2,
    )
    return Run(made, (image(32),))


@model("torchvision")
def convnext() -> Run:
    torchvision_shim.install()
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    blocks = [CNBlockConfig(8, 16, 2), CNBlockConfig(16, None, 2)]
    return Run(ConvNeXt(blocks, 0.2, num_classes=5), (image(32),))


@model("torchvision")
def mobilenet_v3() -> Run:
    return _vision("mobilenet_v3_small", batch=2, train=True)


@model("torchvision")
def efficientnet() -> Run:
    return _vision("efficientnet_b0", batch=2, train=True)


@model("torchvision")
def shufflenet() -> Run:
    return _vision("shufflenet_v2_x0_5")


@model("torchvision")
def squeezenet() -> Run:
    return _vision("squeezenet1_1")


@model("torchvision")
def vgg11() -> Run:
    """With few features in its classifier, which else has 120 of its 129 million weights."""
    torchvision_shim.install()
    from torchvision.models.vgg import VGG, cfgs, make_layers

    with torch.device("meta"):
        made = VGG(nn.Identity(), num_classes=5, init_weights=False)
    made.features = make_layers(cfgs["A"], batch_norm=True)
    for place, sizes in ((0, (512 * 7 * 7, 16)), (3, (16, 16)), (6, (16, 5))):
        made.classifier[place] = nn.Linear(*sizes)
    return Run(made.eval(), (image(32),))


@model("torchvision")
def maxvit() -> Run:
    torchvision_shim.install()
    from torchvision.models import MaxVit

    made = MaxVit((32, 32), 8, 4, [8, 8], [1, 1], 4, 0.1, num_classes=5)
    return Run(made, (image(32),))


@model("torchvision")
def deeplab() -> Run:
    torchvision_shim.install()
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    made = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)
    return Run(made.eval(), (image(64),))


@model("torchvision")
def raft() -> Run:
    torchvision_shim.install()
    from torchvision.models.optical_flow import raft_small

    made = raft_small(weights=None)
    return Run(made.eval(), (image(128), image(128)), {"num_flow_updates": 2})


def _detector() -> Any:
    torchvision_shim.allow_boxes()
    from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

    return fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=64,
        rpn_pre_nms_top_n_test=20, rpn_post_nms_top_n_test=10, box_detections_per_img=5,
        rpn_pre_nms_top_n_train=20, rpn_post_nms_top_n_train=10,
    )


@model("torchvision")
def faster_rcnn() -> Run:
    return Run(_detector().eval(), ([torch.rand(3, 64, 64), torch.rand(3, 48, 64)],))


@model("torchvision")
def faster_rcnn_training() -> Run:
    target = {"boxes": torch.tensor([[4.0, 4.0, 30.0, 30.0]]), "labels": torch.tensor([1])}
    return Run(_detector().train(), ([torch.rand(3, 64, 64)], [target]))


# timm -----------------------------------------------------------------------------------


def _timm(name: str, size: int = 64, **options: Any) -> Run:
    torchvision_shim.install()
    import timm

    made = timm.create_model(name, pretrained=False, num_classes=5, **options)
    return Run(made, (image(size, 2),))


@model("timm")
def timm_vit() -> Run:
    return _timm("vit_tiny_patch16_224", 32, img_size=32, depth=2)


@model("timm")
def timm_efficientnet() -> Run:
    return _timm("efficientnet_lite0")


@model("timm")
def timm_mixer() -> Run:
    return _timm("mixer_s32_224", 64, img_size=64)


@model("timm")
def timm_resnest() -> Run:
    return _timm("resnest14d")


@model("timm")
def timm_levit() -> Run:
    return _timm("levit_128s", 224)


@model("timm")
def timm_coatnet() -> Run:
    return _timm("coatnet_nano_rw_224", 64, img_size=64)


# torch_geometric, diffusers, monai ------------------------------------------------------


@model("torch_geometric")
def graph_network() -> Run:
    torchvision_shim.install()
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(4, 8), GATConv(8, 5, heads=2)

        def forward(self, x, edge_index, batch):
            x = self.first(x, edge_index).relu()
            return global_mean_pool(self.second(x, edge_index), batch)

    edges = torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 2]])
    return Run(Graph(), (torch.randn(4, 4, requires_grad=True), edges, torch.tensor([0, 0, 1, 1])))


@model("torch_geometric")
def graph_isomorphism() -> Run:
    torchvision_shim.install()
    from torch_geometric.nn import GIN

    edges = torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 2]])
    return Run(GIN(4, 8, 2, out_channels=3), (torch.randn(4, 4), edges))


@model("diffusers")
def unet_diffusers() -> Run:
    torchvision_shim.install()
    from diffusers import UNet2DConditionModel

    made = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, block_out_channels=(8, 16),
        layers_per_block=1, cross_attention_dim=8, norm_num_groups=4, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
    return Run(made, (torch.randn(1, 4, 8, 8), torch.tensor([3]), torch.randn(1, 5, 8)))


@model("monai")
def unet_monai() -> Run:
    from monai.networks.nets import UNet

    made = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2),
                num_res_units=1)
    return Run(made, (torch.randn(1, 1, 32, 32),))

"""The models of libraries, in small sizes and with inputs that they accept.

``LIBRARIES`` maps a library to a function that yields the name of each of its models and a function
that makes it. Sizes and inputs follow rules; a model that needs something else raises when it is
made or called, and is left out.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from tests import torchvision_shim
from tests.zoo.case import Run

Models = Iterator[tuple[str, Callable[[], Run]]]

LARGEST = 60_000_000
"""The most parameters: the accounts keep all tensors of a run."""

WIDEST = 300
"""The largest side of an image, in pixels."""

TRIED = 12
"""How many of the models in one file of timm are looked at, for the smallest."""


class TooLarge(Exception):
    """More parameters or pixels than this check has the memory for."""


def _counted(model: nn.Module) -> nn.Module:
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > LARGEST:
        raise TooLarge(f"{count:,} parameters")
    return model


def _on_meta(make: Callable[[], nn.Module]) -> int:
    """The number of parameters, without their memory."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in make().parameters())


# timm -----------------------------------------------------------------------------------


def timm_models() -> Models:
    """The smallest model of each file of timm."""
    torchvision_shim.install()
    import timm

    for module in timm.list_modules():
        sizes = {}
        for name in timm.list_models(module=module)[:TRIED]:
            try:
                sizes[name] = _on_meta(partial(timm.create_model, name, pretrained=False))
            except Exception:  # some cannot be made on the meta device
                continue
        if sizes:
            name = min(sizes, key=sizes.__getitem__)
            yield name, partial(_timm, name)


def _timm(name: str) -> Run:
    import timm

    made = _counted(timm.create_model(name, pretrained=False, num_classes=5))
    config = made.default_cfg
    channels, *sides = config["input_size"]
    least = config.get("min_input_size", (3, 64, 64))[1:]
    if not config.get("fixed_input_size") and max(least) <= 96:
        sides = [96, 96]
    if max(sides) > WIDEST:
        raise TooLarge(f"images of {sides}")
    return Run(made, (torch.rand(2, channels, *sides),))


# torchvision ----------------------------------------------------------------------------


def torchvision_models() -> Models:
    """Every model of torchvision."""
    torchvision_shim.install()
    import torchvision

    for name in torchvision.models.list_models():
        yield name, partial(_torchvision, name)


def _torchvision(name: str) -> Run:
    import torchvision

    builder = torchvision.models.get_model_builder(name)
    backbone = "weights_backbone" in inspect.signature(builder).parameters
    make = partial(builder, weights=None, **({"weights_backbone": None} if backbone else {}))
    if _on_meta(make) > LARGEST:
        raise TooLarge("parameters")
    made = make()
    kind = type(made).__module__
    if ".detection" in kind:
        made.transform.min_size, made.transform.max_size = (96,), 128
        targets = [{"boxes": torch.tensor([[4.0, 4, 60, 60]]), "labels": torch.tensor([1])}]
        return Run(made, ([torch.rand(3, 96, 96)], targets))
    if ".video" in kind:
        frames, side = (16, 224) if "mvit" in name else (8, 112)
        return Run(made, (torch.rand(1, 3, frames, side, side),))
    if ".optical_flow" in kind:
        return Run(made, (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)))
    side = 224 if "vit" in name else 128
    return Run(made, (torch.rand(2, 3, side, side),))


# transformers ---------------------------------------------------------------------------

SMALL = {
    "hidden_size|d_model|n_embd|dim|embed_dim|embedding_size|text_hidden_size": 32,
    "intermediate_size|ffn_dim|d_ff|n_inner|(en|de)coder_ffn_dim|ffn_hidden_size"
    "|(moe_|shared_expert_)intermediate_size|feed_forward_size": 48,
    "num_hidden_layers|n_layers?|num_layers|(num_)?(en|de)coder_layers|depth": 2,
    "(num_|(en|de)coder_)attention_heads|n_heads?|num_heads": 4,
    "num_key_value_heads|num_experts_per_tok": 2,
    "head_dim|d_kv|patch_size": 8,
    "num_experts|num_local_experts|n_routed_experts": 4,
    "max_position_embeddings|n_positions": 64,
    "vocab_size": 120,
    "image_size": 32,
}
"""The largest values of numbers in configs, by patterns of their names."""

TOKENS = ("pad", "bos", "eos", "decoder_start", "image")

PAIRS = ("CLIP", "Siglip", "Align", "AltCLIP", "Chinese", "Group", "Flava", "Blip", "Owl", "XCLIP")
"""Beginnings of the classes of models that are given a text and an image."""


def transformers_models() -> Models:
    """The base model of each config of transformers, two layers of it."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    torchvision_shim.install()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for name in sorted(CONFIG_MAPPING.keys()):
        yield name, partial(_transformer, name)


def _transformer(name: str) -> Run:
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[name]()
    _shrink(config)
    made = _counted(AutoModel.from_config(config))
    return Run(made, (), _tensors(made, config))


def _shrink(config: Any) -> None:
    """Make a config, and those inside it, small."""
    for key, value in list(vars(config).items()):
        if hasattr(value, "to_dict"):
            _shrink(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            limits = [most for names, most in SMALL.items() if re.fullmatch(names, key)]
            setattr(config, key, min([value, *limits]))
    for token in TOKENS:
        if getattr(config, f"{token}_token_id", None) is not None:
            setattr(config, f"{token}_token_id", 1)
    layers = getattr(config, "layer_types", None)
    if layers and len(layers) > getattr(config, "num_hidden_layers", 2):
        config.layer_types = [layers[0], layers[-1]]


def _tensors(model: nn.Module, config: Any) -> Mapping[str, torch.Tensor]:
    """Inputs for the arguments that ``forward`` has."""
    takes = inspect.signature(model.forward).parameters
    text = torch.randint(3, 100, (1, 7))
    found: dict[str, torch.Tensor] = {}
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", None) or 64
    side = side if isinstance(side, int) else side[0]
    image = torch.randn(1, getattr(vision, "num_channels", 3), side, side)
    if "input_ids" in takes:
        found["input_ids"] = text
        if "pixel_values" in takes and type(model).__name__.startswith(PAIRS):
            found["pixel_values"] = image
    elif "input_values" in takes:
        found["input_values"] = torch.randn(1, 4000)
    elif "input_features" in takes:
        length = 2 * getattr(config, "max_source_positions", 100)
        found["input_features"] = torch.randn(1, getattr(config, "num_mel_bins", 80), length)
    elif "pixel_values" in takes:
        found["pixel_values"] = image
    if "decoder_input_ids" in takes and getattr(config, "is_encoder_decoder", False):
        found["decoder_input_ids"] = text[:, :5]
    return found


# PyTorch Geometric ----------------------------------------------------------------------

NODES, EDGES = 12, 40

ARGUMENTS: Mapping[str, Any] = {
    "in_channels": 8, "out_channels": 8, "hidden_channels": 16, "channels": 8, "size": 8,
    "in_dim": 8, "out_dim": 8, "embedding_dim": 8, "edge_dim": 4, "num_layers": 2, "heads": 2,
    "K": 2, "dim": 3, "kernel_size": 2, "num_relations": 3, "num_nodes": NODES, "num_bases": 2,
    "walk_length": 4, "context_size": 2, "num_timesteps": 2, "ratio": 0.5, "k": 3, "alpha": 0.1,
}
"""Arguments of layers by name."""


def geometric_models() -> Models:
    """The layers and models of PyTorch Geometric that work on one graph."""
    import torch_geometric.nn as graphs

    parts = (graphs.conv, graphs.models, graphs.norm, graphs.pool, graphs.aggr)
    for name in dict.fromkeys(name for part in parts for name in part.__all__):
        cls = getattr(graphs, name, None)
        if inspect.isclass(cls) and issubclass(cls, nn.Module):
            yield name, partial(_geometric, cls)


def _geometric(cls: type[nn.Module]) -> Run:
    width = 16 if "Edge" in cls.__name__ else 8  # layers of edges are given both ends
    inside = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 8))
    required = _required(cls.__init__)
    given = {name: inside if name.endswith("nn") else ARGUMENTS[name] for name in required}
    made = cls(**given)
    graph = {
        "x": torch.rand(NODES, 8), "x_0": torch.rand(NODES, 8), "pos": torch.rand(NODES, 3),
        "edge_index": torch.randint(0, NODES, (2, EDGES)), "z": torch.randint(1, 9, (NODES,)),
        "edge_attr": torch.rand(EDGES, 4), "edge_weight": torch.rand(EDGES),
        "edge_type": torch.randint(0, 3, (EDGES,)), "index": torch.arange(NODES) // 4,
        "batch": torch.zeros(NODES, dtype=torch.long), "pseudo": torch.rand(EDGES, 3),
    }
    wanted = {*_required(made.forward), "x", "edge_index", "pos", "index", "edge_type"}
    takes = inspect.signature(made.forward).parameters
    return Run(made, (), {name: graph[name] for name in takes if name in wanted})


def _required(function: Callable[..., Any]) -> list[str]:
    """The arguments without a default."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name for name, each in inspect.signature(function).parameters.items()
        if each.default is each.empty and each.kind not in kinds and name != "self"
    ]


LIBRARIES: Mapping[str, Callable[[], Models]] = {
    "timm": timm_models,
    "torchvision": torchvision_models,
    "transformers": transformers_models,
    "torch_geometric": geometric_models,
}

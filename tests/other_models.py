"""More real architectures: those that showed the recorder something new, and their kin.

They are added to ``MODELS`` of `tests.real_models` when this module is imported.
"""

from __future__ import annotations

import torch

from tests import torchvision_shim
from tests.language_models import SMALL, hugging
from tests.real_models import image, model, tokens
from tests.zoo.case import Run


@model("transformers")
def rwkv() -> Run:
    """Its state is given by keyword, and written inside the blocks."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "context_length": 64}
    made = hugging("RwkvForCausalLM", "RwkvConfig", train=True, vocab_size=99, **sizes)
    return Run(made.requires_grad_(False), (tokens(),))


@model("transformers")
def sam() -> Run:
    """Attention is given one tensor under two keywords."""
    torchvision_shim.install()
    from transformers import SamConfig, SamModel

    vision = {
        "hidden_size": 16, "output_channels": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
        "image_size": 64, "patch_size": 16, "window_size": 2, "global_attn_indexes": [1],
        "mlp_dim": 32, "num_pos_feats": 4,
    }
    prompt = {"hidden_size": 8, "image_size": 64, "patch_size": 16, "mask_input_channels": 4}
    masks = {"hidden_size": 8, "mlp_dim": 16, "num_attention_heads": 2, "iou_head_hidden_dim": 8}
    config = SamConfig(
        vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=masks
    )
    points = torch.tensor([[[[3.0, 4.0]]]])
    return Run(SamModel(config).eval(), (), {"pixel_values": image(64), "input_points": points})


@model("transformers")
def qwen3_moe() -> Run:
    made = hugging(
        "Qwen3MoeForCausalLM", "Qwen3MoeConfig", num_key_value_heads=1, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=8, head_dim=8, **SMALL,
    )
    return Run(made, (tokens(),))


@model("transformers")
def big_bird() -> Run:
    sparse = {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1}
    return Run(hugging("BigBirdModel", "BigBirdConfig", **SMALL, **sparse), (tokens(32),))


@model("transformers")
def beam_search() -> Run:
    made = hugging(
        "T5ForConditionalGeneration", "T5Config", d_model=16, d_kv=8, d_ff=32, num_layers=2,
        num_heads=2, vocab_size=99, decoder_start_token_id=0, eos_token_id=1, pad_token_id=0,
    )
    return Run(made.generate, (tokens(3, 1),), {"max_new_tokens": 3, "num_beams": 2})


@model("diffusers")
def vae_diffusers() -> Run:
    torchvision_shim.install()
    from diffusers import AutoencoderKL

    made = AutoencoderKL(
        block_out_channels=(8, 8), norm_num_groups=4, latent_channels=2,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )
    return Run(made, (torch.randn(1, 3, 16, 16),), {"sample_posterior": True, "return_dict": False})


@model("diffusers")
def dit_diffusers() -> Run:
    torchvision_shim.install()
    from diffusers import DiTTransformer2DModel

    made = DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4,
        num_layers=2, sample_size=8, norm_num_groups=4, num_embeds_ada_norm=10,
    )
    labels = {"timestep": torch.tensor([3]), "class_labels": torch.tensor([1])}
    return Run(made, (torch.randn(1, 4, 8, 8),), labels)


@model("monai")
def dynunet_monai() -> Run:
    """It keeps its results in a list of its own, and holds itself in a cycle."""
    from monai.networks.nets import DynUNet

    made = DynUNet(
        2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[4, 8, 8], deep_supervision=True,
        deep_supr_num=1,
    )
    return Run(made, (torch.randn(2, 1, 16, 16),))


@model("torch_geometric")
def graph_unet() -> Run:
    torchvision_shim.install()
    from torch_geometric.nn import GraphUNet

    edges = torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 2]])
    return Run(GraphUNet(4, 8, 3, 2), (torch.randn(4, 4, requires_grad=True), edges))

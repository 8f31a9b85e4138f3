"""Real architectures from transformers, in small sizes.

They are added to ``MODELS`` of `tests.real_models` when this module is imported.
"""

from __future__ import annotations

from typing import Any

import torch

from tests import torchvision_shim
from tests.real_models import image, model, tokens
from tests.zoo.case import Run

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}


def hugging(model: str, config: str, train: bool = False, **options: Any) -> Any:
    torchvision_shim.install()
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**options)).train(train)


@model("transformers")
def bert() -> Run:
    mask = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
    made = hugging("BertForSequenceClassification", "BertConfig", train=True, **SMALL)
    kwargs = {"input_ids": tokens(), "attention_mask": mask, "labels": torch.tensor([0, 1])}
    return Run(made, (), kwargs)


@model("transformers")
def gpt2() -> Run:
    made = hugging("GPT2LMHeadModel", "GPT2Config", n_embd=16, n_layer=2, n_head=2, vocab_size=99)
    ids = tokens()
    return Run(made, (ids,), {"labels": ids})


@model("transformers")
def gpt2_cached() -> Run:
    made = hugging("GPT2LMHeadModel", "GPT2Config", n_embd=16, n_layer=2, n_head=2, vocab_size=99)
    cache = made(tokens(4), use_cache=True).past_key_values
    return Run(made, (tokens(1),), {"past_key_values": cache, "use_cache": True})


@model("transformers")
def llama() -> Run:
    made = hugging("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=1, **SMALL)
    return Run(made, (tokens(),), {"use_cache": True})


@model("transformers")
def llama_legacy_tuple() -> Run:
    made = hugging("LlamaModel", "LlamaConfig", num_key_value_heads=1, **SMALL)
    return Run(made, (tokens(),), {"return_dict": False, "use_cache": False})


@model("transformers")
def mixtral() -> Run:
    made = hugging(
        "MixtralForCausalLM", "MixtralConfig",
        num_key_value_heads=1, num_local_experts=4, output_router_logits=True, **SMALL,
    )
    ids = tokens()
    return Run(made, (ids,), {"labels": ids, "use_cache": True})


@model("transformers")
def deepseek_v3() -> Run:
    made = hugging(
        "DeepseekV3ForCausalLM", "DeepseekV3Config",
        num_key_value_heads=2, moe_intermediate_size=8, n_routed_experts=4, n_group=2,
        topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, q_lora_rank=8,
        kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8, **SMALL,
    )
    return Run(made, (tokens(),))


@model("transformers")
def t5() -> Run:
    made = hugging(
        "T5ForConditionalGeneration", "T5Config", d_model=16, d_kv=8, d_ff=32,
        num_layers=2, num_heads=2, vocab_size=99, decoder_start_token_id=0,
    )
    return Run(made, (), {"input_ids": tokens(), "labels": tokens(4)})


@model("transformers")
def clip() -> Run:
    torchvision_shim.install()
    from transformers import CLIPConfig, CLIPModel

    text = {**SMALL, "eos_token_id": 98, "bos_token_id": 0, "pad_token_id": 1}
    of_text = ("vocab_size", "max_position_embeddings")
    vision = {key: SMALL[key] for key in SMALL if key not in of_text}
    vision = {**vision, "image_size": 32, "patch_size": 8}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    return Run(CLIPModel(config).eval(), (), {
        "input_ids": tokens(), "pixel_values": image(32, 2), "return_loss": True
    })


@model("transformers")
def whisper() -> Run:
    made = hugging(
        "WhisperForConditionalGeneration", "WhisperConfig", d_model=16, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, vocab_size=99, num_mel_bins=8,
        max_source_positions=20, max_target_positions=20, decoder_start_token_id=1,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )
    return Run(made, (torch.randn(1, 8, 40),), {"decoder_input_ids": tokens(4, 1)})


@model("transformers")
def mamba() -> Run:
    made = hugging("MambaForCausalLM", "MambaConfig", hidden_size=16, num_hidden_layers=2,
                   vocab_size=99, state_size=4)
    return Run(made, (tokens(),))


@model("transformers")
def mamba2() -> Run:
    made = hugging("Mamba2ForCausalLM", "Mamba2Config", hidden_size=16, num_hidden_layers=2,
                   vocab_size=99, state_size=4, num_heads=4, head_dim=8, n_groups=2, chunk_size=4)
    return Run(made, (tokens(8),))


@model("transformers")
def longformer() -> Run:
    made = hugging("LongformerModel", "LongformerConfig", attention_window=[4, 4],
                   pad_token_id=1, **SMALL)
    return Run(made, (tokens(8),))


def _same_attention_seed(layer: Any) -> None:
    layer.attention_seed = 1
    torch.manual_seed(1)


def _same_feed_forward_seed(layer: Any) -> None:
    layer.feed_forward_seed = 2
    torch.manual_seed(2)


@model("transformers")
def reformer() -> Run:
    torchvision_shim.install()
    from transformers.models.reformer import modeling_reformer

    # Its layers draw their seeds from the clock: two runs would differ, recorded or not.
    modeling_reformer.ReformerLayer._init_attention_seed = _same_attention_seed
    modeling_reformer.ReformerLayer._init_feed_forward_seed = _same_feed_forward_seed
    made = hugging(
        "ReformerModel", "ReformerConfig", attention_head_size=8, hidden_size=16,
        num_attention_heads=2, feed_forward_size=32, vocab_size=99, axial_pos_embds=False,
        attn_layers=["local", "lsh"], local_attn_chunk_length=4, lsh_attn_chunk_length=4,
        num_buckets=2, num_hashes=1, max_position_embeddings=64, is_decoder=False, hash_seed=0,
        train=True,
    )
    return Run(made, (tokens(8),))


@model("transformers")
def llava() -> Run:
    torchvision_shim.install()
    from transformers import (
        CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration,
    )

    of_text = ("vocab_size", "max_position_embeddings")
    vision = {key: SMALL[key] for key in SMALL if key not in of_text}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**vision, image_size=16, patch_size=8),
        text_config=LlamaConfig(**{**SMALL, "num_key_value_heads": 1}),
        image_token_id=98,
    )
    ids = torch.tensor([[5, 98, 98, 98, 98, 7]])
    made = LlavaForConditionalGeneration(config).eval()
    return Run(made, (), {"input_ids": ids, "pixel_values": image(16)})


@model("transformers")
def vit_mae() -> Run:
    made = hugging(
        "ViTMAEForPreTraining", "ViTMAEConfig", image_size=32, patch_size=8, hidden_size=16,
        num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2,
        decoder_intermediate_size=32,
    )
    return Run(made, (image(32, 2),))


@model("transformers")
def wav2vec2() -> Run:
    made = hugging(
        "Wav2Vec2ForCTC", "Wav2Vec2Config", hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32, conv_dim=(8, 8), conv_stride=(4, 4),
        conv_kernel=(8, 8), num_feat_extract_layers=2, vocab_size=20,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, mask_time_length=2,
    )
    return Run(made, (torch.randn(2, 400),))


@model("transformers")
def dinov2() -> Run:
    made = hugging("Dinov2Model", "Dinov2Config", image_size=32, patch_size=8, hidden_size=16,
                   num_hidden_layers=2, num_attention_heads=2)
    return Run(made, (image(32),))


@model("transformers")
def generation() -> Run:
    made = hugging("GPT2LMHeadModel", "GPT2Config", n_embd=16, n_layer=2, n_head=2,
                   vocab_size=99, eos_token_id=98, pad_token_id=98, bos_token_id=98)
    return Run(made.generate, (tokens(3, 1),), {"max_new_tokens": 3, "do_sample": False})

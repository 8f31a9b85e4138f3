"""Real architectures in small sizes, each with inputs it accepts.

``MODELS`` maps a name to a builder of a `Run`. Libraries are imported when a builder is
called, so that a missing one costs only its own models.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests import torchvision_shim
from tests.zoo.case import Run

MODELS: dict[str, Callable[[], Run]] = {}
NEEDS: dict[str, str] = {}


def model(needs: str = "torch") -> Callable[[Callable[[], Run]], Callable[[], Run]]:
    def add(build: Callable[[], Run]) -> Callable[[], Run]:
        MODELS[build.__name__] = build
        NEEDS[build.__name__] = needs
        return build

    return add


def make(name: str) -> Run:
    """The model of this name with fresh weights and inputs, the same each time."""
    available()
    torch.manual_seed(0)
    return MODELS[name]()


def available() -> list[str]:
    """Names of the models whose libraries are installed."""
    importlib.import_module("tests.other_models")  # which adds its own
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
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformer
    from torchvision.models.swin_transformer import SwinTransformerBlockV2

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
    return _vision("vgg11_bn", size=32)


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


# transformers ---------------------------------------------------------------------------

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
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig
    from transformers import LlavaForConditionalGeneration

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


# torch_geometric ------------------------------------------------------------------------


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


# plain PyTorch --------------------------------------------------------------------------


class _Seq2Seq(nn.Module):
    """An LSTM encoder on packed sequences, and a decoder with attention, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8, padding_idx=0)
        self.encoder = nn.LSTM(8, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(16, 16)
        self.cell = nn.LSTMCell(8, 16)
        self.head = nn.Linear(32, 50)

    def forward(self, source, lengths, target):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(source), lengths, batch_first=True, enforce_sorted=False
        )
        memory, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        h = torch.tanh(self.bridge(memory.mean(1)))
        c, steps = torch.zeros_like(h), []
        for step in range(target.shape[1]):
            h, c = self.cell(self.embed(target[:, step]), (h, c))
            weights = (memory @ h.unsqueeze(-1)).softmax(1)
            steps.append(self.head(torch.cat([h, (weights * memory).sum(1)], -1)))
        return torch.stack(steps, 1)


@model()
def lstm_seq2seq() -> Run:
    source = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [9, 1, 2, 0]])
    return Run(_Seq2Seq(), (source, torch.tensor([4, 2, 3]), torch.randint(1, 50, (3, 5))))


@model()
def transformer() -> Run:
    made = nn.Transformer(16, 2, 2, 2, 32, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    return Run(made, (torch.randn(2, 5, 16), torch.randn(2, 4, 16)), {"tgt_mask": mask})


@model()
def transformer_eval() -> Run:
    made = nn.Transformer(16, 2, 2, 2, 32, batch_first=True).eval()
    return Run(made, (torch.randn(2, 5, 16), torch.randn(2, 4, 16)))


class _UNet(nn.Module):
    """Down, down, up, up, with the two skips concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self._block(3, 8), self._block(8, 16)])
        self.middle = self._block(16, 32)
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.merge = nn.ModuleList([self._block(32, 16), self._block(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    @staticmethod
    def _block(inside: int, outside: int) -> nn.Module:
        conv = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outside), nn.ReLU(inplace=True))

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.head(x)


@model()
def unet() -> Run:
    return Run(_UNet(), (image(16, 2),))


class _Autoencoder(nn.Module):
    """A variational autoencoder that returns its loss and its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ELU(), nn.Linear(16, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.GLU(), nn.Linear(8, 48), nn.Sigmoid())

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (spread / 2).exp()
        made = self.decoder(z).view_as(x)
        apart = -0.5 * (1 + spread - mean**2 - spread.exp()).sum(-1).mean()
        return {"loss": nn.functional.mse_loss(made, x) + apart, "made": made, "code": (mean, z)}


@model()
def autoencoder() -> Run:
    return Run(_Autoencoder(), (torch.rand(2, 3, 4, 4),))


class _Solver(nn.Module):
    """An ODE solved by many steps of one small network."""

    def __init__(self, steps: int = 40) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))
        self.steps = steps

    def forward(self, x):
        for _ in range(self.steps):
            half = x + self.field(x) / (2 * self.steps)
            x = x + self.field(half) / self.steps
        return x


@model()
def ode_solver() -> Run:
    return Run(_Solver(), (torch.randn(2, 4, requires_grad=True),))

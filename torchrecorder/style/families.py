"""Families: categories of ops and modules, by name."""

from __future__ import annotations

import re
from functools import lru_cache

FAMILIES = {
    "weights": """
        linear addmm bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d
        conv_transpose3d embedding embedding_bag lstm gru rnn_tanh rnn_relu lstm_cell gru_cell
        """,
    "norm": """
        batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm normalize
        """,
    "attention": "scaled_dot_product_attention multi_head_attention_forward",
    "activation": """
        relu relu_ relu6 gelu silu elu selu celu leaky_relu prelu rrelu sigmoid tanh softmax
        log_softmax hardswish hardsigmoid hardtanh mish softplus softsign glu logsigmoid
        threshold sigmoid_ tanh_ silu_
        """,
    "pooling": """
        max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d lp_pool2d interpolate upsample pixel_shuffle mean amax
        """,
    "shape": """
        view view_as reshape flatten unflatten squeeze unsqueeze transpose t T mT permute movedim
        swapaxes expand expand_as contiguous cat concat stack split chunk unbind narrow select
        __getitem__ roll pad repeat repeat_interleave tile gather index_select masked_fill where
        """,
}
"""Ops by family; others are arithmetic and similar."""

CLASSES = (
    ("norm", r"Norm\d?d?$|Norm$|RMSNorm|LayerNorm"),
    ("attention", r"Attention|Attn"),
    ("pooling", r"Pool|Upsample|PixelShuffle"),
    ("weights", r"(Linear|Conv\dD|Conv\dd|ConvTranspose\dd|Embedding|EmbeddingBag|LSTM|GRU|RNN)$"),
    (
        "activation",
        r"(ReLU6?|GELU|GELUActivation|SiLU|SiLUActivation|[SC]?ELU|Sigmoid|Tanh|Softmax|Hardswish"
        r"|Hardsigmoid|Mish|GLU|Softplus|Activation)$",
    ),
    ("shape", r"^(Flatten|Unflatten|Permute|Rearrange|Pad)"),
)
"""Class names by family, first match wins."""

_BY_OP = {name: family for family, names in FAMILIES.items() for name in names.split()}


def op_family(name: str) -> str:
    """The family of an op; empty without one."""
    return _BY_OP.get(name, "")


@lru_cache(maxsize=4096)
def class_family(cls: str) -> str:
    """The family of a module class, by its name; empty if unknown."""
    return next((family for family, sign in CLASSES if re.search(sign, cls)), "")

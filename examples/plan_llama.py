"""A Llama of 80 billion parameters on 64 processes, planned on one machine without any of them.

Layers are split along ``tp``, and weights lie over ``dp``. No process group, GPU or memory for
weights is needed: two of the ranks run on fake tensors, each for itself.
"""

import torch
from torch import nn
from torch.nn import functional

import torchrecorder

MESH = {"dp": 8, "tp": 8}


class RMSNorm(nn.RMSNorm):
    """PyTorch's own, with the epsilon of Llama."""

    def __init__(self, width):
        super().__init__(width, eps=1e-5)


class Attention(nn.Module):
    """Attention with rotary positions; on each process, for its local heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.head = width // heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x, cos, sin):
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = functional.scaled_dot_product_attention(
            rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True
        )
        return self.o_proj(y.transpose(1, 2).flatten(2))


def rotated(x, cos, sin):
    """Rotary position embedding."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class MLP(nn.Module):
    """A gated MLP (SwiGLU)."""

    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and a network for each position, each with a residual connection."""

    def __init__(self, width, inner, heads):
        super().__init__()
        self.input_norm, self.self_attn = RMSNorm(width), Attention(width, heads)
        self.post_norm, self.mlp = RMSNorm(width), MLP(width, inner)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_norm(x), cos, sin)
        return x + self.mlp(self.post_norm(x))


class Llama(nn.Module):
    """Tokens to the loss of the next ones."""

    def __init__(self, layers, width, inner, heads, tokens):
        super().__init__()
        self.head = width // heads
        self.embed_tokens = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width, inner, heads) for _ in range(layers))
        self.norm, self.lm_head = RMSNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, ids, labels):
        angles = torch.arange(ids.shape[1])[:, None] * torch.logspace(0, -4, self.head // 2)
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.lm_head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def llama(mesh, layers=80, width=8192, inner=28672, heads=64, tokens=128256, length=4096):
    """The model as each process has it, and a sequence of tokens for it."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )

    model = Llama(layers, width, inner, heads, tokens)
    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj",
               "mlp.up_proj")
    split = {name: ColwiseParallel() for name in columns}
    split |= {name: RowwiseParallel() for name in ("self_attn.o_proj", "mlp.down_proj")}
    for layer in model.layers:
        fully_shard(parallelize_module(layer, mesh["tp"], split), mesh=mesh["dp"])
    parallelize_module(model, mesh["tp"], {
        "embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        "lm_head": ColwiseParallel(output_layouts=Replicate()),
    })
    ids = torch.zeros(1, length, dtype=torch.long)
    return fully_shard(model, mesh=mesh["dp"]), (ids, ids)


if __name__ == "__main__":
    run = torchrecorder.plan(llama, MESH, name="Llama, 80 billion parameters")
    print(run.summary())
    print(run.render("plan_llama.svg", depth=4, fold="similar"))
    print(run.recording.save("plan_llama.json.gz", times=False))  # the gallery draws it

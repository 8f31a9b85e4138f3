"""Ring attention on 8 processes, planned on one machine: each has a part of a long sequence.

Queries stay. Keys and values go round: in each round, a process computes the
attention of its queries to those that it has, and sends these to the next process.
"""

import torch
import torch.distributed as dist
from torch import nn

import torchrecorder

MESH = {"cp": 8}


class RingAttention(nn.Module):
    """Attention to the whole sequence, of which each process of *group* has a part."""

    def __init__(self, width, heads, group):
        super().__init__()
        self.heads, self.group = heads, group
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, kv = self.qkv(x).split([x.shape[-1], 2 * x.shape[-1]], dim=-1)
        q, kv = self.split_heads(q), kv.contiguous()
        y, weight = self.attend(q, kv)
        for _ in range(dist.get_world_size(self.group) - 1):
            kv = self.shift(kv)
            part, of_part = self.attend(q, kv)
            both = torch.logaddexp(weight, of_part)
            y = y * (weight - both).exp() + part * (of_part - both).exp()
            weight = both
        return self.out(y.transpose(1, 2).flatten(2))

    def attend(self, q, kv):
        """Attention to these keys and values, and the logarithm of the sum of its weights."""
        k, v = map(self.split_heads, kv.chunk(2, dim=-1))
        scores = q @ k.transpose(-1, -2) / k.shape[-1] ** 0.5
        return scores.softmax(-1) @ v, scores.logsumexp(-1, keepdim=True)

    def shift(self, tensor):
        """Send *tensor* to the next process, and receive that of the one before."""
        received = torch.empty_like(tensor)
        ranks, index = dist.get_process_group_ranks(self.group), dist.get_rank(self.group)
        after, before = ranks[(index + 1) % len(ranks)], ranks[index - 1]
        calls = [
            dist.P2POp(dist.isend, tensor, after, self.group),
            dist.P2POp(dist.irecv, received, before, self.group),
        ]
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        return received

    def split_heads(self, x):
        """One row of positions for each head."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """Attention and a network for each position, each with a residual connection."""

    def __init__(self, width, heads, group):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), RingAttention(width, heads, group)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


def transformer(mesh, layers=4, width=1024, heads=16, length=131072):
    """The model, and the part of a sequence of this length that one process has."""
    group = mesh.get_group("cp")
    model = nn.Sequential(*(Block(width, heads, group) for _ in range(layers)))
    return model, torch.zeros(1, length // mesh["cp"].size(), width)


if __name__ == "__main__":
    run = torchrecorder.plan(transformer, MESH, backward=False, name="Ring attention")
    print(run.summary())
    print(run.render("ring_attention.svg", depth=4))
    print(run.recording.save("ring_attention.json.gz", times=False))  # the gallery draws it

"""Two figures for a paper: one column of 85 mm, and one of 180 mm across the page."""

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import torchrecorder


class SelfAttention(nn.Module):
    """Attention of patches to each other, in several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)
        query, key, value = parts.unbind(2)
        mixed = scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and a perceptron, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = SelfAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))


class PatchNet(nn.Module):
    """A convolutional stem, a transformer over its patches, a classifier."""

    def __init__(self, width: int = 192, depth: int = 12, heads: int = 6) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width // 2, 7, stride=4, padding=3)
        self.bn1 = nn.BatchNorm2d(width // 2)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(width // 2, width, 4, stride=4)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.conv2(self.relu(self.bn1(self.conv1(image))))
        x = self.blocks(x.flatten(2).transpose(1, 2))
        return self.head(self.norm(x).mean(1))


GROUPS = {
    "Stem": ["conv1", "bn1", "relu", "conv2"],
    "MLP": ["blocks.*.fc1", "blocks.*.act", "blocks.*.fc2"],
}
NAMES = {
    "attn": "Self-attention",
    "norm*": "LayerNorm",
    "blocks": "Encoder of 12 blocks",
    "blocks.?": "Block",
    "scaled_dot_product_attention": "SDPA",
    "head": "Classifier",
    "qkv": "Queries, keys, values",
    "out": "Projection",
    "mean": "average",
}
LOOK = {"theme": "print", "fontname": "Helvetica", "group": GROUPS, "rename": NAMES}

if __name__ == "__main__":
    recording = torchrecorder.record(PatchNet().eval(), input_shapes=(1, 3, 224, 224))
    block = recording.render(
        "block.pdf",
        width="85mm",
        height="240mm",
        fontsize=8,
        min_fontsize=6,
        focus="blocks.0",
        depth=2,
        reshapes=False,
        hide="unbind",
        counts=False,
        details=False,
        legend=True,
        **LOOK,
    )
    overview = recording.render(
        "overview.pdf",
        width="180mm",
        min_fontsize=6,
        direction="LR",
        depth=1,
        reshapes=False,
        **LOOK,
    )
    print(block, overview)

"""Attention of PyTorch, whose function consists of others."""

from __future__ import annotations

from torch import nn

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


@case("attention in train and with weights averaged")
def attention() -> Run:
    def forward(self, q, k):
        out, weights = self.attend(q, k, k)
        return out.sum() + weights.sum()

    made = net(forward, attend=nn.MultiheadAttention(8, 2, batch_first=True))
    return Run(made, (leaf(2, 3, 8), leaf(2, 4, 8)))


@case("attention of one tensor that reaches it in two ways", replays=False)
def attention_beside_identity() -> Run:
    def forward(self, x):
        out, weights = self.attend(self.same(x), x, x)
        return out.sum() + weights.sum()

    parts = {"attend": nn.MultiheadAttention(8, 2), "same": nn.Identity()}
    return Run(net(forward, **parts), (leaf(3, 2, 8),))


@case("attention of an alias of the input")
def attention_of_identity() -> Run:
    def forward(self, x):
        x = self.same(x)
        return self.attend(x, x, x, need_weights=False)[0].sum()

    parts = {"attend": nn.MultiheadAttention(8, 2), "same": nn.Identity()}
    return Run(net(forward, **parts), (leaf(3, 2, 8),))


@case(
    "the function of attention, called by the model itself",
    """
    multi_head_attention_forward = multi_head_attention_forward(x, x, x, weight, out)
    sum = sum(multi_head_attention_forward.0)
    return sum
    """,
)
def attention_function() -> Run:
    def forward(self, x):
        return nn.functional.multi_head_attention_forward(
            x, x, x, 8, 2, self.weight, None, None, None, False, 0.0, self.out, None
        )[0].sum()

    return Run(net(forward, weight=parameter(24, 8), out=parameter(8, 8)), (leaf(3, 2, 8),))

"""Weights that are shared, computed from others, or kept in containers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


@case(
    "two modules share one weight",
    """
    embed:
        embedding = embedding(ids, embed.weight)
        return embedding
    head:
        linear = linear(embedding, embed.weight)
        return linear
    return linear
    """,
)
def tied_weights() -> Run:
    embed, head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    head.weight = embed.weight
    made = net(lambda self, ids: self.head(self.embed(ids)), embed=embed, head=head)
    return Run(made, (torch.tensor([[1, 2]]),))


class Symmetric(nn.Module):
    """Mirrors the upper triangle."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).mT


@case(
    "a weight is computed from another by a parametrization",
    """
    fc:
        parametrizations.weight:
            0:
                triu = triu(fc.parametrizations.weight.original)
                triu2 = triu(fc.parametrizations.weight.original)
                mT = mT(triu2)
                add = add(triu, mT)
                return add
            return add
        linear = linear(x, add, fc.bias)
        return linear
    return linear
    """,
)
def parametrization() -> Run:
    fc = nn.Linear(3, 3)
    parametrize.register_parametrization(fc, "weight", Symmetric())
    return Run(net(lambda self, x: self.fc(x), fc=fc), (leaf(2, 3),))


@case(
    "weight norm as a parametrization",
    """
    fc:
        parametrizations.weight:
            0:
                _weight_norm = _weight_norm(fc.parametrizations.weight.original1, fc.parametrizations.weight.original0)
                return _weight_norm
            return _weight_norm
        linear = linear(x, _weight_norm, fc.bias)
        return linear
    return linear
    """,
)
def weight_norm() -> Run:
    fc = parametrizations.weight_norm(nn.Linear(3, 3))
    return Run(net(lambda self, x: self.fc(x), fc=fc), (leaf(2, 3),))


@case(
    "spectral norm: its buffers move in each call in training",
    """
    fc:
        parametrizations.weight:
            0:
                flatten = flatten(fc.parametrizations.weight.original)
                no_grad:
                    mv = mv(fc.parametrizations.weight.original, fc.parametrizations.weight.0._v)
                    normalize! = normalize(mv, fc.parametrizations.weight.0._u)
                    H = H(fc.parametrizations.weight.original)
                    mv2 = mv(H, normalize)
                    normalize2! = normalize(mv2, fc.parametrizations.weight.0._v)
                clone = clone(normalize)
                clone2 = clone(normalize2)
                mv3 = mv(fc.parametrizations.weight.original, clone2)
                vdot = vdot(clone, mv3)
                div = div(fc.parametrizations.weight.original, vdot)
                return div
            return div
        linear = linear(x, div, fc.bias)
        return linear
    return linear
    """,
)
def spectral_norm() -> Run:
    fc = parametrizations.spectral_norm(nn.Linear(3, 3))
    return Run(net(lambda self, x: self.fc(x), fc=fc), (leaf(2, 3),))


@case(
    "spectral norm in the older form, which is a hook",
    """
    fc:
        reshape = reshape(fc.weight_orig)
        no_grad:
            t = t(reshape)
            mv = mv(t, fc.weight_u)
            normalize! = normalize(mv, fc.weight_v)
            mv2 = mv(reshape, normalize)
            normalize2! = normalize(mv2, fc.weight_u)
            clone = clone(normalize2)
            clone2 = clone(normalize)
        mv3 = mv(reshape, clone2)
        dot = dot(clone, mv3)
        div = div(fc.weight_orig, dot)
        linear = linear(x, div, fc.bias)
        return linear
    return linear
    """,
)
def spectral_norm_hook() -> Run:
    fc = nn.utils.spectral_norm(nn.Linear(3, 3))
    return Run(net(lambda self, x: self.fc(x), fc=fc), (leaf(2, 3),))


@case(
    "parameters kept in a ParameterList and a ParameterDict",
    """
    mul = mul(x, weights.0)
    mul2 = mul(mul, weights.1)
    add = add(mul2, named.shift)
    return add
    """,
)
def parameter_containers() -> Run:
    def forward(self, x):
        for each in self.weights:
            x = x * each
        return x + self.named["shift"]

    weights = nn.ParameterList([parameter(3), parameter(3)])
    named = nn.ParameterDict({"shift": parameter(3)})
    return Run(net(forward, weights=weights, named=named), (leaf(2, 3),))

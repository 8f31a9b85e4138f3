"""Tensors of every kind: dtypes, layouts, devices, subclasses."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


@case(
    "whole numbers go in and decide",
    """
    embed:
        embedding = embedding(ids, embed.weight)
        return embedding
    ne = ne(ids)
    unsqueeze = unsqueeze(ne)
    mul = mul(embedding, unsqueeze)
    sum = sum(mul)
    return sum
    """,
)
def whole_numbers() -> Run:
    def forward(self, ids):
        y = self.embed(ids)
        keep = (ids != 0).unsqueeze(-1)
        return (y * keep).sum(1)

    return Run(net(forward, embed=nn.Embedding(5, 3)), (torch.tensor([[0, 1, 4]]),))


@case(
    "truth values",
    """
    logical_and = logical_and(a, b)
    logical_not = logical_not(logical_and)
    any = any(logical_not)
    return logical_not, any
    """,
    backward=False,
)
def truth_values() -> Run:
    def forward(self, a, b):
        y = torch.logical_and(a, b).logical_not()
        return y, y.any()

    return Run(net(forward), (torch.tensor([True, False]), torch.tensor([True, True])))


@case(
    "complex numbers by a Fourier transform",
    """
    fft_rfft = fft_rfft(x)
    mul = mul(fft_rfft, filter)
    fft_irfft = fft_irfft(mul)
    real = real(mul)
    imag = imag(mul)
    sum = sum(real)
    add = add(fft_irfft, sum)
    return add, imag
    """,
)
def complex_numbers() -> Run:
    def forward(self, x):
        y = torch.fft.rfft(x) * self.filter
        back = torch.fft.irfft(y, n=4)
        real, imag = y.real, y.imag
        return back + real.sum(), imag

    made = net(forward, filter=nn.Parameter(torch.randn(3, dtype=torch.complex64)))
    return Run(made, (leaf(2, 4),))


@case(
    "bfloat16 under autocast",
    """
    autocast:
        fc:
            linear = linear(x, fc.weight, fc.bias)
            return linear
    float = float(linear)
    return float
    """,
)
def autocast_bfloat16() -> Run:
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)
        return y.float()

    return Run(net(forward, fc=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "parameters in lower precision, cast on the way",
    """
    to = to(x)
    fc:
        linear = linear(to, fc.weight, fc.bias)
        return linear
    type_as = type_as(linear, x)
    return type_as
    """,
)
def lower_precision() -> Run:
    def forward(self, x):
        return self.fc(x.to(torch.float16)).type_as(x)

    return Run(net(forward, fc=nn.Linear(3, 3).half()), (leaf(2, 3),))


@case(
    "a sparse matrix times a dense one",
    """
    sparse_mm = sparse_mm(adjacency, x)
    to_dense = to_dense(adjacency)
    sum = sum(to_dense)
    mul = mul(sparse_mm, sum)
    return mul
    """,
)
def sparse() -> Run:
    def forward(self, x):
        return torch.sparse.mm(self.adjacency, x) * self.adjacency.to_dense().sum()

    return Run(net(forward, adjacency=torch.eye(3).to_sparse()), (leaf(3, 2),))


@case(
    "a sparse matrix in compressed rows goes in",
    """
    matmul = matmul(a, x)
    mul = mul(matmul)
    return mul
    """,
    backward=False,
)
def sparse_rows() -> Run:
    return Run(net(lambda self, a, x: (a @ x) * 2), (torch.eye(3).to_sparse_csr(), leaf(3, 2)))


@case("a jagged nested tensor is made and used", reruns=False)
def nested_jagged() -> Run:
    def forward(self, a, b):
        both = torch.nested.as_nested_tensor([a, b], layout=torch.jagged)
        return self.fc(both).values().sum(0)

    return Run(net(forward, fc=nn.Linear(3, 3)), (torch.randn(2, 3), torch.randn(4, 3)))


@case(
    "a strided nested tensor goes in",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    to_padded_tensor = to_padded_tensor(linear)
    return to_padded_tensor
    """,
    backward=False,
)
def nested_strided() -> Run:
    made = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)])
    return Run(net(lambda self, x: self.fc(x).to_padded_tensor(0.0), fc=nn.Linear(3, 3)), (made,))


@case(
    "a dynamically quantized model",
    """
    0:
        linear_dynamic = linear_dynamic(input)
        to = to(linear_dynamic)
        return linear_dynamic
    1:
        relu = relu(linear_dynamic)
        return relu
    2:
        linear_dynamic2 = linear_dynamic(relu)
        to2 = to(linear_dynamic2)
        return linear_dynamic2
    return linear_dynamic2
    """,
    backward=False,
)
def quantized() -> Run:
    made = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    from torch.ao.quantization import quantize_dynamic

    return Run(quantize_dynamic(made, {nn.Linear}, dtype=torch.qint8), (torch.randn(2, 3),))


@case(
    "a quantized tensor is made and read back",
    """
    quantize_per_tensor = quantize_per_tensor(x)
    dequantize = dequantize(quantize_per_tensor)
    int_repr = int_repr(quantize_per_tensor)
    add = add(dequantize, int_repr)
    return add
    """,
    backward=False,
)
def quantized_tensor() -> Run:
    def forward(self, x):
        q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        return q.dequantize() + q.int_repr()

    return Run(net(forward), (torch.randn(2, 3),))


@case(
    "a model on the meta device",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    relu = relu(linear)
    return relu
    """,
    backward=False,
)
def meta() -> Run:
    made = net(lambda self, x: self.fc(x).relu(), fc=nn.Linear(3, 3, device="meta"))
    return Run(made, (torch.randn(2, 3, device="meta"),))


class Marked(torch.Tensor):
    """A user's subclass, which does nothing but stay."""


class Unit(torch.Tensor):
    """A user's subclass with rules of its own: it carries a unit."""

    unit = "m"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            made = made.as_subclass(cls)
            made.unit = "m"
        return made


@case(
    "a user's subclass without rules",
    """
    mul = mul(x, w)
    sum = sum(mul)
    return sum
    """,
)
def plain_subclass() -> Run:
    made = torch.randn(2, 3).as_subclass(Marked)
    return Run(net(lambda self, x: (x * self.w).sum(), w=parameter(3)), (made,))


@case(
    "a user's subclass with __torch_function__",
    """
    mul = mul(x, w)
    sum = sum(mul)
    return sum
    """,
)
def function_subclass() -> Run:
    made = torch.randn(2, 3).as_subclass(Unit)
    return Run(net(lambda self, x: (x * self.w).sum(), w=parameter(3)), (made,))


class Wrapped(torch.Tensor):
    """A user's subclass with __torch_dispatch__: a box around another tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Wrapped({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        bare = torch.utils._pytree.tree_map_only(Wrapped, lambda each: each.inner, (args, kwargs))
        made = func(*bare[0], **(bare[1] or {}))
        return torch.utils._pytree.tree_map_only(torch.Tensor, Wrapped, made)


@case(
    "a user's subclass with __torch_dispatch__",
    """
    mul = mul(x)
    sum = sum(mul)
    return sum
    """,
    backward=False,
    replays=False,
)
def dispatch_subclass() -> Run:
    return Run(net(lambda self, x: (x * 2).sum()), (Wrapped(torch.randn(2, 3)),))


def _inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.randn(2, 3)


@case(
    "an inference tensor goes in",
    """
    mul = mul(x)
    add = add(mul, w)
    return add
    """,
)
def inference_tensor() -> Run:
    return Run(net(lambda self, x: x * 2 + self.w, w=parameter(3)), (_inference_tensor(),))


@case(
    "scalars and empty tensors",
    """
    mul = mul(x, s)
    getitem = getitem(mul)
    cat = cat(getitem, empty)
    sum = sum(cat)
    return sum
    """,
)
def scalars_and_empties() -> Run:
    def forward(self, x, s, empty):
        return torch.cat([(x * s)[:0], empty]).sum()

    return Run(net(forward), (leaf(2), torch.tensor(2.0), torch.zeros(0)))

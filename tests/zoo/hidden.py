"""Regions that hide what runs in them: compilers, transforms, C++."""

from __future__ import annotations

import inspect

import torch
from torch import nn
from torch.export import _unlift

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


class Small(nn.Module):
    """A layer and an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc(x)) * 2


@case(
    "the root is compiled",
    """
    _orig_mod:
        fc:
            linear = linear(x, _orig_mod.fc.weight, _orig_mod.fc.bias)
            return linear
        tanh = tanh(linear)
        mul = mul(tanh)
        return mul
    return mul
    """,
)
def compile_root() -> Run:
    return Run(torch.compile(Small(), backend="eager"), (leaf(2, 3),))


@case(
    "a child is compiled",
    """
    compiled child:
        _orig_mod:
            fc:
                linear = linear(x, child._orig_mod.fc.weight, child._orig_mod.fc.bias)
                return linear
            tanh = tanh(linear)
            mul = mul(tanh)
            return mul
        return mul
    add = add(mul, x)
    return add
    """,
)
def compile_child() -> Run:
    child = torch.compile(Small(), backend="eager")
    return Run(net(lambda self, x: self.child(x) + x, child=child), (leaf(2, 3),))


@case(
    "a child compiled in place, and a compiled function",
    """
    child:
        fc:
            linear = linear(x, child.fc.weight, child.fc.bias)
            return linear
        tanh = tanh(linear)
        mul = mul(tanh)
        return mul
    sin = sin(mul)
    mul2 = mul(sin)
    return mul2
    """,
)
def compile_function() -> Run:
    child = Small()
    child.compile(backend="eager")

    @torch.compile(backend="eager")
    def double(x):
        return x.sin() * 2

    return Run(net(lambda self, x: double(self.child(x)), child=child), (leaf(2, 3),))


@case(
    "vmap over a function of the module",
    """
    mul = mul(x, w)
    sum = sum(mul)
    add = add(sum)
    return add
    """,
    reruns=False,
)
def vmapped() -> Run:
    def forward(self, x):
        return torch.vmap(lambda row: (row * self.w).sum())(x) + 1

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a gradient by torch.func inside forward",
    """
    mul = mul(x, w)
    pow = pow(mul)
    sum = sum(pow)
    grad = grad(sum, x)
    mul2 = mul(grad)
    return mul2
    """,
)
def func_grad() -> Run:
    def forward(self, x):
        return torch.func.grad(lambda y: (y * self.w).pow(2).sum())(x) * 2

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a directional derivative inside forward",
    """
    _make_dual = _make_dual(x, direction)
    sin = sin(_make_dual)
    mul = mul(sin, w)
    _unpack_dual = _unpack_dual(mul)
    add = add(_unpack_dual.0, _unpack_dual.1)
    return add
    """,
    reruns=False,
)
def func_jvp() -> Run:
    def forward(self, x, direction):
        value, slope = torch.func.jvp(lambda y: y.sin() * self.w, (x,), (direction,))
        return value + slope

    return Run(net(forward, w=parameter(3)), (leaf(2, 3), torch.randn(2, 3)))


@torch.library.custom_op("torchrecorder_zoo::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    """An operator of the user's own."""
    return x * by


@scaled.register_fake
def _(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.empty_like(x)


scaled.register_autograd(
    lambda ctx, grad: (grad * ctx.by, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)


@torch.library.custom_op("torchrecorder_zoo::shift_", mutates_args=("x",))
def shift_(x: torch.Tensor, by: float) -> None:
    """An operator of the user's own that writes its argument."""
    x.add_(by)


@case(
    "operators of the user's own, one of which writes",
    """
    mul = mul(x)
    scaled = scaled(mul)
    detach = detach(scaled)
    clone = clone(detach)
    shift_! = shift_(clone)
    add = add(scaled, shift_)
    return add
    """,
)
def library_ops() -> Run:
    def forward(self, x):
        y = scaled(x * 2, 3.0)
        z = y.detach().clone()
        shift_(z, 1.0)
        return y + z

    return Run(net(forward), (leaf(2, 3),))


@case(
    "operators called by their ATen names",
    """
    mul = mul(x, w)
    add_! = add_(mul)
    relu = relu(add_)
    return relu
    """,
)
def aten_calls() -> Run:
    def forward(self, x):
        y = torch.ops.aten.mul.Tensor(x, self.w)
        torch.ops.aten.add_.Scalar(y, 1)
        return torch.ops.aten.relu(y)

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "torch.cond, run eagerly",
    """
    sum = sum(x)
    gt = gt(sum)
    cond = cond(gt, x)
    add = add(cond)
    return add
    """,
    replays=False,
)
def conditional() -> Run:
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,)) + 1

    return Run(net(forward), (torch.randn(2, 3),), None)


_GUARDS = """
        _guards_fn:
            return""" if "_guards_fn" in inspect.getsource(_unlift) else ""
"""The module in which an exported program checks its inputs; older versions make none."""


@case(
    "an exported program as a child",
    f"""
    child:{_GUARDS}
        linear = linear(x, child.fc.weight, child.fc.bias)
        tanh = tanh(linear)
        mul = mul(tanh)
        return mul
    add = add(mul, x)
    return add
    """,
)
def exported() -> Run:
    child = torch.export.export(Small(), (torch.randn(2, 3),)).module()
    return Run(net(lambda self, x: self.child(x) + x, child=child), (leaf(2, 3),))


@case(
    "a symbolically traced child",
    """
    child:
        fc:
            linear = linear(x, child.fc.weight, child.fc.bias)
            return linear
        tanh = tanh(linear)
        mul = mul(tanh)
        return mul
    add = add(mul, x)
    return add
    """,
)
def fx_traced() -> Run:
    child = torch.fx.symbolic_trace(Small())
    return Run(net(lambda self, x: self.child(x) + x, child=child), (leaf(2, 3),))


@case(
    "packed sequences through an LSTM",
    """
    to = to(lengths)
    pack_padded_sequence = pack_padded_sequence(x, lengths)
    lstm:
        getitem = getitem(pack_padded_sequence.1)
        zeros = zeros(getitem)
        zeros2 = zeros(getitem)
        lstm = lstm(pack_padded_sequence.0, pack_padded_sequence.1, zeros, zeros2, lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
        pass = pass(pack_padded_sequence.1)
        return lstm.0, pass, lstm.1, lstm.2
    pad_packed_sequence = pad_packed_sequence(lstm.0, pass)
    sum = sum(pad_packed_sequence.0)
    getitem2 = getitem(lstm.1)
    add = add(sum, getitem2)
    getitem3 = getitem(lstm.2)
    add2 = add(add, getitem3)
    return add2
    """,
)
def packed_sequence() -> Run:
    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        out, (h, c) = self.lstm(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return padded.sum(1) + h[-1] + c[-1]

    made = net(forward, lstm=nn.LSTM(3, 4, batch_first=True))
    return Run(made, (leaf(2, 5, 3), torch.tensor([5, 3])))


@case(
    "the fast path of a transformer encoder in eval",
    """
    layers.0:
        _transformer_encoder_layer_fwd = _transformer_encoder_layer_fwd(src, layers.0.self_attn.in_proj_weight, layers.0.self_attn.in_proj_bias, layers.0.self_attn.out_proj.weight, layers.0.self_attn.out_proj.bias, layers.0.norm1.weight, layers.0.norm1.bias, layers.0.norm2.weight, layers.0.norm2.bias, layers.0.linear1.weight, layers.0.linear1.bias, layers.0.linear2.weight, layers.0.linear2.bias)
        return _transformer_encoder_layer_fwd
    layers.1:
        _transformer_encoder_layer_fwd2 = _transformer_encoder_layer_fwd(_transformer_encoder_layer_fwd, layers.1.self_attn.in_proj_weight, layers.1.self_attn.in_proj_bias, layers.1.self_attn.out_proj.weight, layers.1.self_attn.out_proj.bias, layers.1.norm1.weight, layers.1.norm1.bias, layers.1.norm2.weight, layers.1.norm2.bias, layers.1.linear1.weight, layers.1.linear1.bias, layers.1.linear2.weight, layers.1.linear2.bias)
        return _transformer_encoder_layer_fwd2
    return _transformer_encoder_layer_fwd2
    """,
    backward=False,
    replays=False,
)
def encoder_fast_path() -> Run:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    made = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    return Run(made.requires_grad_(False), (torch.randn(2, 4, 8),))


@case(
    "the nested-tensor fast path of a transformer encoder with padding",
    """
    zeros_like = zeros_like(src_key_padding_mask)
    masked_fill_! = masked_fill_(zeros_like, src_key_padding_mask)
    logical_not = logical_not(masked_fill_)
    logical_not2 = logical_not(masked_fill_)
    _nested_tensor_from_mask = _nested_tensor_from_mask(src, logical_not2)
    layers.0:
        _transformer_encoder_layer_fwd = _transformer_encoder_layer_fwd(_nested_tensor_from_mask, layers.0.self_attn.in_proj_weight, layers.0.self_attn.in_proj_bias, layers.0.self_attn.out_proj.weight, layers.0.self_attn.out_proj.bias, layers.0.norm1.weight, layers.0.norm1.bias, layers.0.norm2.weight, layers.0.norm2.bias, layers.0.linear1.weight, layers.0.linear1.bias, layers.0.linear2.weight, layers.0.linear2.bias)
        return _transformer_encoder_layer_fwd
    layers.1:
        _transformer_encoder_layer_fwd2 = _transformer_encoder_layer_fwd(_transformer_encoder_layer_fwd, layers.1.self_attn.in_proj_weight, layers.1.self_attn.in_proj_bias, layers.1.self_attn.out_proj.weight, layers.1.self_attn.out_proj.bias, layers.1.norm1.weight, layers.1.norm1.bias, layers.1.norm2.weight, layers.1.norm2.bias, layers.1.linear1.weight, layers.1.linear1.bias, layers.1.linear2.weight, layers.1.linear2.bias)
        return _transformer_encoder_layer_fwd2
    to_padded_tensor = to_padded_tensor(_transformer_encoder_layer_fwd2)
    return to_padded_tensor
    """,
    backward=False,
    replays=False,
)
def encoder_nested_path() -> Run:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    made = nn.TransformerEncoder(layer, 2).eval().requires_grad_(False)
    mask = torch.tensor([[False] * 4, [False, False, True, True]])
    return Run(made, (torch.randn(2, 4, 8),), {"src_key_padding_mask": mask})


@case(
    "work done in a thread of the user",
    """
    Linear = Linear?(x, fc.weight, fc.bias)
    add = add(Linear, x)
    return add
    """,
    modules=False,
)
def threaded() -> Run:
    from threading import Thread

    def forward(self, x):
        kept = []
        worker = Thread(target=lambda: kept.append(self.fc(x)))
        worker.start()
        worker.join()
        return kept[0] + x

    return Run(net(forward, fc=nn.Linear(3, 3)), (leaf(2, 3),))

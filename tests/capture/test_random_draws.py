"""Operations that draw random numbers, and calls of the same functions that draw none."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from torch.overrides import TorchFunctionMode, get_testing_overrides

import torchrecorder
from torchrecorder.capture.modes.op_schema import facts_of

X, IMAGE = torch.linspace(-1, 1, 32).reshape(4, 8), torch.ones(1, 2, 4, 8)
OWN = torch.Generator().manual_seed(1)
ATTENTION = nn.MultiheadAttention(8, 2, dropout=0.3)


class States(TorchFunctionMode):
    """The names of the functions during which the state of a generator changed."""

    def __init__(self) -> None:
        super().__init__()
        self.drew: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        generators = torch.default_generator, OWN
        before = [generator.get_state() for generator in generators]
        made = func(*args, **(kwargs or {}))
        pairs = zip(before, generators)
        if any(not torch.equal(state, generator.get_state()) for state, generator in pairs):
            self.drew.append(func.__name__)
        return made


def recurrent(kind: Any, layers: int, dropout: float, train: bool = True) -> Callable[[], Any]:
    model = kind(8, 8, layers).train(train)
    model.dropout = dropout  # which warns in ``__init__`` if there is one layer
    return lambda: model(X)


def attend(training: bool, dropout: float = 0.3) -> Callable[[], Any]:
    """The function of attention outside its module, which is one op."""
    weights = ATTENTION.in_proj_weight, ATTENTION.in_proj_bias
    out = ATTENTION.out_proj.weight, ATTENTION.out_proj.bias
    return lambda: F.multi_head_attention_forward(
        X, X, X, 8, 2, *weights, None, None, False, dropout, *out, training=training
    )


def packed() -> Any:
    return nn.GRU(8, 8, 2, dropout=0.5)(pack_padded_sequence(torch.ones(4, 2, 8), [4, 3]))


CALLS: dict[str, Callable[[], Any]] = {
    "dropout": lambda: F.dropout(X),
    "dropout, evaluation": lambda: F.dropout(X, 0.5, False),
    "dropout, p=0": lambda: F.dropout(X, 0.0),
    "dropout, integer": lambda: F.dropout(X, 0),
    "dropout, p=1": lambda: F.dropout(X, 1.0),
    "dropout, in place": lambda: F.dropout(X.clone(), 0.5, True, True),
    "dropout, no elements": lambda: F.dropout(X[:0]),
    "dropout, module": lambda: nn.Dropout(0.2)(X),
    "dropout, module in evaluation mode": lambda: nn.Dropout(0.2).eval()(X),
    "torch.dropout": lambda: torch.dropout(X, 0.5, True),
    "torch.dropout, evaluation": lambda: torch.dropout(X, p=0.5, train=False),
    "dropout1d": lambda: F.dropout1d(X),
    "dropout2d": lambda: F.dropout2d(IMAGE),
    "dropout3d": lambda: F.dropout3d(IMAGE[None], training=False),
    "feature_dropout": lambda: torch.feature_dropout(IMAGE, 0.5, True),
    "feature_dropout, p=1": lambda: torch.feature_dropout(IMAGE, 1.0, True),
    "alpha_dropout": lambda: F.alpha_dropout(X, 0.5, True),
    "alpha_dropout, default": lambda: F.alpha_dropout(X),
    "feature_alpha_dropout": lambda: F.feature_alpha_dropout(IMAGE, 0.5, True),
    "feature_alpha_dropout, default": lambda: F.feature_alpha_dropout(IMAGE),
    "native_dropout": lambda: torch.native_dropout(X, 0.5, True),
    "native_dropout, p=0": lambda: torch.native_dropout(X, 0.0, True),
    "native_dropout, evaluation": lambda: torch.native_dropout(X, 0.5, False),
    "attention": lambda: F.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE),
    "attention, dropout": lambda: F.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE, None, 0.1),
    "attention, p=0": lambda: F.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE, dropout_p=0.0),
    "attention, p=1": lambda: F.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE, dropout_p=1.0),
    "attention, function": attend(True),
    "attention, function in evaluation mode": attend(False),
    "attention, function with p=0": attend(True, 0.0),
    "LSTM": recurrent(nn.LSTM, 2, 0.5),
    "LSTM, evaluation": recurrent(nn.LSTM, 2, 0.5, False),
    "LSTM, p=0": recurrent(nn.LSTM, 2, 0.0),
    "LSTM, p=1": recurrent(nn.LSTM, 2, 1.0),
    "LSTM, one layer": recurrent(nn.LSTM, 1, 0.5),
    "GRU": recurrent(nn.GRU, 2, 0.5),
    "RNN": recurrent(nn.RNN, 2, 0.5),
    "GRU, packed": packed,
    "bernoulli": lambda: torch.bernoulli(IMAGE),
    "bernoulli, p=0": lambda: torch.bernoulli(IMAGE, 0.0),
    "bernoulli_": lambda: X.clone().bernoulli_(1.0),
    "normal_": lambda: X.clone().normal_(),
    "normal_, std=0": lambda: X.clone().normal_(0, 0.0),
    "normal": lambda: torch.normal(X, 1.0),
    "uniform_": lambda: X.clone().uniform_(0, 0),
    "exponential_": lambda: X.clone().exponential_(),
    "geometric_": lambda: X.clone().geometric_(0.5),
    "random_": lambda: X.clone().random_(3, generator=OWN),
    "rand": lambda: torch.rand(3),
    "rand, generator": lambda: torch.rand(3, generator=OWN),
    "rand, no elements": lambda: torch.rand(0),
    "randint": lambda: torch.randint(0, 1, (3,)),
    "rand_like": lambda: torch.rand_like(X),
    "randperm": lambda: torch.randperm(5, generator=OWN),
    "randperm, one": lambda: torch.randperm(1),
    "multinomial": lambda: torch.multinomial(X.exp(), 2),
    "multinomial, generator": lambda: X.exp().multinomial(1, generator=OWN),
    "poisson": lambda: torch.poisson(X.exp()),
    "rrelu": lambda: F.rrelu(X, training=True),
    "rrelu, default": lambda: F.rrelu(X),
    "rrelu, module": lambda: nn.RReLU()(X),
    "rrelu, module in evaluation mode": lambda: nn.RReLU().eval()(X),
    "gumbel_softmax": lambda: F.gumbel_softmax(X),
    "fractional_max_pool2d": lambda: F.fractional_max_pool2d(IMAGE, 2, output_size=2),
    "svd_lowrank": lambda: torch.svd_lowrank(X, 2),
    "lobpcg": lambda: torch.lobpcg(torch.eye(9), 1),
    "lobpcg, start": lambda: torch.lobpcg(torch.eye(9), X=torch.ones(9, 1)),
    "distribution": lambda: torch.distributions.Dirichlet(X.exp()).sample(),
    "initialization": lambda: nn.init.kaiming_uniform_(X.clone()),
    "construction": lambda: nn.Linear(2, 2),
    "vmap": lambda: torch.func.vmap(F.dropout, randomness="different")(X),
    "operator": lambda: torch.ops.aten.bernoulli(IMAGE),
    "overload": lambda: torch.ops.aten.native_dropout.default(X, 0.5, True),
    "no random function": lambda: nn.BatchNorm1d(8, affine=False)(X).softmax(-1),
}


def drawing(recording: torchrecorder.Recording) -> list[str]:
    """The names of the operations that draw random numbers."""
    return [op.name for op in recording.ops.values() if op.random]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_random_if_a_generator_changes(name: str) -> None:
    """Not if its arguments switch the draw off, or if its result has no elements."""
    with States() as states:
        CALLS[name]()
    with torchrecorder.Recorder() as recorder:
        CALLS[name]()
    drew = [each.removesuffix(".default") for each in states.drew]
    assert drawing(recorder.recording) == drew


@pytest.mark.parametrize("train, names", [(True, ["dropout", "dropout"]), (False, [])])
def test_attention_draws_inside(train: bool, names: list[str]) -> None:
    """The function that it consists of, not the module."""
    model = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 8, dropout=0.1)).train(train)
    found = drawing(torchrecorder.record(model, torch.ones(2, 3, 8)))
    assert [name for name in found if name == "dropout"][:2] == names
    assert ("scaled_dot_product_attention" in found) == train


def test_operators_of_scripts() -> None:
    """Which are recorded where they are dispatched."""
    for train in (True, False):
        script = torch.jit.trace(nn.Dropout(0.5).train(train), X, check_trace=False)
        recording = torchrecorder.record(script, X)
        assert bool(drawing(recording)) == train


def test_custom_operators() -> None:
    """One that its library tags can draw."""
    library = torch.library.Library("torchrecorder_random", "FRAGMENT")
    tags = (torch.Tag.nondeterministic_seeded,)
    library.define("noise(Tensor x, bool training) -> Tensor", tags=tags)
    library.impl("noise", lambda x, training: x + torch.rand_like(x), "CPU")
    noise = torch.ops.torchrecorder_random.noise
    assert drawing(torchrecorder.record(lambda x: noise(x, True), X)) == ["noise"]
    assert drawing(torchrecorder.record(lambda x: noise(x, False), X)) == []


def test_fake_tensors() -> None:
    """What would be drawn, though nothing is."""
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.0))
    assert drawing(torchrecorder.record(model, X, fake=True)) == ["dropout"]


def test_a_call_that_fails_is_not_random() -> None:
    """It has no result."""
    with pytest.raises(RuntimeError) as raised:
        torchrecorder.record(lambda x: torch.multinomial(x, 2), X)
    recording = torchrecorder.recording_of(raised.value)
    assert recording is not None and recording.ops["o0"].failed and not recording.ops["o0"].random


def names_in(func: FunctionType, depth: int = 3) -> set[str]:
    """The names in the code of *func*, and of the functions of PyTorch that it calls."""
    names = set(func.__code__.co_names)
    for name in [*names] if depth else ():
        called = func.__globals__.get(name)
        if isinstance(called, FunctionType) and called.__module__ != "torch.overrides":
            names |= names_in(called, depth - 1)
    return names


def test_all_functions_in_python_that_draw_are_known() -> None:
    """Their code has the name of an operator with the tag; and overloads of one operator agree."""
    tag, tagged = torch.Tag.nondeterministic_seeded, set[str]()
    for name in dir(torch.ops.aten) + dir(torch):
        operator = getattr(torch.ops.aten, name, None)
        if isinstance(operator, torch._ops.OpOverloadPacket):
            found = {tag in getattr(operator, each).tags for each in operator.overloads()}
            assert len(found) == 1, name
            tagged |= {name} if found == {True} else set()
    assert {"dropout", "rand", "lstm"} <= tagged
    for func in get_testing_overrides():
        if isinstance(func, FunctionType) and names_in(func) & tagged:
            assert facts_of(func).random_switches is not None, func

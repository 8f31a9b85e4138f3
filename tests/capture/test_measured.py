"""What is measured on request: statistics, kept tensors, FLOPs, replay, who is running."""

from __future__ import annotations

import contextlib
import math
import time

import pytest
import torch
from torch.distributed._tools.mod_tracker import ModTracker
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count

import torchrecorder as tr
from torchrecorder.capture.internals.table import OPERATOR_MODES
from torchrecorder.errors import InvalidArgument, NotKept, NotThere


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 3), torch.nn.ReLU(inplace=True), torch.nn.Linear(3, 2)
    )


def of(recording, name):
    """The statistics of the one value that the one op of this name made."""
    (op,) = (each for each in recording.ops.values() if each.name == name)
    (found,) = (each for each in recording.statistics if each.node in op.outputs)
    return found


def test_statistics_are_those_of_the_numbers():
    """Mean, deviation, range, norm, zeros, as torch computes them."""
    with tr.Recorder(stats=True) as recorder:
        y = torch.tensor([-1.0, 0.0, 2.0, 5.0]).relu()
    found = of(recorder.recording, "relu")
    assert (found.count, found.zeros, found.nans, found.infs) == (4, 2, 0, 0)
    assert (found.low, found.high) == (0, 5)
    wide = y.double()
    assert found.mean == wide.mean() and found.norm == wide.norm()
    assert found.std == pytest.approx(wide.std(correction=0).item())


def test_what_is_not_finite_is_counted_and_left_out():
    """NaN and infinities do not spoil the other numbers."""
    with tr.Recorder(stats=True) as recorder:
        torch.tensor([1.0, 0.0, -1.0, 4.0]).log()
    found = of(recorder.recording, "log")
    assert (found.nans, found.infs) == (1, 1)
    assert found.high == pytest.approx(math.log(4)) and found.low == 0


def test_what_is_not_finite_shows_in_which_pass():
    """A finite root whose gradient is not, in figures and tables."""
    x = torch.zeros(3, requires_grad=True)
    with tr.Recorder(stats=True) as recorder:
        ((x * 1).sqrt() * 0).sum().backward()
    figure = tr.figure(recorder.recording, color_by="not_finite")
    said = [text.text for shape in figure.shapes for text in shape.label]
    assert "NaN, Inf 3 backward" in said
    assert "3 backward" in recorder.recording.summary(columns=["not_finite"])


def test_statistics_of_chosen_scopes_only():
    """A list of scopes limits what is looked at, in both directions."""
    model = mlp()
    with tr.Recorder(model, stats=["2"]) as recorder:
        model(torch.ones(5, 4)).sum().backward()
    recording = recorder.recording
    scopes = {recording.scopes[recording.ops[recording.values[each.node].producer].scope].path
              for each in recording.statistics if each.run < 0}
    assert scopes == {"2"}
    assert {recording.grad_nodes[each.node].name for each in recording.statistics
            if each.run == 0} == {"AddmmBackward0", "TBackward0", "AccumulateGrad"}


def test_statistics_draw_no_random_number_and_meet_no_mode():
    """The user's dispatch modes do not hear the arithmetic."""
    heard = []

    class Hears(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            heard.append(str(func))
            return func(*args, **(kwargs or {}))

    def run(**options):
        heard.clear()
        model = mlp()
        x = torch.ones(5, 4)
        with Hears(), tr.Recorder(model, **options):
            model(x).sum().backward()
        return list(heard)

    assert run(stats=True) == run()


def test_flops_are_those_of_the_flop_counter():
    """Forward and backward, also where PyTorch composes ops itself."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 8),
        torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0),
    )
    x = torch.rand(2, 3, 8, 8)
    with sdpa_kernel(SDPBackend.MATH):  # the counter has no formula for the kernel of CPUs
        with FlopCounterMode(display=False) as counter:
            output = model(x)
            forward = counter.get_total_flops()
            output.sum().backward()
        recording = tr.record(model, x, backward=True, flops=True)
    assert recording.annotations["flops"].total() == forward > 0
    assert recording.annotations["backward_flops"].total() == counter.get_total_flops() - forward
    assert recording.top("flops", 1)[0].name in ("2", "3.self_attn", "3.linear1", "0")


@pytest.mark.parametrize("width", [8, 4])
def test_flops_of_fused_attention_on_a_cpu(width):
    """Those of its products, and in backward those of PyTorch's formula for GPUs."""
    query, key, value = (
        torch.rand(2, 3, length, wide, requires_grad=True)
        for length, wide in ((5, 8), (7, 8), (7, width))
    )

    def attend(backend):
        with sdpa_kernel(backend):
            result = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return result

    with FlopCounterMode(display=False) as counter:
        attend(SDPBackend.MATH)
    with tr.Recorder(flops=True) as recorder:
        result = attend([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
        result.sum().backward()
    recording = recorder.recording
    assert recording.annotations["flops"].total() == counter.get_total_flops() > 0
    names = {node.name for node in recording.grad_nodes.values()}
    if "ScaledDotProductFlashAttentionForCpuBackward0" in names:
        shapes = [item.shape for item in (result, query, key, value)]
        backward = recording.annotations["backward_flops"].total()
        assert backward == sdpa_backward_flop_count(*shapes)
    else:
        assert width != 8  # the fused kernel takes heads of one width alone


def test_flops_without_gradients():
    """Inference mode hides nothing."""
    model = mlp()
    with torch.inference_mode():
        recording = tr.record(model, torch.ones(5, 4), flops=True)
    assert recording.annotations["flops"].total() == 2 * 5 * (4 * 3 + 3 * 2)


def test_flops_of_the_branch_that_is_taken():
    """PyTorch's own counter runs both branches of a condition, and gives what the first gives."""
    left, right, x = torch.ones(3, 2), torch.ones(3, 5), torch.ones(4, 3)
    for sign, columns in ((1, 2), (-1, 5)):
        with tr.Recorder(flops=True) as recorder:
            found = torch.cond(
                (sign * x).sum() > 0,
                lambda x: (x @ left).sum(), lambda x: (x @ right).sum() * 2, (x,),
            )
        assert float(found) == {2: 24, 5: 120}[columns]
        flops = recorder.recording.annotations["flops"].total()
        assert flops == (2 * 4 * 3 * columns if OPERATOR_MODES.present else 0)


@pytest.mark.usefixtures("strict_but_quiet")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_ragged_tensors_are_measured(layout):
    """They have kernels of their own, which are not composed of others, and statistics."""
    linear = torch.nn.Linear(3, 2)
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    recording = tr.record(linear, (x,), flops=True, stats=True)
    assert of(recording, "linear").count == 12
    if layout is torch.jagged:
        assert recording.annotations["flops"].total() == 2 * 6 * 3 * 2


@pytest.mark.parametrize("function", ["silu", "mish"])
def test_flops_leave_gradients_alone(function):
    """These have kernels of their own backward, although PyTorch knows what to compose."""
    given = torch.randn(3, 40), torch.randn(3, 40)
    found = []
    for counted in (None, tr.Recorder(flops=True)):
        x = given[0].clone().requires_grad_()
        with counted or contextlib.nullcontext():
            getattr(torch.nn.functional, function)(x).backward(given[1])
        found.append(x.grad)
    assert torch.equal(*found)


def test_flops_leave_inference_alone():
    """What is composed there is composed as PyTorch does it, not as its compiler would."""
    x = torch.randn(1, 3, 17, 19)
    wanted = torch.nn.functional.interpolate(x, scale_factor=1.7, mode="bilinear")
    with torch.inference_mode(), tr.Recorder(flops=True):
        found = torch.nn.functional.interpolate(x, scale_factor=1.7, mode="bilinear")
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_ragged_tensors_have_as_many_bytes_as_elements(layout):
    """A length that differs from row to row is -1 in the shape, and not a factor."""
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout)
    recording = tr.record(torch.neg, (x,))
    assert [value.bytes for value in recording.values.values()] == [72, 72]


def test_replay_gives_the_same_gradients_again():
    """A node run alone on what it was given gives what it gave."""
    model, x = mlp(), torch.ones(5, 4)
    recording = tr.record(model, x, backward=True, replay=True, keep="1")
    (last,) = (
        each.id for each in recording.grad_nodes.values()
        if each.name == "AddmmBackward0" and each.scope == recording.scopes["s3"].id
    )
    _, gradient, _ = recording.replay(last)
    assert torch.equal(gradient, recording.gradients["1"])
    (given,) = recording.given(last)
    assert torch.equal(given, torch.ones(5, 2))
    assert torch.equal(recording.replay(last, (2 * given,))[1], 2 * gradient)
    with pytest.raises(InvalidArgument, match="takes 1 gradient, not 2"):
        recording.replay(last, (given, given))
    with pytest.raises(NotThere, match="no grad node has the id 'o1'"):
        recording.given("o1")


def test_replay_of_a_node_that_failed():
    """The exception comes again, out of the node alone."""

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError(f"shape {tuple(gradient.shape)}")

    with pytest.raises(ValueError) as raised:
        with tr.Recorder(replay=True):
            Fails.apply(torch.ones(3, requires_grad=True)).sum().backward()
    recording = tr.recording_of(raised.value)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        recording.replay(recording.run.failure.grad)


def test_replay_raises_when_what_was_saved_is_gone():
    """After a pass that freed the graph, the message says how to keep it."""
    with tr.Recorder(replay=True) as recorder:
        torch.ones(3, requires_grad=True).exp().sum().backward()
    recording = recorder.recording
    (node,) = (each.id for each in recording.grad_nodes.values() if each.name == "ExpBackward0")
    with pytest.raises(NotKept, match="retain_graph=True"):
        recording.replay(node)


def test_who_is_running_forward_and_backward():
    """In the forward and the backward of each op the right modules are named."""
    model = torch.nn.Sequential(mlp(), torch.nn.Linear(2, 2))
    seen = []

    def look(place):
        seen.append((place, recorder.scopes, recorder.is_backward))

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            look("forward")
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            look("backward")
            return gradient

    class Layer(torch.nn.Module):
        def forward(self, x):
            return Looks.apply(x)

    model[0].append(Layer())
    recorder = tr.Recorder(model)
    with recorder:
        output = model(torch.ones(5, 4))
        output.register_hook(lambda gradient: look("hook"))
        look("between")
        output.sum().backward()
    inside = ("Sequential", "0", "0.3")
    assert seen == [
        ("forward", inside, False),
        ("between", (), False),
        ("hook", ("Sequential", "1"), True),
        ("backward", inside, True),
    ]
    assert recorder.scopes == () and not recorder.is_backward


class Twice(torch.nn.Module):
    """Calls one layer twice, the second time on a tensor that needs no gradient."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.last = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.layer(x) + self.layer(x.detach()))


def test_side_by_side_with_mod_tracker():
    """Forward both agree; backward, ours names the module of each node and no other."""
    model, tracker = Twice(), ModTracker()
    pairs = []
    recorder = tr.Recorder(model)

    def note(*_):
        theirs = {each.partition(".")[2] for each in tracker.parents} - {""}
        ours = {each for each in recorder.scopes if each != "Twice"}
        pairs.append((recorder.is_backward, tracker.is_bw, ours, theirs))

    class Notes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.addmm.default or func is torch.ops.aten.mm.default:
                note()
            return func(*args, **(kwargs or {}))

    with recorder, tracker, Notes():
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
    forward = [(ours, theirs) for bw, _, ours, theirs in pairs if not bw]
    backward = [ours for bw, _, ours, _ in pairs if bw]
    assert all(bw == their_bw for bw, their_bw, _, _ in pairs)
    assert forward == [({"layer"}, {"layer"})] * 2 + [({"last"}, {"last"})]
    assert backward == [{"last"}] * 2 + [{"layer"}] * 3


def test_repeats_give_medians_of_the_same_run():
    """Structure is that of one run; random state and buffers are as before."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout())
    state, mean = torch.get_rng_state(), model[1].running_mean.clone()
    recording = tr.record(model, torch.ones(3, 4), backward=True, repeat=3)
    once = tr.record(model, torch.ones(3, 4), backward=True)
    assert [op.name for op in recording.ops.values()] == [op.name for op in once.ops.values()]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model[1].running_mean, mean)
    assert recording.run.notes == ()


def test_repeats_have_times_of_the_timed_runs():
    """Not of the one before them, nor of the one that is recorded."""
    calls = []

    def model(x):
        calls.append(x)
        if len(calls) in (1, 5):
            time.sleep(0.2)
        return x + 1

    assert tr.record(model, torch.ones(2), repeat=3).run.seconds < 0.2 and len(calls) == 5


@pytest.mark.parametrize("options", [{"repeat": 0}, {"repeat": 2.5}, {"warmup": -1}])
def test_impossible_numbers_of_runs_are_refused(options):
    """The message says what is possible."""
    with pytest.raises(InvalidArgument, match="number of runs"):
        tr.record(mlp(), torch.ones(1, 4), **options)


def test_the_first_bad_number_is_named():
    """Forward by op and line, backward by grad node and op."""
    from torchrecorder.annotations.nan_origin import describe, first_bad

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4, bias=False)

        def forward(self, x):
            return (self.layer(x) * 0).sqrt().sum()

    recording = tr.record(Model(), torch.ones(1, 4), backward=True, stats=True)
    (found,) = first_bad(recording)
    assert recording.grad_nodes[found.node].name == "SqrtBackward0" and found.infs == 4
    (said,) = describe(recording)
    assert "SqrtBackward0 of sqrt() in Model at test_measured.py" in said.replace(
        "tests/capture/", "")
    assert "first NaN or Inf" in recording.summary()

"""Bytes saved for backward by many functions, whatever else is measured beside them: they are those
of hooks on saved tensors around the plain run."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from tests.capture.test_saved import packed_bytes
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.testing.inert import assert_inert

pytestmark = pytest.mark.skipif(
    not SAVED_TENSORS.present, reason="PyTorch does not show saved tensors"
)


class SavesInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


class SavesOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return ctx.saved_tensors[0] * gradient


class SavesOutputs(torch.autograd.Function):
    """In the style with `setup_context`, and with more than one output."""

    @staticmethod
    def forward(x):
        return x.exp(), x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, first, second):
        return first + second


class SavesBetween(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        places = x.argmax(1)
        ctx.save_for_backward(places, x.exp())
        return x.amax(1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient[:, None].expand(4, 6)


class WritesInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x.exp_())
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def nested(z, *, deep=False):
    """A checkpoint in a checkpoint, which drops the inputs of the inner one, and computes them
    again."""

    def inner(t):
        return checkpoint(lambda u: u.sin().exp(), t.cos(), use_reentrant=False)

    def outer(t):
        found = inner(inner(t * 2))
        return checkpoint(inner, found, use_reentrant=False) if deep else found

    return checkpoint(outer, z * 3, use_reentrant=False)


def writes_rows(z):
    rows = z.clone()
    rows[1:].sigmoid_()
    return rows


ROWS, PLACES = torch.rand(4, 6), torch.tensor([3, 1, 0, 2])
FUNCTIONS = {
    "exp": lambda z: z.exp(),
    "mul": lambda z: z * z,
    "mul other": lambda z: z * ROWS,
    "mul number": lambda z: z * 3,
    "div": lambda z: 1 / z,
    "pow": lambda z: z**2.5,
    "sum": lambda z: z.sum(),
    "std": lambda z: z.std(0),
    "prod": lambda z: z.prod(1),
    "norm": lambda z: z.norm(),
    "softmax": lambda z: z.softmax(1),
    "logsumexp": lambda z: z.logsumexp(0),
    "matmul": lambda z: z @ z.t(),
    "linear": lambda z: F.linear(z, z, z[:, 0]),
    "addcmul": lambda z: torch.addcmul(z, z, ROWS),
    "where": lambda z: torch.where(z > 0, z, 0.0),
    "clamp": lambda z: z.clamp(0, 1),
    "gather": lambda z: z.gather(1, PLACES[:, None]),
    "index": lambda z: z[PLACES],
    "embedding": lambda z: F.embedding(PLACES, z),
    "cross entropy": lambda z: F.cross_entropy(z, PLACES, label_smoothing=0.1),
    "dropout": lambda z: F.dropout(z, 0.5),
    "layer norm": lambda z: F.layer_norm(z, (6,)),
    "batch norm": lambda z: F.batch_norm(z, None, None, training=True),
    "conv": lambda z: F.conv1d(z[None], torch.ones(2, 4, 3)),
    "max pool": lambda z: F.max_pool2d(z[None, None], 2),
    "attention": lambda z: F.scaled_dot_product_attention(z[None], z[None], z[None]),
    "inverse": lambda z: torch.linalg.inv(z[:, :4] + torch.eye(4)),
    "fft": lambda z: torch.fft.fft(z).abs(),
    "in place": lambda z: z.clone().sigmoid_(),
    "view in place": writes_rows,
    "foreach number": lambda z: torch._foreach_mul([z * 1, ROWS], 2.0),
    "foreach lists": lambda z: torch._foreach_mul([z * 1, ROWS], [ROWS, z[0]]),
    "foreach result": lambda z: torch._foreach_sqrt([z.exp(), z[:2].exp(), ROWS]),
    "foreach norm": lambda z: torch._foreach_norm([z.exp(), z[:2]]),
    "foreach in place": lambda z: torch._foreach_exp_([z.clone(), z[:2].clone()]) or z.sum(),
    "foreach of nothing new": lambda z: torch._foreach_neg([z, z[0]]),
    "checkpoint": lambda z: checkpoint(lambda t: t.sin().exp(), z * 2, use_reentrant=False),
    "nested": nested,
    "nested deeper": lambda z: nested(z, deep=True),
    "saves input": lambda z: SavesInput.apply(z),
    "saves output": lambda z: SavesOutput.apply(z),
    "saves outputs": lambda z: SavesOutputs.apply(z),
    "saves between": lambda z: SavesBetween.apply(z),
    "writes in place": lambda z: WritesInPlace.apply(z.clone()),
    "custom after others": lambda z: SavesOutput.apply(z.sin() * 2),
    "custom of custom": lambda z: SavesOutput.apply(SavesInput.apply(z)),
    "custom before others": lambda z: SavesOutput.apply(z).cos(),
}


class Passes(TorchDispatchMode):
    """A mode of the user that calls every operator from Python."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


OPTIONS = {"plain": {}, "flops": {"flops": True}, "memory": {"memory": True}}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_saved_bytes_are_those_of_hooks(name, options):
    """Also if the function is the last of the block, so that nothing reads its result."""
    function, z = FUNCTIONS[name], torch.rand(4, 6, requires_grad=True)
    wanted = packed_bytes(lambda: function(z), ())
    with tr.Recorder(saved=True, **OPTIONS[options]) as recorder:
        output = function(z)
    assert output is not None
    assert recorder.recording.annotations["saved_bytes"].total() == wanted
    assert not any("not counted" in note for note in recorder.recording.run.notes)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_options_leave_the_operations_as_they_are(name, options):
    """Operators that modes of the recorder see are no operations of their own."""
    function, z = FUNCTIONS[name], torch.rand(4, 6, requires_grad=True)
    found = [tr.record(function, z, saved=True, **given) for given in ({}, OPTIONS[options])]
    plain, other = ([op.name for op in recording.ops.values()] for recording in found)
    assert other == plain


@pytest.mark.parametrize("name", ["saves output", "saves outputs", "custom after others"])
def test_a_mode_of_the_user_changes_no_saved_bytes(name):
    """It calls operators while a custom function is not done, so that its node is found early."""
    function, z = FUNCTIONS[name], torch.rand(4, 6, requires_grad=True)
    wanted = packed_bytes(lambda: function(z), ())
    with Passes(), tr.Recorder(saved=True) as recorder:
        output = function(z)
    assert output is not None
    assert recorder.recording.annotations["saved_bytes"].total() == wanted


def test_a_function_whose_backward_runs_at_once():
    """What it saved is released by the end of the block."""
    z = torch.rand(4, 6, requires_grad=True)
    with tr.Recorder(saved=True) as recorder:
        SavesOutput.apply(z).backward(torch.ones(4, 6))
    assert recorder.recording.run.lost == 0
    assert recorder.recording.annotations["saved_bytes"].total() == 96


def test_the_inputs_of_a_checkpoint_that_hooks_of_the_user_pack():
    """What the hooks keep of them counts; on the CPU that is the input, which counts once."""
    z = torch.rand(4, 6, requires_grad=True)
    with tr.Recorder(saved=True) as recorder:
        with torch.autograd.graph.save_on_cpu():
            packed = checkpoint(torch.sin, z.exp(), use_reentrant=False)
        plain = checkpoint(torch.sin, packed, use_reentrant=False)
    assert plain is not None
    assert recorder.recording.annotations["saved_bytes"].total() == 2 * 96
    assert recorder.recording.run.notes == ()


class OfOlderVersions(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dummy, *tensors):
        ctx.save_for_backward(*tensors)
        return dummy.clone()


@pytest.mark.parametrize("name", ["checkpoint", "nested", "nested deeper"])
@pytest.mark.parametrize("keeps_node", [True, False])
def test_checkpoints_that_keep_their_inputs_in_another_way(monkeypatch, name, keeps_node):
    """In a node, as older versions of PyTorch, or where nothing finds them: never in operations."""
    plain = torch.utils.checkpoint._CheckpointFrame
    if not hasattr(plain, "save_inputs"):
        pytest.skip("this version keeps them in a node")

    class Other(plain):
        def save_inputs(self, *args):
            del self.saved_args
            self.inputs = args
            if keeps_node:
                dummy = torch.empty(0, requires_grad=True)
                self.input_saver = OfOlderVersions.apply(dummy, *args)

        def get_inputs(self):
            return self.inputs

    function, z = FUNCTIONS[name], torch.rand(4, 6, requires_grad=True)
    wanted = packed_bytes(lambda: function(z), ())
    monkeypatch.setattr("torch.utils.checkpoint._CheckpointFrame", Other)
    with tr.Recorder(saved=True) as recorder:
        output = function(z)
    assert output is not None
    assert recorder.recording.annotations["saved_bytes"].total() == wanted
    assert {"empty", "clone"}.isdisjoint(op.name for op in recorder.recording.ops.values())


@pytest.mark.parametrize("outer", [True, False])
def test_what_a_recomputation_saves_is_not_counted(outer):
    """Not of the inner checkpoint either, which the outer one runs again in backward."""

    def run(z):
        return checkpoint(
            lambda t: checkpoint(torch.sin, t.exp(), use_reentrant=False), z * 1,
            use_reentrant=outer,
        )

    z = torch.rand(4, 6, requires_grad=True)
    wanted = packed_bytes(lambda: run(z), ())
    recording = tr.record(run, z, backward=True)
    assert recording.annotations["saved_bytes"].total() == wanted > 0


def test_a_custom_function_whose_result_nothing_reads_has_its_node():
    z = torch.rand(3, requires_grad=True)
    with tr.Recorder() as recorder:
        result = SavesOutput.apply(z)
    assert result.requires_grad
    names = [node.name for node in recorder.recording.grad_nodes.values()]
    assert names[-1] == "SavesOutputBackward"


def test_a_script_that_differentiates_itself_has_no_number_but_a_note():
    """The interpreter keeps its saved tensors to itself from the second call on."""
    model = nn.Sequential(torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), nn.Tanh())
    for _ in range(3):
        model(torch.ones(2, 4))
    recording = tr.record(model, torch.ones(2, 4), backward=True)
    note = "bytes that DifferentiableGraphBackward saves for backward are not counted"
    assert (note in recording.run.notes) == any(
        node.name == "DifferentiableGraphBackward" for node in recording.grad_nodes.values()
    )
    found = recording.annotations["saved_bytes"].by_node
    names = {recording.grad_nodes[node].name: amount for node, amount in found.items()}
    assert names["TanhBackward0"] == 32 and "DifferentiableGraphBackward" not in names


def test_a_workspace_that_fake_tensors_lack_is_noted():
    """oneDNN's LSTM saves one whose size only its kernel knows; other layers have none."""
    note = "the workspace that mkldnn_rnn_layer saves for backward has no size with fake tensors"
    x = torch.rand(3, 2, 4)
    if torch.backends.mkldnn.is_available():
        assert note in tr.record(nn.LSTM(4, 5), x, fake=True, backward=True).run.notes
        assert note not in tr.record(nn.LSTM(4, 5), x, backward=True).run.notes
    gru = tr.record(nn.GRU(4, 5), x, fake=True, backward=True)
    assert not any("workspace" in note for note in gru.run.notes)


def test_what_is_called_again_to_count_leaves_nothing_alive():
    """A node that saves its own result, on small tensors, with hooks that hold this result."""
    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            y.view(-1).sigmoid_()
            return y

    assert_inert(lambda: (InPlace(), (torch.rand(3, 4, requires_grad=True),), {}))

"""Small runs with one fact each, which PyTorch itself or plain counting tells as well."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.zoo.case import net
from torchrecorder.capture.compiled.breaks import parse
from torchrecorder.capture.hooks.custom_functions import AppliedFunctions
from torchrecorder.capture.hooks.source import _ENTRY_FILE, Sources
from torchrecorder.capture.tape import Tape

# Memory -----------------------------------------------------------------------------------

MISSING: dict[str, Callable[[], nn.Module]] = {
    "no bias": lambda: nn.Linear(3, 3, bias=False),
    "no statistics": lambda: nn.BatchNorm1d(3, track_running_stats=False),
    "no weight": lambda: nn.BatchNorm1d(3, affine=False),
    "all": lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)),
}


@pytest.mark.parametrize("kind", MISSING)
def test_what_a_module_does_not_have_takes_no_memory(kind: str) -> None:
    """The rest is all there from the beginning, and nothing is lost."""
    model = MISSING[kind]()
    with torchrecorder.Recorder(model, memory=True) as recorder:
        model(torch.ones(2, 3))
    recording = recorder.recording
    assert recording.run.lost == 0
    held: Counter[str] = Counter()
    for one in recording.memory.held(at=0):
        held[one.kind] += one.bytes
    for role, tensors in (("parameters", model.parameters()), ("buffers", model.buffers())):
        assert held[role] == sum(tensor.nbytes for tensor in tensors)


def test_the_peak_of_an_operation() -> None:
    """What is alive while it runs: its inputs, its results, and what is kept; no less."""

    def forward(self: Any, x: Tensor) -> Tensor:
        y = x * 2
        z = y + 1
        del y
        return z.sum()

    with torch.no_grad():
        recording = torchrecorder.record(net(forward), torch.ones(250), memory=True)
    ops = {op.name: op.id for op in recording.ops.values()}
    peaks = recording.annotations["peak_bytes"].by_node
    assert peaks[ops["mul"]] == 2000 and peaks[ops["add"]] == 3000
    assert 2000 < peaks[ops["sum"]] < 2100


# Backward ---------------------------------------------------------------------------------

class Doubled(torch.autograd.Function):
    """A function of the user's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Twice."""
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        """Twice."""
        return 2 * gradient


PASSING: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "added to itself": lambda self, x: x + self.skip(x),
    "last": lambda self, x: self.skip(x * 3),
    "twice": lambda self, x: self.skip(self.skip(x)) * self.skip(x),
    "none": lambda self, x: x * x.exp(),
    "view": lambda self, x: self.skip(x.view(3, 2)).t() * x,
    "to a function": lambda self, x: Doubled.apply(self.skip(x)) + x,
    "leaf": lambda self, x: self.skip(x) * 2,
}


def run_order(loss: Tensor) -> list[str]:
    """The names of the nodes behind *loss* in the order in which PyTorch runs them."""
    seen: list[str] = []
    stack, met = [loss.grad_fn], set()
    while stack:
        node: Any = stack.pop()
        if node not in met:
            met.add(node)
            node.register_prehook(lambda _, name=node.name(): seen.append(name.rpartition("::")[2]))
            stack.extend(each for each, _ in node.next_functions if each is not None)
    loss.backward()
    return seen


@pytest.mark.parametrize("kind", PASSING)
@pytest.mark.parametrize("leaf", [True, False])
def test_modules_that_pass_a_tensor_on_have_no_node(kind: str, leaf: bool) -> None:
    """The nodes that run are those of the plain run, each once, in its order."""
    model = net(PASSING[kind], skip=nn.Identity())
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    wanted = run_order(model(x if leaf else x * 1).sum())
    with torchrecorder.Recorder(model, stats=True) as recorder:
        model(x if leaf else x * 1).sum().backward()
    recording = recorder.recording
    runs = recording.grad_runs
    assert [recording.grad_nodes[run.grad].name for run in runs] == wanted
    assert [run.order for run in runs] == list(range(len(wanted)))
    assert len({run.grad for run in runs}) == len(wanted) and recording.run.lost == 0


def test_what_another_thread_made_has_the_size_of_autograd() -> None:
    """Shape, type and bytes of results that nobody saw."""

    def forward(self: Any, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(x.sin().exp()))
        thread.start()
        thread.join()
        return found[0] * 2

    x = torch.ones(2, 3, 5, dtype=torch.float64, requires_grad=True)
    recording = torchrecorder.record(net(forward), x)
    unseen = [op for op in recording.ops.values() if op.kind == "hidden"]
    assert [op.name for op in unseen] == ["sin", "exp"]
    for op in unseen:
        (value,) = (recording.values[name] for name in op.outputs)
        assert (value.shape, value.dtype, value.bytes) == ((2, 3, 5), "float64", 30 * 8)


def test_what_the_outermost_module_passed_on_is_what_is_used_later() -> None:
    """An identity at its end is on the way; what the program gave to it stays what it was."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Identity())
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(2, 3)).exp()
    recording = recorder.recording
    (identity,) = [scope for scope in recording.scopes.values() if scope.name == "1"]
    linear, exp = [op for op in recording.ops.values() if op.name in ("linear", "exp")]
    assert exp.inputs[0].value == identity.outputs[0].value != linear.outputs[0]
    alone = nn.Identity()
    with torchrecorder.Recorder(alone) as recorder:
        x = torch.ones(2)
        alone(x)
        x.exp()
    ones, *_, exp = recorder.recording.ops.values()
    assert exp.inputs[0].value == ones.outputs[0]


# Where it was -----------------------------------------------------------------------------


def test_frames_around_the_command_line_did_not_raise() -> None:
    """The line is the innermost of the user's inside of it, if there is one."""
    inside: dict[str, Any] = {}
    exec(compile("def run(call):\n    call()\n", _ENTRY_FILE, "exec"), inside)

    def user() -> None:
        raise ValueError

    def found(call: Callable[[], Any], backward: bool = False) -> Any:
        try:
            call()
        except (ValueError, TypeError) as error:
            sources = Sources(AppliedFunctions(Tape()))
            return sources.raising_line(error.__traceback__, backward=backward)

    line = found(user)
    assert line.function == "user" and line.file.endswith("test_one_fact.py")
    assert found(lambda: inside["run"](user)) == line
    assert found(lambda: inside["run"](None)) is None
    assert found(user, backward=True) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("generic_jump TensorVariable()", "branch on the value of a tensor (generic_jump)"),
        ("step_unsupported", "a statement that cannot be in a graph (step_unsupported)"),
        ("call  of\n print", "call of print"),
        ("no generic_jump here", "no generic_jump here"),
    ],
)
def test_names_of_internal_functions_are_explained(text: str, reason: str) -> None:
    """As older versions of PyTorch give them; others are the message itself."""
    assert parse(text) == (reason, "", (), "")


def test_the_parts_of_a_message() -> None:
    """A title, an explanation in one line, hints in their order, and where to read on."""
    message = parse(
        "Call of print\n  Explanation: it writes\n    to the console\n  Hint: remove it\n"
        "  Hint: see https://one.org\n\n  Developer debug context: none\n\n"
        " For more details about this graph break, please visit: https://two.org/x\n"
    )
    assert message == (
        "Call of print", "it writes to the console", ("remove it", "see https://one.org"),
        "https://two.org/x",
    )


# Writes -----------------------------------------------------------------------------------

WRITERS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "out": lambda read, written: torch.add(read, 1, out=written),
    "in place": lambda read, written: written.add_(read),
    "item": lambda read, written: written.__setitem__(0, read[0]),
    "list": lambda read, written: torch._foreach_add_([written], [read]),
}


@pytest.mark.parametrize("way", WRITERS)
@pytest.mark.parametrize("overlap", [0, 1])
def test_what_is_only_read_is_not_written(way: str, overlap: int) -> None:
    """Parts of one memory share a version, and only where they overlap a value."""

    def forward(self: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            whole = x * 1
            read, written = whole[:1], whole[1 - overlap : 2 - overlap]
            WRITERS[way](read, written)
            return read + 0

    x = torch.tensor([[1.0], [2.0]])
    recording = torchrecorder.record(net(forward), (x,))
    assert bool(forward(None, x) != x[:1]) == (overlap == 1 and way != "item")
    (writer,) = (op for op in recording.ops.values() if op.writes)
    last = next(op for op in recording.ops.values() if op.outputs[0] == recording.outputs[0].value)
    made_by = recording.values[last.inputs[0].value].producer
    assert (made_by == writer.id) == bool(overlap)
    assert len(writer.writes) == 1 + overlap


# Arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_settings_of_recurrent_layers(kind: type[nn.RNNBase], packed: bool) -> None:
    """Those of the module, also where packed sequences move the arguments by a place."""
    layer = kind(3, 4, num_layers=2, dropout=0.25).eval()
    sequences = [torch.ones(3, 3), torch.ones(2, 3)]
    x = nn.utils.rnn.pack_sequence(sequences) if packed else torch.stack(sequences[:1])
    recording = torchrecorder.record(layer, (x,))
    (op,) = (op for op in recording.ops.values() if op.name in ("lstm", "gru", "rnn_tanh"))
    names = ("has_biases", "num_layers", "dropout", "train", "bidirectional")
    said = dict(op.arguments)
    assert [said[name] for name in names] == ["True", "2", "0.25", "False", "False"]
    weights = [slot.value for slot in op.inputs if slot.name.startswith("params.")]
    assert [recording.values[each].names[0] for each in weights] == [
        name for name, _ in layer.named_parameters()
    ]


# Names of modules -------------------------------------------------------------------------


class Convolution(nn.Module):
    """Calls a network that it was given."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).sin()


class Interaction(nn.Module):
    """Holds a network, and gives it to a part of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU()))
        self.conv = Convolution(self.filters)

    def forward(self, x: Tensor) -> Tensor:
        return self.filters(x) + self.conv(x)


def test_a_shared_module_has_the_path_of_the_module_that_calls_it() -> None:
    """So have its own submodules, and every path leads to the module that ran."""
    model = nn.Sequential(Interaction(), Interaction())
    recording = torchrecorder.record(model, torch.ones(2, 3))
    for scope in recording.scopes.values():
        assert type(model.get_submodule(scope.path)).__name__ == scope.cls
        if scope.parent is not None:
            assert scope.path.startswith(recording.scopes[scope.parent].path)
    inner = [scope.path for scope in recording.scopes.values() if scope.cls == "ReLU"]
    places = ("filters.1.0", "conv.network.1.0")
    assert inner == [f"{block}.{place}" for block in (0, 1) for place in places]

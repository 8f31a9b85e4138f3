"""Inputs and constants that each of several siblings has of its own fold as the siblings do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import nn

import torchrecorder
from tests.callers import called
from tests.figures import arrows
from tests.work import growth
from torchrecorder.events import OpId
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.fold.fold import repeats
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind, View

np = pytest.importorskip("numpy")


def view_of(recording: Recording, **options: object) -> View:
    """The view, with modules closed."""
    return make_view(recording, ViewOptions(**{"depth": 1, **options}))  # type: ignore[arg-type]


def counts(view: View) -> dict[str, int]:
    """How many each box stands for, by its title."""
    return {shape.label[0].text: shape.count for shape in draw(view, Style()).shapes}


def towers(
    number: int, names: Iterable[str] = (), shape: tuple[int, ...] = (2, 8), chain: bool = False
) -> Recording:
    """Modules that each read an input of their own; in a chain, each also reads the one before."""
    run = Builder("Net")
    given = [run.input(name) for name in names] or [run.input(f"xs.{k}") for k in range(number)]
    with run.scope("Net"):
        made, state = [], run.input("h") if chain else None
        for place, x in enumerate(given):
            with run.scope(f"towers.{place}", "Tower"):
                state = run.op("mix", x, state) if chain else run.op("mix", x)
                made.append(state)
        run.op("cat", *(made[-1:] if chain else made))
    return run.recording()


def test_a_tower_for_each_input() -> None:
    """One box and one input, which has the name of the argument, and one line between them."""
    view = view_of(towers(5))
    assert counts(view) == {
        "xs  ×5": 5, "towers.0 … towers.4: Tower  ×5": 5, "cat": 1, "output": 1
    }
    assert len(arrows(view)) == 3
    assert counts(view_of(towers(5), fold=False)).keys() >= {"xs.0", "xs.4", "towers.4: Tower"}


def test_a_chain_whose_links_read_inputs_of_their_own() -> None:
    """As a cell that reads one step of a sequence after the other; the first reads the state."""
    view = view_of(towers(4, chain=True))
    assert counts(view) == {
        "xs  ×4": 4, "h": 1, "towers.0 … towers.3: Tower  ×4": 4, "cat": 1, "output": 1
    }


class OnParts(nn.Module):
    """Layers on parts of the input, which are reshaped before all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [part.view(2, 4) for part in x.unbind(1)]
        return torch.stack([layer(part) for layer, part in zip(self.layers, parts)])


def test_layers_on_reshaped_results_of_one_operation() -> None:
    """The reshapes fold with them, although they are few."""
    found = counts(view_of(torchrecorder.record(OnParts(), (torch.ones(2, 4, 4),))))
    assert found["view  ×4"] == found["layers.0 … layers.3: Linear  ×4"] == 4


def test_a_loop_over_weights_that_another_loop_reads() -> None:
    """Operations whose inputs are not drawn repeat in their own loop only, not once more as the
    own inputs of a loop outside of their region."""
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])

    def decay_and_restore() -> None:
        saved = [parameter.detach().clone() for parameter in model.parameters()]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.9)
        for parameter, old in zip(model.parameters(), saved):
            parameter.data = old

    recording = torchrecorder.record(decay_and_restore)
    view = view_of(recording, depth="ops")
    assert {box.count for box in view.boxes.values()} == {1}
    assert [cluster.count for cluster in view.clusters.values() if cluster.count > 1] == [8] * 3
    unfolded = view_of(recording, depth="ops", fold=False)
    assert len(repeats(unfolded)[1]) == 3


@pytest.mark.parametrize("names", [("left", "right", "middle"), ("xs.0", "xs.1")])
def test_what_is_told_apart_stays_apart(names: tuple[str, ...]) -> None:
    """Inputs of different names, and the two branches of a Siamese network."""
    assert set(counts(view_of(towers(len(names), names))).values()) == {1}


def test_an_input_that_another_reads_too_stays_a_box() -> None:
    """The siblings fold, and each input has a line of its own to them."""
    run = Builder("Net")
    given = [run.input(f"xs.{place}") for place in range(3)]
    with run.scope("Net"):
        for place, x in enumerate(given):
            with run.scope(f"towers.{place}", "Tower"):
                run.op("mix", x)
        run.op("look", given[1])
    view = view_of(run.recording())
    assert counts(view) == {
        "xs.0": 1, "xs.1": 1, "xs.2": 1, "towers.0 … towers.2: Tower  ×3": 3, "look": 1,
        "output": 1,
    }
    (towers,) = [box.id for box in view.boxes.values() if box.count == 3]
    read = [(arrow.tail, arrow.head == towers) for arrow in view.arrows if arrow.tail in given]
    assert sorted(read) == [(given[0], True), (given[1], False), (given[1], True), (given[2], True)]


class Trainer:
    """Trains a model on batches in a list, for several epochs."""

    def __init__(self, batches: int = 3, epochs: int = 3) -> None:
        self.net = nn.Sequential(nn.Linear(4, 1), nn.Tanh())
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
        self.batches = [(torch.rand(2, 4), torch.rand(2, 1)) for _ in range(batches)]
        self.epochs = epochs

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """One step of training."""
        loss = nn.functional.mse_loss(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def train(self) -> None:
        """All epochs."""
        for _ in range(self.epochs):
            for x, y in self.batches:
                self.step(x, y)

    def train_and_evaluate(self, number: int) -> None:
        """With an evaluation on the first *number* batches after each epoch."""
        for _ in range(self.epochs):
            for x, y in self.batches:
                self.step(x, y)
            with torch.no_grad():
                for x, y in self.batches[:number]:
                    nn.functional.l1_loss(self.net(x), y).item()


def run_of(program: Callable[[], None]) -> View:
    """The view of a block of code."""
    with torchrecorder.Recorder() as recorder:
        program()
    view = make_view(recorder.recording, ViewOptions(functions=False))
    view.check()
    return view


def loops_of(view: View) -> list[int]:
    """The counts of the loops, outermost first."""
    return [cluster.count for cluster in view.clusters.values() if cluster.count > 1]


def given_in(view: View) -> list[int]:
    """How many tensors each box of inputs and constants stands for."""
    given = (BoxKind.INPUT, BoxKind.CONSTANT)
    return sorted(box.count for box in view.boxes.values() if box.kind in given)


def test_each_epoch_reads_the_same_list_of_batches() -> None:
    """All steps are one loop, and all batches two boxes: their inputs and their targets."""
    view = run_of(Trainer().train)
    assert loops_of(view) == [9] and given_in(view) == [3, 3]


@pytest.mark.parametrize("number, given", [(4, [4, 4]), (2, [1, 1, 1, 1, 2, 2])])
def test_epochs_with_an_evaluation_on_the_batches(number: int, given: list[int]) -> None:
    """Steps of training are a loop in the loop of epochs; batches that only they read are boxes
    beside those that the evaluation reads, too."""
    trainer = Trainer(4, 2)
    view = run_of(lambda: trainer.train_and_evaluate(number))
    assert sorted(loops_of(view)) == sorted([2, 4, number]) and given_in(view) == given


@pytest.mark.parametrize("epochs", [1, 2])
def test_batches_that_are_slices_of_the_data(epochs: int) -> None:
    """They may be cut before the loop, in the program itself: two boxes stand for all of them."""
    trainer = Trainer(3, epochs)
    data = torch.ones(6, 4), torch.ones(6, 1)

    def program() -> None:
        trainer.batches = [(data[0][at : at + 2], data[1][at : at + 2]) for at in range(0, 6, 2)]
        trainer.train_and_evaluate(3)

    view = run_of(program)
    assert sorted(loops_of(view)) == [2] * (epochs > 1) + [3, 3]
    slices = {OpId(op.id) for op in view.recording.ops.values() if op.name == "getitem"}
    assert [box.count for box in view.boxes.values() if box.id in slices] == [3, 3]
    assert given_in(view) == [1, 1]


def test_a_batch_that_every_step_reads_is_one_box() -> None:
    """It is no step's own."""
    view = run_of(Trainer(1, 4).train)
    assert loops_of(view) == [4] and given_in(view) == [1, 1]


def test_rounds_that_take_turns_between_two_constants_are_one_loop() -> None:
    first, second = torch.rand(4, 4), torch.rand(4, 4)

    def program() -> None:
        x = torch.rand(2, 4)
        for place in range(8):
            x = (x @ (first, second)[place % 2]).relu()
            x = x / x.sum()

    assert loops_of(run_of(program)) == [8]


def test_a_model_that_is_called_with_one_array_after_the_other() -> None:
    """Each call has an input and an output of its own."""
    model = nn.Linear(4, 2)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(4):
            model(torch.from_numpy(np.ones((1, 4), "f")))
    assert counts(view_of(recorder.recording, depth=0)) == {
        "input  ×4": 4, "Linear  ×4": 4, "output  ×4": 4
    }


def test_inputs_of_different_sizes_fold_with_the_calls_that_read_them() -> None:
    """As sentences of different lengths do."""
    model = nn.Linear(4, 2)
    with torchrecorder.Recorder(model) as recorder:
        for number in range(1, 5):
            model(torch.from_numpy(np.ones((number, 4), "f")))
    found = counts(view_of(recorder.recording, depth=0))
    assert (found["input  ×4"], found["Linear  ×4"]) == (4, 4)


def test_a_rollout_before_training_gives_its_last_step_to_the_loop() -> None:
    """Three steps act only, four act and learn: two, and a loop of four."""
    policy, critic = nn.Linear(4, 2), nn.Linear(2, 1)
    with torchrecorder.Recorder() as recorder:
        for step in range(7):
            action = policy(torch.from_numpy(np.ones((1, 4), "f"))).detach().numpy()
            if step >= 3:
                critic(torch.tensor(action)).square().mean().item()
    view = make_view(recorder.recording, ViewOptions(depth=0))
    assert [(cluster.names, cluster.count) for cluster in view.clusters.values()] == [
        ((called("policy", "Linear"), called("critic", "Linear")), 4)
    ]


@pytest.mark.parametrize("number, folds", [(2, False), (3, True)])
def test_how_many_fold_with_inputs_of_their_own(number: int, folds: bool) -> None:
    """Three: two are the branches of a Siamese network."""
    assert ("xs  ×3" in counts(view_of(towers(number)))) == folds


def test_an_input_in_the_frame_of_a_loop_counts_once() -> None:
    """The frame says how often."""
    model = nn.Linear(4, 2)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(4):
            model(torch.from_numpy(np.ones((1, 4), "f"))).exp().sin().sum()
    view = view_of(recorder.recording, depth=0)
    (frame,) = view.clusters.values()
    assert frame.count == 4 and set(counts(view).values()) == {1}


def test_inputs_of_other_forms_are_not_equal() -> None:
    """The modules are, since they make numbers of them first."""
    given = [torch.ones(2, 3), torch.ones(3, 2), torch.ones(6, 1)]

    class Summed(nn.Module):
        """Reads any shape."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """The sum."""
            return x.sum()

    class Each(nn.Module):
        """One module for each input."""

        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(Summed() for _ in given)

        def forward(self, xs: list[torch.Tensor]) -> torch.Tensor:
            """All sums."""
            return torch.stack([part(x) for part, x in zip(self.parts, xs)])

    view = view_of(torchrecorder.record(Each(), (given,)))
    assert set(counts(view).values()) == {1} and len(counts(view)) == 3 + 3 + 2


def test_inputs_of_which_some_require_gradients_stay_apart() -> None:
    """The tooltip of the box would say of all what is so of the first."""

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.towers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

        def forward(self, xs: list[torch.Tensor]) -> torch.Tensor:
            return torch.stack([tower(x) for tower, x in zip(self.towers, xs)])

    def titles(first: bool) -> set[str]:
        xs = [torch.rand(2, 3, requires_grad=first and not place) for place in range(4)]
        return set(counts(view_of(torchrecorder.record(Towers(), (xs,)))))

    assert "xs  ×4" in titles(False)
    assert {"xs.0", "xs  ×3", "towers.0: Linear"} <= titles(True)


def test_the_work_is_in_proportion_to_the_siblings_that_read_one_source() -> None:
    """As those of a loop that keeps all of its results."""

    def keeping(size: int) -> Callable[[], View]:
        run = Builder("Net")
        x = run.input("x")
        for _ in range(size):
            run.op("cos", run.op("sin", x))
        recording = run.recording()
        return lambda: view_of(recording)

    keeping(4)()
    assert growth(keeping, 100) < 2.2

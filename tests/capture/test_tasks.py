"""Recorders in asyncio tasks of one thread: each hears its own task, and the tasks made by it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import warnings

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

import torchrecorder
from tests.structure import structure
from torchrecorder.capture.tape import OTHER_TASKS

OPTIONS = {"flops": True, "stats": True}


def net(*layers):
    """A model with random weights, and an input."""
    torch.manual_seed(len(layers))
    return nn.Sequential(*layers), torch.randn(2, 4)


SMALL = nn.Linear(4, 4), nn.Tanh()
LARGE = nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.Sigmoid()


async def train(model, x, recorder, steps=3, ends=0):
    """Steps under *recorder*, each half of one after a pause; the block ends after more of them."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with recorder:
        for _ in range(steps):
            await asyncio.sleep(0)
            loss = model(x).sum()
            await asyncio.sleep(0)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        for _ in range(ends):
            await asyncio.sleep(0)
    return [each.detach().clone() for each in model.parameters()]


def ran(recorder):
    """The modules, operations and amounts of a recording."""
    recording = recorder.recording
    assert structure(recording) == []
    return (
        [(scope.kind, scope.path or scope.name) for scope in recording.scopes.values()],
        [(op.name, len(op.inputs)) for op in recording.ops.values()],
        {name: list(each.values()) for name, each in recording.measured.items()},
    )


def alone(layers):
    """What the training of a model leaves when nothing else runs, and its recording."""
    model, x = net(*layers)
    start = {name: each.clone() for name, each in model.state_dict().items()}
    recorder = torchrecorder.Recorder(model, **OPTIONS)
    found = asyncio.run(train(model, x, recorder))
    assert OTHER_TASKS not in recorder.recording.run.notes
    model.load_state_dict(start)
    return model, x, found, ran(recorder)


@pytest.mark.parametrize("ends", [(0, 0), (5, 0), (0, 5)])
def test_interleaved(ends):
    """Each recording is the one that is made alone, whichever recorder ends first."""
    both = alone(SMALL), alone(LARGE)
    recorders = [torchrecorder.Recorder(model, **OPTIONS) for model, *_ in both]

    async def main():
        return await asyncio.gather(
            *(
                train(model, x, recorder, ends=more)
                for (model, x, *_), recorder, more in zip(both, recorders, ends)
            )
        )

    for (*_, plain, wanted), found, recorder in zip(both, asyncio.run(main()), recorders):
        assert all(map(torch.equal, plain, found))
        assert ran(recorder) == wanted
        assert OTHER_TASKS in recorder.recording.run.notes
    assert not _get_current_function_mode_stack() and not _get_current_dispatch_mode_stack()


def test_a_task_that_is_not_recorded():
    """Its operations, modules and optimizer steps are left out."""
    model, x, plain, wanted = alone(SMALL)
    other, y = net(*LARGE)
    recorder = torchrecorder.Recorder(model, **OPTIONS)

    async def main():
        nothing = contextlib.nullcontext()
        found, _ = await asyncio.gather(train(model, x, recorder), train(other, y, nothing))
        return found

    found = asyncio.run(main())
    assert all(map(torch.equal, plain, found)) and ran(recorder) == wanted


def test_tasks_made_inside_belong_to_it():
    """As when a model gathers its parts."""

    async def part(function, x):
        await asyncio.sleep(0)
        return function(x)

    async def main():
        with torchrecorder.Recorder() as recorder:
            x = torch.ones(2)
            parts = await asyncio.gather(part(torch.sin, x), part(torch.cos, x))
            torch.stack(parts)
        return recorder.recording

    recording = asyncio.run(main())
    assert [op.name for op in recording.ops.values()] == ["ones", "sin", "cos", "stack"]
    assert OTHER_TASKS not in recording.run.notes


def test_around_an_event_loop():
    """A recorder that is entered in no task hears all of them, also those made before."""

    async def double():
        return torch.ones(2) * 2

    loop = asyncio.new_event_loop()
    early = loop.create_task(double())
    with torchrecorder.Recorder() as recorder:
        loop.run_until_complete(early)
        asyncio.run(double())
    loop.close()
    assert [op.name for op in recorder.recording.ops.values()] == ["ones", "mul"] * 2


def test_left_in_another_context():
    """A fixture may be left where it was not entered."""

    async def main():
        recorder = torchrecorder.Recorder()
        recorder.__enter__()
        torch.ones(2)
        context = contextvars.Context()
        context.run(recorder.__exit__, None, None, None)
        return recorder.recording

    assert [op.name for op in asyncio.run(main()).ops.values()] == ["ones"]


def test_modes_of_others_stay_in_place():
    """Those that another task has entered meanwhile go on, and count what they counted."""

    class Heard(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names, x = [], torch.ones(2, 2)

    async def first(entered):
        with torchrecorder.Recorder(flops=True):
            await entered.wait()

    async def second(entered):
        with Heard(), FlopCounterMode(display=False) as counter:
            entered.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            x @ x
        return counter.get_total_flops()

    async def main():
        entered = asyncio.Event()
        tasks = asyncio.create_task(first(entered)), asyncio.create_task(second(entered))
        return (await asyncio.gather(*tasks))[1]

    assert asyncio.run(main()) == 16 and names == ["matmul"]
    assert not _get_current_function_mode_stack() and not _get_current_dispatch_mode_stack()


def test_warnings_keep_their_place():
    """Those of an operation that passes by a recorder of another task, too."""

    x = torch.ones(2)

    async def warns(recorder, entered, other):
        with recorder:
            entered.set()
            await other.wait()
            torch.tensor(x)

    async def main():
        entered = asyncio.Event(), asyncio.Event()
        await asyncio.gather(
            warns(torchrecorder.Recorder(), *entered),
            warns(torchrecorder.Recorder(), *entered[::-1]),
        )

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
    assert [each.filename for each in caught] == [__file__] * 2

"""Modules whose attributes and descriptions compute: the recorder asks them for nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder


class Computing(nn.Module):
    """Counts and draws a random number whenever anything of it is asked for."""

    asked: list[str] = []

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.inner = nn.Linear(3, 3)
        self.described = 0

    def _asked(self, name):
        self.asked.append(name)
        torch.rand(1)

    def __getattr__(self, name):
        held = vars(self)
        if name not in {**held["_parameters"], **held["_modules"]}:
            self._asked(name)
        return super().__getattr__(name)

    @property
    def scale(self):
        """A property that draws."""
        self._asked("scale")
        return torch.rand(1)

    def extra_repr(self):
        """A description that draws, counts, and reads a parameter."""
        self.described += 1
        return f"size={tuple(self.weight.shape)}, drawn={torch.rand(1).item() >= 0}"

    def named_parameters(self, *args, **kwargs):
        """As libraries do that make parameters when they are asked for."""
        self._asked("named_parameters")
        return super().named_parameters(*args, **kwargs)

    def forward(self, x):
        """Draws as well."""
        return self.inner(x * self.weight + torch.rand(3))


class MakesOne(nn.Module):
    """Makes such a module while it runs."""

    def __init__(self):
        super().__init__()
        self.plain = nn.Linear(3, 3)

    def forward(self, x):
        """Draws before and after."""
        made = Computing()
        return made(self.plain(x)) + torch.rand(3)


OPTIONS = {"stats": True, "flops": True, "replay": True, "memory": True, "keep": ["*", "*: *"]}


@pytest.mark.parametrize("make", [Computing, MakesOne])
def test_nothing_is_asked_and_random_state_stays(make):
    """Outputs, gradients and random state are those of the plain run."""
    model, x = make(), torch.ones(3)
    x.requires_grad_()

    def asked():
        return len(Computing.asked)

    def run():
        torch.manual_seed(3)
        x.grad = None
        result = model(x)
        result.sum().backward()
        return result.detach(), x.grad, torch.get_rng_state()

    plain = run()
    before = asked()
    run()
    alone = asked() - before
    described = getattr(model, "described", 0)
    with torchrecorder.Recorder(model, **OPTIONS) as recorder:
        recorded = run()
    assert all(map(torch.equal, plain, recorded))
    assert asked() - before == 2 * alone
    assert getattr(model, "described", 0) == described
    details = {module.cls: module.detail for module in recorder.recording.modules.values()}
    gone = make is MakesOne  # not asked while it ran, and it is no more
    assert details["Computing"] == ("" if gone else "size=(3,), drawn=True")


class Sampled(nn.Linear):
    """Draws its bias and weight where somebody first reads them, as probabilistic layers do."""

    def __init__(self):
        super().__init__(3, 3)
        del self.bias, self.weight
        self.drawn = {}

    def __getattr__(self, name):
        drawn = vars(self).get("drawn")
        if drawn is None or name not in ("bias", "weight"):
            return super().__getattr__(name)
        if name not in drawn:
            drawn[name] = torch.randn((3,) if name == "bias" else (3, 3))
        return drawn[name]


class Announced(nn.Module):
    """Says in its description, and to everybody who listens, how often it was asked."""

    heard = []

    def forward(self, x):
        """Depends on who has asked."""
        return x + len(self.heard)

    def extra_repr(self):
        """Once more."""
        self.heard.append(self)
        return f"{len(self.heard)} times"


def test_modules_that_were_not_named_are_not_asked():
    """Neither PyTorch's descriptions nor theirs read what computes, while the run goes on."""

    def run():
        Announced.heard.clear()
        torch.manual_seed(0)
        model = nn.Sequential(Sampled(), Announced())
        return model, model(torch.ones(2, 3)), torch.get_rng_state()

    _, *plain = run()
    with torchrecorder.Recorder() as recorder:
        model, *recorded = run()
    assert all(map(torch.equal, plain, recorded))
    details = {module.cls: module.detail for module in recorder.recording.modules.values()}
    assert details["Announced"] == "1 times" and model[1].heard


def test_a_description_that_raises_is_empty():
    """And the run goes on."""

    class Broken(nn.Linear):
        def extra_repr(self):
            raise RuntimeError("not now")

    recording = torchrecorder.record(Broken(2, 2), torch.ones(1, 2))
    assert recording.modules["m0"].detail == ""

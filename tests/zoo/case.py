"""Case: one odd model with its inputs, and the graph that it must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Run:
    """A model and what it is called with."""

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None


@dataclass(frozen=True)
class Case:
    """One odd model.

    Attributes:
        odd: What is odd about it.
        graph: Its flow in the notation of `tests.notation`; empty where only the
            general promises are checked.
        build: Makes a fresh model with fresh inputs.
        backward: A backward pass through its outputs means something.
        replays: Its calls can be listed by an outside function mode and dispatch mode.
        reruns: Its calls can be made again one by one, outside of the run.
        modules: Hooks at the end of each module's list see what the recorder sees.
        lasting: The run writes its inputs or parameters, or gives lazy modules a shape.
        limit: What is known to stay unseen, in words.
    """

    name: str
    odd: str
    graph: str
    build: Callable[[], Run]
    backward: bool = True
    replays: bool = True
    reruns: bool = True
    modules: bool = True
    lasting: bool = False
    limit: str = ""

    def make(self) -> Run:
        """The same model and inputs each time."""
        torch.manual_seed(0)
        return self.build()


class Cases(list[Case]):
    """A list of cases that functions can be added to by decoration."""

    def case(
        self, odd: str, graph: str = "", **facts: Any
    ) -> Callable[[Callable[[], Run]], Callable[[], Run]]:
        """Add the decorated builder as a case."""

        def add(build: Callable[[], Run]) -> Callable[[], Run]:
            name = build.__name__.strip("_")
            self.append(Case(name, odd, dedent(graph).strip(), build, **facts))
            return build

        return add


def net(forward: Callable[..., Any], **parts: Any) -> nn.Module:
    """A module with this forward; parts become children, parameters, buffers, attributes."""
    cls = type("Net", (nn.Module,), {"forward": forward, "__module__": __name__})
    made: nn.Module = cls()
    for name, part in parts.items():
        if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
            made.register_buffer(name, part)
        else:
            setattr(made, name, part)
    return made


def parameter(*shape: int) -> nn.Parameter:
    """A random parameter."""
    return nn.Parameter(torch.randn(*shape))


def leaf(*shape: int) -> torch.Tensor:
    """A random input that requires grad."""
    return torch.randn(*shape, requires_grad=True)

"""Planned: one process of a plan, which records one rank on fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.internals.access import FakeTensor, FakeTensorMode, pytree
from torchrecorder.capture.internals.fake_group import fake_mesh
from torchrecorder.capture.internals.processes import local_part
from torchrecorder.capture.record import record
from torchrecorder.capture.recorder import Recorder
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.median_runs import without_times
from torchrecorder.ranks.digest import digest
from torchrecorder.ranks.packed import packed
from torchrecorder.ranks.ranks import rank_of
from torchrecorder.recording import Recording


class Sizes(Protocol):
    """The sizes of a mesh."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its dimensions."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many processes lie along each."""


class Asked(Protocol):
    """What a process of a plan is to do."""

    @property
    def factory(self) -> Callable[[Any], Any]:
        """Makes the model, or a step, given the mesh."""

    @property
    def layout(self) -> Sizes:
        """The mesh."""

    @property
    def backward(self) -> bool:
        """Whether the backward pass runs, too."""

    @property
    def name(self) -> str:
        """Name of the recordings; empty for that of the model's class."""


def leave_recording(job: Asked, rank: int, folder: Path) -> None:
    """Write what *rank* records, and then its digest."""
    torch.set_num_threads(1)
    recording = recorded(job, rank)
    recording.save(folder / f"{rank}.json", times=False)
    facts = rank_of(recording, "what the factory gave")._replace(host="")
    (folder / f"{rank}.digest").write_bytes(packed(digest(recording, facts)))


def recorded(job: Asked, rank: int) -> Recording:
    """What *rank* records of one step, on fake tensors."""
    mesh = fake_mesh(rank, job.layout.names, job.layout.sizes)
    with torch.device("meta"):
        made = job.factory(mesh)
    model, given = _parts(made)
    with FakeTensorMode(allow_non_fake_inputs=True):
        if isinstance(model, Module):
            _materialize(model)
        if callable(given):
            with Recorder(model, name=job.name or None) as recorder:
                given()
            found = recorder.recording
        else:
            inputs = pytree.tree_map(_faked, given)
            found = record(
                model, inputs, backward=job.backward, restore=False, name=job.name or None
            )
    return without_times(found)


def _parts(made: Any) -> tuple[Any, Any]:
    """A model, and its inputs or a step; the model is None if there is a step only."""
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], Module):
        return made
    if isinstance(made, Module):
        return made, ()
    if callable(made):
        return None, made
    raise InvalidArgument(
        "the factory of a plan gives a model and its inputs, a model and a step, or a step, not "
        f"an object of type {type(made).__name__}"
    )


def _materialize(model: Module) -> None:
    """Make fake tensors of all weights, where they are none yet; tied ones stay tied."""
    tensors = [*model.parameters(), *model.buffers()]
    if all(isinstance(local_part(tensor), FakeTensor) for tensor in tensors):
        return
    tied = _tied(model)
    model.to_empty(device="cpu")
    for first, *others in tied:
        module, name = first
        for other, called in others:
            other._parameters[called] = module._parameters[name]


def _tied(model: Module) -> list[list[tuple[Module, str]]]:
    """The parameters that several modules have, or one under several names."""
    found: dict[int, list[tuple[Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                found.setdefault(id(parameter), []).append((module, name))
    return [places for places in found.values() if len(places) > 1]


def _faked(found: Any) -> Any:
    """A fake tensor for one on the meta device, or with numbers in it."""
    if not isinstance(found, Tensor) or isinstance(local_part(found), FakeTensor):
        return found
    fake = torch.empty_like(found, device="cpu")
    return fake.requires_grad_() if found.requires_grad else fake

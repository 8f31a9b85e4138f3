"""Record one rank of a plan with fake tensors, in the current process."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.internals.access import FakeTensor, FakeTensorMode, pytree
from torchrecorder.capture.internals.processes import local_part
from torchrecorder.capture.internals.table import FAKE_GROUPS, STAGE_VOTES
from torchrecorder.capture.internals.trials import find
from torchrecorder.capture.record import record
from torchrecorder.capture.recorder import Recorder
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.median_runs import without_times
from torchrecorder.ranks.digest import digest, rank_of
from torchrecorder.ranks.digest_codec import encode_digest
from torchrecorder.recording import Recording


def fake_mesh(rank: int, mesh: Mapping[str, int]) -> Any:
    """Initialize ``torch.distributed`` as *rank* of a fake group; returns the ``DeviceMesh``.

    Raises:
        InvalidArgument: This PyTorch has no fake process group.
    """
    if not FAKE_GROUPS.present:
        missing = ", ".join(FAKE_GROUPS.missing) or "fake tensors in collectives"
        raise InvalidArgument(
            f"plan needs fake process groups; this PyTorch lacks {missing}. "
            f"Install PyTorch {FAKE_GROUPS.since} or newer"
        )
    from torch.distributed.device_mesh import init_device_mesh

    store = find(FAKE_GROUPS.paths[0])()
    world = prod(mesh.values())
    torch.distributed.init_process_group("fake", store=store, rank=rank, world_size=world)
    return init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))


def agree_on_static_shapes() -> None:
    """Let the pipeline stages of this process assume that all stages have static shapes.

    Before the first micro-batch, the ranks of a pipeline exchange whether each stage knows the
    shapes of its inputs and outputs. In a fake group there is no answer.
    """
    if "torch.distributed.pipelining" in sys.modules and STAGE_VOTES.present:
        stage, _, name = STAGE_VOTES.paths[0].rpartition(".")
        setattr(find(stage), name, _all_agree(getattr(find(stage), name)))


def _all_agree(vote: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(vote)
    def agreed(*args: Any, **kwargs: Any) -> Any:
        vote(*args, **kwargs)  # communicates as a real run does
        return torch.tensor([1], dtype=torch.int32)

    return agreed


def write_recording(folder: Path, rank: int, *job: Any, **options: Any) -> None:
    """Write the recording of *rank* and its digest to *folder*; the rest is for `recorded`."""
    torch.set_num_threads(1)
    recording = recorded(rank, *job, **options)
    recording.save(folder / f"{rank}.json", times=False)
    facts = rank_of(recording.run, "the recording")._replace(host="")
    (folder / f"{rank}.digest").write_bytes(encode_digest(digest(recording, facts)))


def recorded(
    rank: int, factory: Callable[[Any], Any], mesh: Mapping[str, int], *, backward: bool,
    name: str | None,
) -> Recording:
    """The recording of *rank*: one step, or one call of the model, with fake tensors."""
    devices = fake_mesh(rank, mesh)
    with torch.device("meta"):
        model, step_or_inputs = _parts(factory(devices))
    agree_on_static_shapes()
    with FakeTensorMode(allow_non_fake_inputs=True):
        if isinstance(model, Module):
            _materialize(model)
        if callable(step_or_inputs):
            with Recorder(model, name=name) as recorder:
                step_or_inputs()
            found = recorder.recording
        else:
            inputs = pytree.tree_map(_to_fake, step_or_inputs)
            found = record(model, inputs, backward=backward, restore=False, name=name)
    return without_times(found)


def _parts(made: Any) -> tuple[Any, Any]:
    """The model or None, and its inputs or a step, from the result of a factory.

    Raises:
        InvalidArgument: *made* is none of these.
    """
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], Module):
        return made
    if isinstance(made, Module):
        return made, ()
    if callable(made):
        return None, made
    raise InvalidArgument(
        "the factory must return a model and its inputs, a model and a step, or a step, not an "
        f"object of type {type(made).__name__}"
    )


def _materialize(model: Module) -> None:
    """Replace parameters and buffers by fake tensors; tied parameters stay tied."""
    tensors = [*model.parameters(), *model.buffers()]
    if all(isinstance(local_part(tensor), FakeTensor) for tensor in tensors):
        return
    places = _places(model)
    model.to_empty(device="cpu")
    for (module, name), *others in places:
        for other, other_name in others:
            other._parameters[other_name] = module._parameters[name]


def _places(model: Module) -> list[list[tuple[Module, str]]]:
    """The modules and names of each parameter, also of None; a tied one has several."""
    found: dict[int, list[tuple[Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            found.setdefault(id(parameter), []).append((module, name))
    return list(found.values())


def _to_fake(value: Any) -> Any:
    """A fake tensor like a real one; other values are returned unchanged."""
    if not isinstance(value, Tensor) or isinstance(local_part(value), FakeTensor):
        return value
    fake = torch.empty_like(value, device="cpu")
    return fake.requires_grad_() if value.requires_grad else fake

"""Our times against those of torch.profiler, in one and the same step.

Both watch a training step of ResNet-50 and GPT-2: forward time by module, backward time in all.
Prints the totals as a ratio, and how many of the ten most expensive modules are the same. The
profiler's time of a grad node has the recorder's hooks in it, ours has not.

Run: ``python -m benchmarks.profiler``
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import torchrecorder
from benchmarks.overhead import full_size


def marked(model: nn.Module) -> list[Any]:
    """Hooks that mark each module's forward for the profiler; gives their handles."""
    running, handles = {}, []
    for path, module in model.named_modules():

        def before(module, args, path=path):
            mark = torch.profiler.record_function(f"module:{path}")
            mark.__enter__()
            running.setdefault(path, []).append(mark)

        def after(module, args, output, path=path):
            running[path].pop().__exit__(None, None, None)

        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    return handles


def kernels(event: Any) -> float:
    """Seconds of the outermost ops under a mark, those of inner modules left out."""
    found, waiting = 0.0, list(event.cpu_children)
    while waiting:
        child = waiting.pop()
        if child.name.startswith("aten::"):
            found += child.cpu_time_total / 1e6
        elif not child.name.startswith("module:"):
            waiting.extend(child.cpu_children)
    return found


def step(model: nn.Module, inputs: dict[str, Any]) -> None:
    """Forward and backward."""
    output = model(**inputs)
    getattr(output, "logits", output).float().pow(2).mean().backward()


def compare(name: str, model: nn.Module, inputs: dict[str, Any]) -> None:
    """Print what both say of one step."""
    step(model, inputs)
    handles = marked(model)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with torchrecorder.Recorder(model) as recorder:
            step(model, inputs)
    for handle in handles:
        handle.remove()
    recording = recorder.recording
    theirs: dict[str, float] = {}
    for event in profile.events():
        if event.name.startswith("module:"):
            path = event.name.removeprefix("module:") or recording.name
            theirs[path] = theirs.get(path, 0.0) + kernels(event)
    ours = dict.fromkeys(theirs, 0.0)
    for place in recording.top("forward_time", 10**6, by="op"):
        path = place.name.rpartition(": ")[0]
        if path in ours:
            ours[path] += place.number
    nodes = [e for e in profile.events() if e.name.startswith("autograd::engine::evaluate")]
    backward = sum(each.cpu_time_total for each in nodes) / 1e6
    ten, mine = (sorted(each, key=lambda path: -each[path])[:10] for each in (theirs, ours))
    print(
        f"{name}: forward {sum(ours.values()) / sum(theirs.values()):.2f} x the profiler's, "
        f"backward {recording.annotations['backward_time'].total() / backward:.2f} x, "
        f"{len({*ten} & {*mine})} of its ten most expensive modules"
    )


if __name__ == "__main__":
    for each in full_size():
        compare(*each)

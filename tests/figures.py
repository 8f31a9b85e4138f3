"""Recordings made by hand that several tests draw, and short ways to write views down."""

from __future__ import annotations

from typing import Any

from torchrecorder.events import OpKind, ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View


def network() -> Recording:
    """Two linear layers with an activation, a skip around both, and an identity."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("body", "Sequential"):
            h = linear(run, "0", x)
            with run.scope("1", "ReLU"):
                h = run.op("relu", h, grads=("ReluBackward0",))
            y = linear(run, "2", h)
        with run.scope("skip", "Identity"):
            same = run.op("pass", x, kind=OpKind.PASS)
        run.op("add", y, same, grads=("AddBackward0",))
    return run.recording()


def linear(run: Builder, name: str, x: str, cls: str = "Linear") -> str:
    """A module with a weight and a single op."""
    detail = "in_features=4, out_features=4, bias=False"
    with run.scope(name, cls, detail=detail):
        weight = run.parameter("weight")
        return run.op("linear", x, weight, grads=("TBackward0", "MmBackward0"))


def regions() -> Recording:
    """A class token added in a composed module, a no_grad region, a reshape, a query."""
    run = Builder("Vit")
    with run.scope("Vit"):
        x = run.input("image", (1, 3, 8, 8))
        h = linear(run, "patch", x)
        h = run.op("flatten", h, shape=(1, 192))
        h = run.op("add", h, run.parameter("token", (1, 192)), shape=(1, 192))
        run.op("item", h, outputs=0)
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            run.op("mul", h, run.constant(), shape=(1, 192))
    return run.recording()


def view_of(recording: Recording, **options: Any) -> View:
    """A view that has been checked."""
    view = make_view(recording, ViewOptions(**options))
    view.check()
    return view


def arrows(view: View) -> list[str]:
    """The arrows of a view as ``tail -> head``, by what people call the boxes."""
    return [f"{name(view, arrow.tail)} -> {name(view, arrow.head)}" for arrow in view.arrows]


def boxes(view: View) -> list[str]:
    """The boxes of a view by what people call them."""
    return [name(view, box) for box in view.boxes]


def clusters(view: View) -> list[str]:
    """The clusters of a view by what people call them."""
    return [name(view, cluster) for cluster in view.clusters]


def name(view: View, box: str) -> str:
    """What people call a box."""
    recording = view.recording
    if box in recording.scopes:
        return recording.scopes[box].path or recording.scopes[box].name
    if box in recording.ops:
        return recording.ops[box].name
    if box in recording.grad_nodes:
        return recording.grad_nodes[box].name
    if box in recording.values:
        value = recording.values[box]
        return value.names[0] if value.names else value.role.value
    return box

"""Styler: changes the look of single boxes and arrows, by subclassing.

This is the extension point of torchrecorder 1.x. A recording holds no live object, so ``fn`` of a
node is looked up on access.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torchrecorder.checks import MAPPING, check_one
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import ScopeId, ValueId
from torchrecorder.export.dot import look_attributes, plain_label, statements
from torchrecorder.graph.nodes import Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import maker_of
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure, Group, Line, Look, Shape
from torchrecorder.style.style import Style
from torchrecorder.views.view import BoxKind, Nesting, View

if TYPE_CHECKING:
    from torchrecorder.export.digraph import Digraph


class BaseNode:
    """The box that is passed to a styler.

    Attributes:
        name: Attribute name of a module, name of an op, parameter or input.
        depth: The number of scopes around it; -1 at the top.
        id: The recorded id.
        kind: A value of `BoxKind`; ``"open"`` for a cluster.
        recording: The recording it comes from.
    """

    def __init__(
        self, recording: RecordedRun, recorded: str, name: str, depth: int, kind: str
    ) -> None:
        self.recording = recording
        self.id = recorded
        self.name = name
        self.depth = depth
        self.kind = kind
        self.defaults: dict[str, str] = {}

    @property
    def fn(self) -> Any:
        """The module itself, or a meta tensor like the recorded one; None if neither."""
        live = self.recording.live
        return live.fn(self.recording, self.id) if live is not None else None

    @property
    def parent(self) -> Any:
        """The module in whose ``forward`` it ran, if it is still alive."""
        live, scope = self.recording.live, self._scope()
        return live.fn(self.recording, scope) if live is not None and scope else None

    def _scope(self) -> str | None:
        recording = self.recording
        if self.id in recording.scopes:
            return recording.scopes[ScopeId(self.id)].parent
        node = recording.node(self.id)
        if isinstance(node, Value):
            maker = maker_of(recording, node.id)
            return maker.scope if maker is not None else None
        return node.scope

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, depth={self.depth})"


class LayerNode(BaseNode):
    """A module, function or region; closed to a box, or open as a cluster."""


class OpNode(BaseNode):
    """An op, or a node of the autograd graph."""


class TensorNode(BaseNode):
    """An input, output, constant or inner tensor."""


class ParamNode(TensorNode):
    """A parameter or buffer."""


class GraphvizStyler:
    """Gives each box and arrow its Graphviz attributes.

    Subclass it and override `style_node` or `style_edge`:

    >>> class Bold(GraphvizStyler):
    ...     def style_node(self, node):
    ...         attributes = super().style_node(node)
    ...         if isinstance(node, LayerNode):
    ...             attributes["penwidth"] = "2.4"
    ...         return attributes

    Attributes:
        styles: Attributes set on every node of a class, on top of the theme's.
    """

    def __init__(self, **styler_args: Any) -> None:
        given = {name: str(value) for name, value in styler_args.items() if value is not None}
        classes = (BaseNode, LayerNode, OpNode, TensorNode, ParamNode)
        self.styles: dict[type[BaseNode], dict[str, str]] = {cls: dict(given) for cls in classes}

    def style_node(self, node: BaseNode) -> dict[str, Any]:
        """The attributes of a box, or of the cluster of an open layer.

        Returns:
            A new dict with ``label``, ``shape``, ``style``, ``color``, ``fillcolor``,
            ``fontcolor``, ``penwidth``, and the arguments of the styler.
        """
        return {**node.defaults, **self.styles[type(node)]}

    def style_edge(self, from_node: BaseNode, to_node: BaseNode) -> dict[str, Any]:
        """The attributes of an arrow, on top of the theme's."""
        return {}


def to_digraph(
    view: View,
    style: Style,
    styler_cls: Any = None,
    styler_args: Mapping[str, Any] = MappingProxyType({}),
) -> Digraph:
    """*view* as a graph that can be styled and nested further.

    Args:
        view: The view.
        style: The style.
        styler_cls: A `GraphvizStyler`, its subclass or an instance; its attributes have precedence.
        styler_args: Further arguments for its ``__init__``.

    Raises:
        InvalidArgument: *styler_cls* is not a styler.
    """
    from torchrecorder.export.digraph import Digraph

    figure = draw(view, style)
    if styler_cls is not None:
        figure = styled(figure, view, _styler(styler_cls, style, styler_args))
    graph = Digraph(name=figure.name)
    graph.body.extend(f"\t{line}\n" for line in statements(figure))
    return graph


def own_arguments(styler_cls: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The *options* that are parameters of the styler's ``__init__``."""
    if not isinstance(styler_cls, type):
        return {}
    parameters = inspect.signature(styler_cls).parameters.values()
    named = (item.name for item in parameters if item.kind is not item.VAR_KEYWORD)
    return {name: options[name] for name in named if name in options}


def _styler(styler_cls: Any, style: Style, given: Mapping[str, Any]) -> GraphvizStyler:
    if isinstance(styler_cls, GraphvizStyler):
        return styler_cls
    if isinstance(styler_cls, type) and issubclass(styler_cls, GraphvizStyler):
        return styler_cls(**{"fontname": style.fontname, **style.node_attributes, **given})
    raise InvalidArgument(f"styler_cls must be a subclass of GraphvizStyler, not {styler_cls!r}")


def styled(figure: Figure, view: View, styler: GraphvizStyler) -> Figure:
    """*figure* with the attributes from *styler* set on its shapes and lines."""
    depths = Nesting({group.id: group.parent for group in figure.groups}).depth
    nodes = {
        shape.id: _node(shape, view, depths[shape.group] + 1)
        for shape in figure.shapes
        if shape.id in view.boxes  # a figure without boxes has a note
    }
    groups = tuple(_group(group, view, styler, depths[group.id]) for group in figure.groups)
    shapes = tuple(
        replace(shape, look=_look(shape.look, nodes[shape.id], styler))
        if shape.id in nodes
        else shape
        for shape in figure.shapes
    )
    lines = tuple(_line(line, nodes, styler) for line in figure.lines)
    return replace(figure, shapes=shapes, groups=groups, lines=lines)


def _node(shape: Shape, view: View, depth: int) -> BaseNode:
    """The node that is passed to a styler for a shape."""
    recording = view.recording
    kind = BoxKind(shape.kind)
    if kind in (BoxKind.MODULE, BoxKind.REGION):
        node: BaseNode = _layer(recording, shape.id, depth, kind.value)
    elif kind in (BoxKind.OP, BoxKind.HIDDEN, BoxKind.GRAD):
        found = recording.node(shape.id)
        node = OpNode(recording, shape.id, getattr(found, "name", ""), depth, kind.value)
    else:
        node = _tensor(recording, shape.id, depth, kind)
    node.defaults = {"label": plain_label(shape.label), **look_attributes(shape.look)}
    return node


def _layer(recording: RecordedRun, scope: str, depth: int, kind: str) -> LayerNode:
    found = recording.scopes[ScopeId(scope)]
    return LayerNode(recording, scope, found.name or found.cls, depth, kind)


def _tensor(recording: RecordedRun, box: str, depth: int, kind: BoxKind) -> TensorNode:
    value, name = ValueId(box), kind.value
    if kind is BoxKind.OUTPUT:
        slot = recording.outputs[int(box.partition(":")[2])]
        value, name = slot.value, slot.name or name
    elif recording.values[value].names:
        name = recording.values[value].names[0]
    stored = kind in (BoxKind.PARAMETER, BoxKind.BUFFER)
    return (ParamNode if stored else TensorNode)(recording, value, name, depth, kind.value)


def _group(group: Group, view: View, styler: GraphvizStyler, depth: int) -> Group:
    """An open layer; its fill is the theme's, so that nesting is visible."""
    if group.id not in view.recording.scopes:
        return group
    node = _layer(view.recording, group.id, depth, "open")
    node.defaults = {"label": plain_label(group.label), **look_attributes(group.look)}
    look = _look(group.look, node, styler)
    attributes = {
        name: text for name, text in look.attributes.items() if name not in ("shape", "fillcolor")
    }
    return replace(group, look=replace(look, attributes=attributes))


def _look(look: Look, node: BaseNode, styler: GraphvizStyler) -> Look:
    """The attributes that the styler changed; the theme has the others."""
    return _with(look, "what style_node gives", styler.style_node(node), node.defaults)


def _line(line: Line, nodes: Mapping[str, BaseNode], styler: GraphvizStyler) -> Line:
    given = styler.style_edge(nodes[line.tail], nodes[line.head])
    return replace(line, look=_with(line.look, "what style_edge gives", given, {}))


def _with(look: Look, what: str, answer: Any, defaults: Mapping[str, str]) -> Look:
    """*look* with the attributes in the *answer* of a styler that are no *defaults*."""
    check_one(what, answer or {}, MAPPING)
    given = {name: str(value) for name, value in (answer or {}).items() if value is not None}
    changed = {name: text for name, text in given.items() if defaults.get(name) != text}
    return replace(look, attributes={**look.attributes, **changed})

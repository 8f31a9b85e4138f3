"""ONNX: the graph of an ONNX file as a recording.

Nodes become operations. The parts of their names, which exporters take from modules, become scopes.
Initializers become parameters. A node with subgraphs, such as ``If``, is one operation, which reads
the inputs of its subgraphs. Only the graph is read, not external weights.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from math import prod
from os import PathLike
from typing import Any

from torchrecorder.build import Event, build
from torchrecorder.checks import path_of
from torchrecorder.errors import InvalidRecording, TorchRecorderError
from torchrecorder.events import (
    ModuleId, OpId, OpKind, Role, ScopeId, ScopeKind, ScopeLeft, Slot, ValueId,
)
from torchrecorder.graph.nodes import Module, Op, Scope, Value
from torchrecorder.graph.recording import RunDone, RunFacts
from torchrecorder.recording import Recording

_DTYPES = {"float": "float32", "double": "float64"}
_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"


class OnnxMissing(TorchRecorderError, ImportError):
    """The package ``onnx`` is not installed."""


def load(source: str | PathLike[str] | Any) -> Recording:
    """The graph of an ONNX model as a recording.

    Args:
        source: The path of an ONNX file, or an ``onnx.ModelProto``.

    Raises:
        OnnxMissing: The package ``onnx`` is not installed.
        InvalidRecording: It is not an ONNX model.
        OSError: It cannot be read.
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise OnnxMissing("to read ONNX files: pip install torchrecorder[onnx]") from None
    model: Any = source
    if not isinstance(source, onnx.ModelProto):
        path = path_of(source, "source")
        try:
            model = onnx.load(path, load_external_data=False)
        except OSError:
            raise
        except Exception as error:  # of the library that parses it
            raise InvalidRecording(f"{path.name!r} is not an ONNX file: {error}") from None
    if not model.graph.node:
        raise InvalidRecording("this ONNX model has no nodes")
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except Exception:  # then shapes are missing, as for unknown operators
        pass
    return build(_EventWriter(model.graph).events(), Recording)


class _EventWriter:
    """Writes the events of a run with the operations of the graph."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.types = {
            item.name: item.type.tensor_type
            for item in (*graph.input, *graph.value_info, *graph.output)
        }
        self.stored = {item.name: item for item in graph.initializer}
        self.values: dict[str, ValueId] = {}
        self.forms: dict[ValueId, Value] = {}
        self.readers = _last_readers(graph)
        self.written: list[Event] = []
        self.index = 0
        self.paths: dict[str, ModuleId] = {}
        self.classes: dict[str, str] = {}
        self.owned: dict[str, list[Slot]] = {}
        self.open: list[tuple[ScopeId, str, dict[ValueId, None], dict[ValueId, str]]] = []
        self.calls: dict[str, int] = {}
        self.scopes = 0

    def events(self) -> Iterator[Event]:
        """All events, in order."""
        name = self.graph.name or "model"
        inputs = [item.name for item in self.graph.input if item.name not in self.stored]
        given = [Slot(slot, self._value(slot, Role.CONSTANT)) for slot in inputs]
        self._enter("", name)
        for number, node in enumerate(self.graph.node):
            self._go_to(*_place(node), number)
            self._op(node)
        self._go_to([""], [name], len(self.graph.node))
        outputs = [Slot(item.name, self._read(item.name)) for item in self.graph.output]
        root = self.open.pop()[0]
        self.written.append(ScopeLeft(root, tuple(given), tuple(outputs), None, False))
        yield from self._modules()
        yield from self.written
        note = "this is the graph of an ONNX file: nothing ran"
        yield RunDone(name, RunFacts("", "no_grad", (note,)))

    # Scopes ---------------------------------------------------------------------------

    def _go_to(self, paths: list[str], classes: list[str], number: int) -> None:
        """Leave and enter scopes until those of *paths* are open."""
        common = 0
        for opened, path in zip(self.open, paths):
            if opened[1] != path:
                break
            common += 1
        while len(self.open) > common:
            self._leave(number)
        for path, cls in zip(paths[common:], classes[common:]):
            self._enter(path, cls)

    def _enter(self, path: str, cls: str) -> None:
        scope = ScopeId(f"s{self.scopes}")
        module = self.paths.setdefault(path, ModuleId(f"m{len(self.paths)}"))
        self.classes.setdefault(path, cls)
        call = self.calls[path] = self.calls.get(path, -1) + 1
        parent = self.open[-1][0] if self.open else None
        around = self.open[-1][1] if self.open else ""
        name = path.removeprefix(f"{around}.") if around else path or cls
        self.written.append(
            Scope(
                scope, parent, self._next(), ScopeKind.MODULE, name, path, cls, module, call, None,
                False, (), (), None, True,
            )
        )
        self.scopes += 1
        self.open.append((scope, path, {}, {}))

    def _leave(self, number: int) -> None:
        scope, _, read, made = self.open.pop()
        inputs = [value for value in read if value not in made]
        outputs = [value for value, name in made.items() if self.readers.get(name, -1) >= number]
        several = len(outputs) > 1
        self.written.append(
            ScopeLeft(
                scope,
                tuple(Slot(str(at), value) for at, value in enumerate(inputs)),
                tuple(
                    Slot(str(at) if several else "", output) for at, output in enumerate(outputs)
                ),
                None,
                False,
            )
        )

    def _modules(self) -> Iterator[Module]:
        for path, module in self.paths.items():
            owned = tuple(self.owned.get(path, ()))
            cls = self.classes[path]
            yield Module(module, (path,), cls, cls, "", owned, (), False, ())

    # Operations and values ------------------------------------------------------------

    def _op(self, node: Any) -> None:
        op = OpId(f"o{self.index}")
        names = enumerate(_names_read(node))
        read = [Slot(str(at), self._read(name)) for at, name in names if name]
        made = {self._value(name, Role.INNER, op): name for name in node.output if name}
        given = [slot.value for slot in read if self.forms[slot.value].role is not Role.PARAMETER]
        for _, _, inputs, outputs in self.open:
            inputs.update(dict.fromkeys(given))
            outputs.update(made)
        domain = f"{node.domain}." if node.domain else "onnx."
        self.written.append(
            Op(
                op, self.open[-1][0], self._next(), OpKind.CALLED, node.op_type,
                f"{domain}{node.op_type}", tuple(read), tuple(made), (),
                tuple(_arguments(node)), None, None, False,
            )
        )

    def _read(self, name: str) -> ValueId:
        """The value of this name; a parameter is of the module in its name, or of its reader."""
        if name in self.values:
            return self.values[name]
        if name not in self.stored:
            return self._value(name, Role.CONSTANT)
        around = [path for _, path, _, _ in self.open]
        path, _, last = name.rpartition(".")
        owned = self.owned.setdefault(path if path in around else around[-1], [])
        owned.append(Slot(last, self._value(name, Role.PARAMETER)))
        return owned[-1].value

    def _value(self, name: str, role: Role, producer: OpId | None = None) -> ValueId:
        value = self.values[name] = ValueId(f"v{len(self.values)}")
        shape, dtype = self._form(name)
        names = (name,) if role is Role.PARAMETER else ()
        seen = Value(
            value, shape, dtype, "onnx", role, names, producer, False, None,
            abs(prod(shape)) * _size(dtype), "Tensor", False, -1,
        )
        self.forms[value] = seen
        self.written.append(seen)
        return value

    def _form(self, name: str) -> tuple[tuple[int, ...], str]:
        """Sizes and dtype; -1 for dynamic sizes."""
        import onnx

        stored, kind = self.stored.get(name), self.types.get(name)
        if stored is not None:
            return tuple(stored.dims), _dtype(onnx.TensorProto.DataType.Name(stored.data_type))
        if kind is None:
            return (), "unknown"
        sizes = [item.dim_value if item.HasField("dim_value") else -1 for item in kind.shape.dim]
        return tuple(sizes), _dtype(onnx.TensorProto.DataType.Name(kind.elem_type))

    def _next(self) -> int:
        self.index += 1
        return self.index - 1


def _names_read(node: Any) -> list[str]:
    """The names of the values that a node reads, including those in subgraphs in its attributes."""
    subgraphs = [graph for item in node.attribute for graph in (item.g, *item.graphs)]
    outer = dict.fromkeys(name for graph in subgraphs for name in _outer_names(graph))
    return [*node.input, *(name for name in outer if name not in node.input)]


def _outer_names(graph: Any) -> Iterator[str]:
    """The names of values of the outer graph that a subgraph reads."""
    own = {item.name for item in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    read = [name for node in graph.node for name in _names_read(node)]
    yield from (name for name in (*read, *(item.name for item in graph.output)) if name not in own)


def _last_readers(graph: Any) -> dict[str, int]:
    """The last node that reads each value; outputs are read after all nodes."""
    last = {name: at for at, node in enumerate(graph.node) for name in _names_read(node)}
    return {**last, **{item.name: len(graph.node) for item in graph.output}}


def _dtype(name: str) -> str:
    return _DTYPES.get(name.lower(), name.lower())


def _size(dtype: str) -> int:
    bits = re.search(r"\d+", dtype)  # the first number: float8e4m3fn has others after it
    return max(1, int(bits[0]) // 8) if bits else 1


def _place(node: Any) -> tuple[list[str], list[str]]:
    """The dotted paths of the scopes around a node, outermost first, and their classes."""
    properties = {prop.key: prop.value for prop in node.metadata_props}
    if _SCOPES in properties:
        paths = [str(item) for item in ast.literal_eval(properties[_SCOPES])[:-1]]
        classes = [str(item) for item in ast.literal_eval(properties.get(_CLASSES, "[]"))]
        pairs = dict(zip(paths, [cls.rpartition(".")[2] for cls in classes] or paths))
        pairs = {path: cls for path, cls in pairs.items() if path}
        return ["", *pairs], ["", *pairs.values()]
    parts = [part for part in node.name.split("/")[:-1] if part]
    paths = list(_joined(parts))
    return ["", *paths], ["", *(path.rpartition(".")[2] for path in paths)]


def _joined(parts: Iterable[str]) -> Iterator[str]:
    """Dotted paths of nested names; some exporters repeat the outer name in the inner one."""
    path = ""
    for part in parts:
        inner = part.removeprefix(f"{path}.") if path else part
        last = path.rpartition(".")[2]
        inner = inner.removeprefix(f"{last}.") if last else inner
        path = f"{path}.{inner}" if path else inner
        yield path


def _arguments(node: Any) -> Iterator[tuple[str, str]]:
    """Attributes that are numbers, texts or short lists of them."""
    import onnx

    for item in node.attribute:
        kind = onnx.AttributeProto.AttributeType.Name(item.type)
        if kind in ("FLOAT", "INT", "STRING", "FLOATS", "INTS"):
            value = onnx.helper.get_attribute_value(item)
            value = value.decode(errors="replace") if isinstance(value, bytes) else value
            yield item.name, str(list(value) if kind.endswith("S") else value)

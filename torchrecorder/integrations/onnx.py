"""ONNX: the graph of an ONNX file as a recording.

Nodes become operations, and the parts of their names, which exporters take from modules, scopes.
Initializers become parameters. Only the graph is read, not external weights.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import prod
from os import PathLike
from typing import Any

from torchrecorder.build import Event, build
from torchrecorder.checks import path_of
from torchrecorder.errors import InvalidRecording, TorchRecorderError
from torchrecorder.events import (
    ModuleId,
    OpId,
    OpKind,
    Role,
    ScopeId,
    ScopeKind,
    ScopeLeft,
    Slot,
    ValueId,
)
from torchrecorder.graph.nodes import Module, Op, Scope, Value
from torchrecorder.graph.recording import RunDone, RunFacts
from torchrecorder.recording import Recording

_DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bfloat16": "bfloat16",
    "bool": "bool", "complex64": "complex64", "complex128": "complex128", "string": "string",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 8, 16, 32, 64)},
}
_BYTES = {"float64": 8, "float32": 4, "complex64": 8, "complex128": 16, "bool": 1}
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
        self.written: list[Event] = []
        self.index = 0
        self.paths: dict[str, ModuleId] = {}
        self.classes: dict[str, str] = {}
        self.owned: dict[str, dict[str, ValueId]] = {}
        self.open: list[tuple[ScopeId, str, dict[ValueId, None], dict[ValueId, None]]] = []
        self.calls: dict[str, int] = {}
        self.scopes = 0

    def events(self) -> Iterator[Event]:
        """All of them, in order."""
        name = self.graph.name or "model"
        inputs = [item.name for item in self.graph.input if item.name not in self.stored]
        given = [Slot(slot, self._value(slot, Role.CONSTANT)) for slot in inputs]
        self._enter("", name)
        later = self._readers()
        for number, node in enumerate(self.graph.node):
            self._go_to(*_place(node), later, number)
            self._op(node)
        self._go_to([""], [name], later, len(self.graph.node))
        outputs = [
            Slot(item.name, self.values[item.name])
            for item in self.graph.output if item.name in self.values
        ]
        root = self.open.pop()[0]
        self.written.append(ScopeLeft(root, tuple(given), tuple(outputs), None, False))
        yield from self._modules()
        yield from self.written
        note = "this is the graph of an ONNX file: nothing ran"
        yield RunDone(name, RunFacts("", "no_grad", (note,)))

    def _readers(self) -> dict[str, int]:
        """The last node that reads each value; outputs are read after all of them."""
        last = {name: at for at, node in enumerate(self.graph.node) for name in node.input}
        return {**last, **{item.name: len(self.graph.node) for item in self.graph.output}}

    # Scopes ---------------------------------------------------------------------------

    def _go_to(
        self, paths: list[str], classes: list[str], later: dict[str, int], number: int
    ) -> None:
        """Leave and enter scopes until those of *paths* are open."""
        common = 0
        for opened, path in zip(self.open, paths):
            if opened[1] != path:
                break
            common += 1
        while len(self.open) > common:
            self._leave(later, number)
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

    def _leave(self, later: dict[str, int], number: int) -> None:
        scope, _, read, made = self.open.pop()
        names = {value: name for name, value in self.values.items()}
        inputs = [value for value in read if value not in made]
        outputs = [value for value in made if later.get(names[value], -1) >= number]
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
            owned = tuple(
                Slot(name.rpartition(".")[2], value)
                for name, value in self.owned.get(path, {}).items()
            )
            cls = self.classes[path]
            yield Module(module, (path,), cls, cls, "", owned, (), False, ())

    # Operations and values ------------------------------------------------------------

    def _op(self, node: Any) -> None:
        op = OpId(f"o{self.index}")
        read = []
        for at, name in enumerate(node.input):
            if name:
                role = Role.PARAMETER if name in self.stored else Role.CONSTANT
                value = self.values.get(name) or self._value(name, role)
                read.append(Slot(str(at), value))
                self._own(name, value)
        made = [self._value(name, Role.INNER, op) for name in node.output if name]
        given = [slot.value for slot in read if self.forms[slot.value].role is not Role.PARAMETER]
        for _, _, inputs, outputs in self.open:
            inputs.update(dict.fromkeys(given))
            outputs.update(dict.fromkeys(made))
        domain = f"{node.domain}." if node.domain else "onnx."
        self.written.append(
            Op(
                op, self.open[-1][0], self._next(), OpKind.CALLED, node.op_type,
                f"{domain}{node.op_type}", tuple(read), tuple(made), (),
                tuple(_arguments(node)), None, None, False,
            )
        )

    def _own(self, name: str, value: ValueId) -> None:
        """Assign a parameter to the module in its name, otherwise to the scope of its first
        reader."""
        if name not in self.stored or any(name in owned for owned in self.owned.values()):
            return
        around = [path for _, path, _, _ in self.open]
        path = name.rpartition(".")[0]
        self.owned.setdefault(path if path in around else around[-1], {})[name] = value

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


def _dtype(name: str) -> str:
    return _DTYPES.get(name.lower(), name.lower())


def _size(dtype: str) -> int:
    bits = "".join(item for item in dtype if item.isdigit())
    return _BYTES.get(dtype) or max(1, int(bits or 8) // 8)


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

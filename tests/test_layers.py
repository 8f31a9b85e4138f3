"""The layers: who may import whom, and where torch may be imported."""

import ast
from pathlib import Path

import networkx as nx
import pytest

import torchrecorder

PACKAGE = Path(torchrecorder.__file__).parent

LAYERS = {
    "errors": set(),
    "checks": set(),
    "console": set(),
    "events": set(),
    "graph": {"events"},
    "build": {"events", "graph"},
    "capture": {"events", "graph", "build"},
    "annotations": {"events", "graph"},
    "views": {"events", "graph"},
    "style": {"events", "graph", "annotations", "views"},
    "layout": {"style"},
    "export": {"events", "graph", "annotations", "views", "style", "layout"},
    "comparison": {"events", "graph", "annotations"},
    "series": {"events", "graph", "annotations", "export"},
    "options": {"views", "style", "export"},
    "api": {"graph", "views", "style", "export", "options", "comparison"},
    "testing": {"events", "graph", "build"},
    "integrations": {
        "events", "graph", "annotations", "views", "style", "layout", "export", "options",
        "comparison", "api",
    },
    "__main__": {"integrations"},
}
"""What each may import when its module is loaded, besides itself, errors, checks and console."""

WITH_TORCH = {"capture", "testing"}


def _modules():
    return sorted(PACKAGE.rglob("*.py"))


each_module = pytest.mark.parametrize(
    "path", _modules(), ids=lambda path: str(path.relative_to(PACKAGE))
)


def _layer(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path):
    """What is imported when the module is loaded; not for types only, not inside functions."""
    stack = list(ast.parse(path.read_text()).body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack.extend(node.orelse)
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            stack.extend(node.body + getattr(node, "orelse", []))


@each_module
def test_imports_only_from_below(path):
    """A module imports its own layer and those that its layer may use."""
    layer = _layer(path)
    if layer == "__init__":
        return
    used = {name.split(".")[1] for name in _imports(path) if name.startswith("torchrecorder.")}
    assert used - {layer, "errors", "checks", "console"} <= LAYERS[layer]


@each_module
def test_torch_stays_in_capture(path):
    """Only what records imports torch."""
    used = {name.split(".")[0] for name in _imports(path)}
    assert "torch" not in used or _layer(path) in WITH_TORCH


def test_no_import_cycle():
    """No module imports itself over others."""
    graph = nx.DiGraph()
    for path in _modules():
        parts = ("torchrecorder", *path.relative_to(PACKAGE).with_suffix("").parts)
        for name in _imports(path):
            if name.startswith("torchrecorder."):
                graph.add_edge(".".join(parts), name)
    assert [loop for loop in nx.strongly_connected_components(graph) if len(loop) > 1] == []


@each_module
def test_is_short_and_says_what_it_is_for(path):
    """Every module opens with its job, and has at most 400 lines."""
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 400

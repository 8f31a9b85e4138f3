"""The layers: who may import whom, and where torch may be imported.

Every import counts: when a module is loaded, inside a function, and for type checkers only.
A function imports late to make starting cheap, never to reach what is above it.
"""

import ast
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

import torchrecorder

PACKAGE = Path(torchrecorder.__file__).parent

LAYERS = {
    "errors": set(),
    "checks": {"errors"},
    "console": set(),
    "files": set(),
    "option_table": {"checks"},
    "name_patterns": set(),
    "events": set(),
    "graph": {"events"},
    "build": {"events", "graph"},
    "annotations": {"events", "graph"},
    "query": {"events", "graph", "annotations"},
    "select": {"events", "graph"},
    "trace": {"events", "graph"},
    "views": {"events", "graph", "select"},
    "style": {"events", "graph", "annotations", "query", "views"},
    "layout": {"style"},
    "export": {"events", "graph", "annotations", "query", "select", "views", "style", "layout"},
    "live_memory": {"events", "graph", "annotations", "export"},
    "options": {"annotations", "views", "style", "export"},
    "signatures": {"annotations", "views", "style", "export"},
    "display": {"graph", "views", "style", "export"},
    "drawing": {"graph", "views", "style", "export", "options", "signatures", "display"},
    "recording": {
        "graph", "annotations", "query", "export", "live_memory", "drawing", "display",
        "signatures", "trace",
    },
    "comparison": {
        "events", "graph", "annotations", "select", "views", "style", "export", "options",
        "drawing", "recording", "signatures",
    },
    "ranks": {"events", "graph", "annotations", "views", "export", "recording", "signatures"},
    "capture": {"events", "graph", "build", "query", "recording", "ranks", "trace"},
    "planning": {"events", "recording", "ranks", "capture"},
    "series": {"events", "graph", "annotations", "export", "recording", "capture"},
    "api": {"annotations", "export", "options", "drawing", "capture", "signatures"},
    "testing": {"events", "graph", "build", "recording", "capture"},
    "__init__": {
        "graph", "export", "drawing", "recording", "comparison", "ranks", "capture", "planning",
        "series", "api",
    },
    "integrations": {
        "events", "graph", "build", "annotations", "views", "style", "layout", "export", "options",
        "drawing", "recording", "comparison", "ranks", "capture", "planning", "series", "api",
        "signatures", "__init__",
    },
    "compat": {"api", "capture", "drawing", "export"},
    "__main__": {"integrations"},
}
"""Each may import what it names, besides itself and what is common to all."""

COMMON = {"errors", "checks", "console", "files", "option_table", "name_patterns"}
"""What every layer may import."""

WITH_TORCH = {"capture", "testing"}
"""They import torch when they are loaded; commands and hosts when they make a model."""


def _modules():
    """Every module by its dotted name; a package goes by the name of its folder."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = _modules()

each_module = pytest.mark.parametrize("name", MODULES)


def _layer(name):
    return name.split(".")[1] if "." in name else "__init__"


def _nodes(tree, late):
    """Every node of a syntax tree; those inside functions only if *late*."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if late or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _imports(name, late=True):
    """The full name of each module that is imported anywhere in this one."""
    for node in _nodes(ast.parse(MODULES[name].read_text()), late):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


@each_module
def test_imports_only_from_below(name):
    """A module imports its own layer and those that its layer may use."""
    layer = _layer(name)
    used = {_layer(each) for each in _imports(name) if each.partition(".")[0] == "torchrecorder"}
    assert used - COMMON - {layer} <= LAYERS[layer]


def test_layers_are_in_one_direction():
    """No layer may use another that may use it."""
    above = nx.DiGraph((layer, below) for layer, used in LAYERS.items() for below in used)
    assert nx.is_directed_acyclic_graph(above)


@each_module
def test_torch_stays_in_capture(name):
    """Only what records imports torch; what makes a model does when it is called."""
    if _layer(name) not in WITH_TORCH:
        used = {each.partition(".")[0] for each in _imports(name, _layer(name) != "integrations")}
        assert "torch" not in used


def test_no_import_cycle():
    """No module imports itself over others."""
    graph = nx.DiGraph(
        (name, imported)
        for name in MODULES
        for imported in _imports(name)
        if imported in MODULES and imported != name
    )
    assert [loop for loop in nx.strongly_connected_components(graph) if len(loop) > 1] == []


def test_imports_in_functions_and_for_types_count():
    """The test sees what is imported late: drawing from a recording, networkx for types."""
    assert "torchrecorder.drawing" in set(_imports("torchrecorder.recording"))
    assert "networkx" in set(_imports("torchrecorder.graph.recording"))


@each_module
def test_is_short_and_has_a_docstring(name):
    """Every module opens with its job, and has at most 400 lines."""
    text = MODULES[name].read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 400


def test_each_type_name_has_one_meaning():
    """No two modules define a class, alias or type variable of the same name."""
    defined = Counter()
    for path in MODULES.values():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                defined[node.name.lstrip("_")] += 1
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id.lstrip("_")
                defined[name] += name[:1].isupper() and not name.isupper()
    assert [name for name, count in defined.items() if count > 1] == []

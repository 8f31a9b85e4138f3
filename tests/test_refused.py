"""What cannot be meant is refused, in a sentence that says what is possible."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.errors import InvalidArgument, TorchRecorderError
from torchrecorder.export import EXPORTERS, by_suffix
from torchrecorder.options import drawing
from torchrecorder.style.attributes import FIELDS, KNOWN
from torchrecorder.style.style import Style
from torchrecorder.style.themes import LIGHT

WRONG = {
    "depth": (-1, 1.5, "2", "op", True),
    "max_boxes": (0, 1.5, "2", None),
    "parameters": ("yes", 1),
    "tensors": ("no", None),
    "passes": (0,),
    "reshapes": ("off",),
    "queries": ([],),
    "functions": ("yes", 1),
    "grad_nodes": (1, "yes"),
    "fold": ("yes", 1, None),
    "focus": (3, ["encoder"]),
    "since": (3,),
    "until": (b"x",),
    "hide": (3, [3], b"relu"),
    "closed": (3, [3], b"relu"),
    "group": (3, {"Stem": 3}, {"Stem": []}, {"": "conv1"}),
    "view": ("sideways", None),
    "theme": ("drak", 3),
    "rules": (3, [3]),
    "direction": ("left", "tb", None),
    "shapes": ("no",),
    "details": ("no",),
    "counts": (1,),
    "rename": (3, {"a": 3}),
    "colors": (
        3, {3: "red"}, {"a": 3}, {"a": "blurple"}, {"a": "red:blue"}, {"a": "transparent"},
        {"a": "#ff000080"},
    ),
    "legend": ("top", None),
    "color_by": (3,),
    "color_range": (3, (3, 1), ("a", "b"), (float("nan"), 1), (0, float("inf")), (1,)),
    "numbers": (3, (3,)),
    "fontname": ("", 3),
    "fontsize": (0, -3, "large", float("nan"), float("inf"), 10**400, True),
    "width": (3, "3", "3 miles"),
    "height": ("",),
    "fit": (3, "pages", ("85mm",), ("85mm", None), ("85", "3mm"), ("1mm", "2mm", "3mm")),
    "min_fontsize": (-1, "small"),
    "background": ("", 3, "nocolour"),
    "attributes": (3, {"rnksep": 1}, {"shape": "box"}, {"nodesep": "wide"}, {"rankdir": "XX"}),
    "node_attributes": ("red", {"ranksep": "1"}, {"fillcolor": "blurple"}, {"shape": "blob"}),
    "edge_attributes": ({"pnwidth": "2"}, {"penwidth": "thick"}, {"dir": "sideways"}),
    "notes": (3, {"s1": 3}, {"s1": "text"}),
    "finish": (3,),
    "timeout": (0, -1, "long", float("inf"), 1e300, None),
    "layout": ("neato", None),
    "dpi": (0, -3, "high"),
    "times": ("no",),
    "indent": (-1, "tab"),
    "most_lines": (-1,),
    "most_text": (1.5,),
}


def _exporter_of(name: str) -> object:
    return next((each() for each in EXPORTERS if name in each.__dataclass_fields__), None)


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, each in WRONG.items() for v in each])
def test_a_wrong_value_is_refused(name: str, value: object) -> None:
    """The message begins with the name of the option."""
    with pytest.raises(InvalidArgument, match=rf"^({name}|a group)[: ]"):
        drawing(_exporter_of(name), **{name: value})  # type: ignore[arg-type]


def test_every_option_of_a_figure_is_checked() -> None:
    """An option that is added has a line here."""
    chosen = drawing()
    names = {*chosen.view.__dataclass_fields__, *chosen.style.__dataclass_fields__}
    for exporter in EXPORTERS:
        names.update(exporter.__dataclass_fields__)  # type: ignore[attr-defined]
    assert names - set(WRONG) == {"columns", "ops", "annotation", "suffix"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dept", "depth"),
        ("colour_by", "color_by"),
        ("rnksep", "ranksep"),
        ("render_dept", "render_depth"),
        ("FontSize", "fontsize"),
    ],
)
def test_a_misspelled_option_is_guessed(name: str, meant: str) -> None:
    """Ours, those of torchrecorder 1.x, and attributes of Graphviz alike."""
    with pytest.raises(InvalidArgument, match=f"did you mean '{meant}'"):
        drawing(**{name: 1})


def test_attributes_of_graphviz_go_where_they_belong() -> None:
    """Those that may stand among the options are known, and the message says where others go."""
    assert all(FIELDS[field] <= KNOWN[field] for field in FIELDS)
    with pytest.raises(InvalidArgument, match="'shape' belongs in node_attributes"):
        drawing(attributes={"shape": "box"})
    assert drawing(nodesep=1).style.attributes == {"nodesep": "1"}


def test_a_recording_of_nothing_is_no_blank_page() -> None:
    """A box says that nothing ran, in every format that draws."""
    with torchrecorder.Recorder() as recorder:
        pass
    recording = recorder.recording
    for suffix in (".svg", ".dot", ".mmd"):
        exporter = by_suffix(f"run{suffix}")
        drawn = exporter.export(torchrecorder.view(recording), Style())
        text = drawn if isinstance(drawn, str) else drawn.decode()
        assert "nothing was recorded" in text
    assert len(torchrecorder.figure(recording).shapes) == 1


def test_a_backward_view_without_gradients_is_refused() -> None:
    """It says how to get an autograd graph."""
    recording = torchrecorder.record(torch.nn.ReLU(), torch.ones(2))
    with pytest.raises(InvalidArgument, match="autograd=True"):
        torchrecorder.view(recording, view="backward")


def test_the_guide_names_every_option() -> None:
    """So that nobody has to find one in the source."""
    page = (Path(__file__).parents[1] / "docs" / "guide" / "options.md").read_text()
    names = set(WRONG) - {"rules", "notes", "finish"}  # functions and notes, for those who extend
    names -= {"times", "indent", "most_lines", "most_text"}  # of single text formats
    missing = {name for name in names if not re.search(rf"\b{name}\b", page)}
    assert missing == set()


MODEL, X = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()), torch.ones(1, 4)
RUN = torchrecorder.record(MODEL, X)
CALLS = {
    "path must be a path, not None": lambda: RUN.render(None),
    "path must be a path, not b'x.svg'": lambda: RUN.render(b"x.svg"),
    "path must be a path, not 'a": lambda: RUN.render("a\0.svg"),
    "path must be a path, not 3": lambda: torchrecorder.load(3),
    "path must be a path, not 4": lambda: RUN.save(4),
    "directory must be a path": lambda: torchrecorder.render_network(MODEL, X, directory=3),
    "filename must be a string or None": lambda: torchrecorder.render_network(MODEL, X, filename=3),
    "fmt must be a string": lambda: torchrecorder.render_network(MODEL, X, fmt=3),
    "expected a recording, not a Sequential": lambda: torchrecorder.save(MODEL, "x.json"),
    "times must be True or False": lambda: RUN.save("x.json", times=3),
    "limit must be a whole number of at least 1": lambda: torchrecorder.load("x.json", limit=-5),
    "times must be a factor above 1": lambda: torchrecorder.compare(RUN, RUN, times="2"),
    "no annotation is called 3": lambda: RUN.top(3),
    "members must be a collection of ids, such as .'s0'., not 's0'": (
        lambda: RUN.annotations["parameters"].of("s0")
    ),
    "no annotation is called .3.": lambda: RUN.annotations[[3]],
    "no annotation is called 'stats': record.*stats=True.* measures activation_mean": (
        lambda: RUN.top("stats")
    ),
    "'mean'; did you mean 'activation_mean'": lambda: RUN.top("mean"),
    "no op, value or grad node has the id 'o99'": lambda: RUN.node("o99"),
    "no scope has the id 's99'": lambda: RUN.within("s99"),
    "scope must be one of Recording.scopes": lambda: RUN.module_of("s0"),
    "no tensors were kept for 'relu': record with keep=": lambda: RUN.activations["relu"],
    "no tensors were kept for .'relu'.": lambda: RUN.activations[["relu"]],
    "repeat must be a number of runs of at least 1": lambda: torchrecorder.record(
        MODEL, X, repeat=None
    ),
    "paths of scopes such as": lambda: torchrecorder.record(MODEL, X, keep=[MODEL]),
    "keep must be .* none of them empty, not ..": lambda: torchrecorder.record(MODEL, X, keep=""),
    r"keep must be .* none of them empty, not \['0', ' '\]": lambda: torchrecorder.record(
        MODEL, X, keep=["0", " "]
    ),
    "timeout must be a number of seconds above 0, at most 1,000,000, not 1": lambda: RUN.render(
        "net.svg", timeout=1e10
    ),
    "dpi must be a number of pixels per inch above 0, at most 1,000,000, not 1": (
        lambda: RUN.render("net.png", dpi=1e9)
    ),
    "has no statistics": lambda: torchrecorder.Series(MODEL).add(RUN, 0),
    "n must be a whole number of at least 0": lambda: RUN.top("parameters", -1),
    r"top\(\) has no argument 'bye'; did you mean 'by'": lambda: RUN.top("parameters", bye="op"),
    r"summary\(\) has no argument 'opz'; did": lambda: RUN.summary(opz=True),
    r"summary\(\) has no argument 'dept'; did you mean 'depth'": lambda: torchrecorder.summary(
        MODEL, X, dept=2
    ),
    "columns must be a list of names": lambda: RUN.summary(columns="flops"),
    "columns must be a list of names.*3": lambda: RUN.table(3),
    "this is the class ReLU, not a model": lambda: torchrecorder.record(torch.nn.ReLU, X),
    "kwargs must be a mapping": lambda: torchrecorder.record(MODEL, X, "ab"),
    r"pass several inputs as a tuple: record\(model, \(x, y\)\)": lambda: torchrecorder.record(
        MODEL, X, X
    ),
    "either args or input_data": lambda: torchrecorder.record(MODEL, X, input_data=X),
    "model must be a module": lambda: torchrecorder.Recorder(3),
    "not a class": lambda: torchrecorder.Recorder(torch.nn.ReLU),
    "model must be a callable": lambda: torchrecorder.Series(3),
    "scopes must be a string or a list": lambda: torchrecorder.Series(MODEL, scopes=3),
    "finish must give a Figure, not None": lambda: torchrecorder.figure(
        RUN, finish=lambda figure, view: None
    ),
    "a rule must give a Look or None": lambda: torchrecorder.figure(
        RUN, rules=(lambda box, view, theme: 3,)
    ),
}


class Odd(torchrecorder.GraphvizStyler):
    """Answers with no attributes."""

    def style_node(self, node: Any) -> Any:
        """A number."""
        return 3


class OddLines(torchrecorder.GraphvizStyler):
    """Answers with an arrow that Graphviz does not have."""

    def style_edge(self, from_node: Any, to_node: Any) -> dict[str, Any]:
        """A misspelled one."""
        return {"arrowhead": "nromal"}


def _number(compute: Any, show: Any = str) -> Annotation:
    return Annotation("mine", "Mine", "", compute, None, show)


CALLS |= {
    "rankdir is called direction here: .* not 'lr'": lambda: drawing(rankdir="lr"),
    "bgcolor is called background here: .* not 'nocolor'": lambda: drawing(bgcolor="nocolor"),
    "style must be .* not .'fillcolor'": lambda: drawing(style={"fillcolor": "red"}),
    "what style_node gives must be a mapping": lambda: torchrecorder.make_dot(RUN, styler_cls=Odd),
    "did you mean 'normal'": lambda: torchrecorder.make_dot(RUN, styler_cls=OddLines),
    "compute must be a callable": lambda: _number(3),
    "show must be a callable": lambda: _number(lambda recording: {}, None),
    "what 'mine' computes must be a mapping from ids to numbers": lambda: RUN.top(
        _number(lambda recording: dict.fromkeys(recording.ops, "x"))
    ),
    "looks must be a mapping to a Look from each of activation": lambda: replace(LIGHT, looks={}),
    "given must be a tuple of gradients": lambda: torchrecorder.record(
        MODEL, X, backward=True, replay=True
    ).replay("g0", 3),
}


@pytest.mark.parametrize("said", CALLS)
def test_a_wrong_call_is_refused(said: str) -> None:
    """With an error of ours, and not one from where it would have hurt."""
    with pytest.raises(TorchRecorderError, match=said):
        CALLS[said]()


OTHER = torchrecorder.compare(RUN, torchrecorder.record(torch.nn.Linear(4, 2), X))
SERIES = torchrecorder.Series(MODEL)
BASES = {
    "record": {"model": MODEL, "args": X},
    "render_network": {"model": MODEL, "args": X},
    "summary": {"model": MODEL, "args": X},
    "Recording.summary": {},
    "compare": {"before": RUN, "after": RUN},
    "merge": {"recordings": RUN},
    "plan": {"factory": torch.nn.Linear, "mesh": {"dp": 2}},
    "top": {"name": "parameters"},
    "replay": {"grad": "g0"},
    "paths": {"start": "input", "end": "output"},
    "add": {"step": 0},
}
"""Arguments that have to be given beside the one that is tried."""


def _public() -> dict[str, Callable[..., Any]]:
    """Every public function, and every public method of what functions give."""
    found = {name: getattr(torchrecorder, name) for name in torchrecorder.__all__}
    found = {name: one for name, one in found.items() if not inspect.isclass(one)}
    found |= {"Recorder": torchrecorder.Recorder, "Series": torchrecorder.Series}
    for thing in (RUN, OTHER, SERIES):
        for name, method in inspect.getmembers(thing, inspect.ismethod):
            if not name.startswith("_"):
                found[f"{type(thing).__name__}.{name}"] = method
    return found


PUBLIC = _public()
FREE = {("record", "args"), ("record", "input_data"), ("render_network", "args")}
FREE |= {("render_network", "input_data"), ("summary", "args")}
"""What the model is given, whatever it is."""


def _parameters() -> Iterator[tuple[str, str]]:
    for name, function in PUBLIC.items():
        for parameter in inspect.signature(function).parameters.values():
            plain = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if plain and (name, parameter.name) not in FREE:
                yield name, parameter.name


@pytest.mark.parametrize(("name", "parameter"), _parameters())
def test_every_parameter_of_the_public_functions_is_checked(name: str, parameter: str) -> None:
    """No object of a strange class gets further than the first line."""
    function = PUBLIC[name]
    given = dict(BASES.get(name, BASES.get(name.rpartition(".")[2], {})))
    for each in inspect.signature(function).parameters.values():
        if each.default is each.empty and each.name in ("recording", "path"):
            given.setdefault(each.name, RUN if each.name == "recording" else "nowhere.svg")
    with pytest.raises(TorchRecorderError):
        function(**{**given, parameter: object()})


@pytest.mark.parametrize("kind", [list, tuple, lambda models: dict(zip("ab", models))])
def test_several_models_have_another_place(kind: Callable[[Any], Any]) -> None:
    """The message says which; and there, their calls have the names of the models."""
    models = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)]
    with pytest.raises(InvalidArgument, match="give several as torch.nn.ModuleDict"):
        torchrecorder.Recorder(kind(models))
    with pytest.raises(InvalidArgument, match="must be a module or another callable"):
        torchrecorder.Recorder(kind([]))
    recorder_of_any: Any = torchrecorder.Recorder
    with pytest.raises(TypeError, match="takes model, not 2 arguments .*give several as torch.nn"):
        recorder_of_any(*models)
    with torchrecorder.Recorder(torch.nn.ModuleDict({"G": models[0], "D": models[1]})) as recorder:
        models[1](models[0](torch.ones(1, 2)))
    assert [scope.path for scope in recorder.recording.scopes.values()] == ["G", "D"]

"""Parts of the Sphinx extension on their own: addresses, options, descriptions."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("sphinx")

import torch  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx.errors import NoUri  # noqa: E402

import torchrecorder  # noqa: E402
from torchrecorder.errors import Notice  # noqa: E402
from torchrecorder.integrations.import_target import ModelFailed  # noqa: E402
from torchrecorder.integrations.sphinx import _copy_static, notices, options, sources  # noqa: E402
from torchrecorder.integrations.sphinx.cache import Cache  # noqa: E402
from torchrecorder.integrations.sphinx.directive import TorchRecorder  # noqa: E402
from torchrecorder.integrations.sphinx.links import (  # noqa: E402
    _found, aside, with_addresses, with_names,
)
from torchrecorder.integrations.sphinx.node import described  # noqa: E402
from torchrecorder.integrations.sphinx.request import Request, _executed  # noqa: E402
from torchrecorder.integrations.sphinx.writers import _fitting  # noqa: E402
from torchrecorder.integrations.targets import Target  # noqa: E402
from torchrecorder.options import OPTIONS  # noqa: E402
from torchrecorder.style.draw import draw  # noqa: E402
from torchrecorder.style.style import Style  # noqa: E402
from torchrecorder.views.pipeline import make_view  # noqa: E402


@pytest.mark.parametrize(
    ("address", "page", "folder", "seen"),
    [
        ("https://example.org/a.html#b", "guide/x.html", "_images", "https://example.org/a.html#b"),
        ("#b", "guide/x.html", "_images", "../guide/x.html#b"),
        ("../api.html#b", "guide/x.html", "_images", "../api.html#b"),
        ("y.html", "guide/x.html", "_images", "../guide/y.html"),
        ("#b", "", "_images", "../#b"),
        ("../y/#b", "guide/x/", "_images", "../guide/y/#b"),
    ],
)
def test_addresses(address, page, folder, seen):
    """An address on a page, as a file among the images writes it."""
    assert aside(address, page, folder) == seen


def test_options_of_the_directive():
    """What text can express of a drawing is an option, also with hyphens; functions are not."""
    others = {"dpi", "indent", "most_lines", "most_text"}  # of formats that no page has
    written = {name for name, one in OPTIONS.items() if one.check.read is not None} - others
    assert written <= set(options.ALL) and len(written) > 30
    assert {"color-range", "edge-attributes", "as-is", "label"} <= set(options.ALL)
    assert not {"rules", "finish", "notes", *others} & set(options.ALL)


def test_several_values():
    """They stand on lines of their own, or between semicolons."""
    given = {
        "rename": "fc = Classifier\nconv1=Stem", "group": "Stem = conv1, bn1", "hide": "a, b; c",
        "node-attributes": "penwidth=2", "option": "ranksep=1; nodesep=0.5", "fold": None,
        "colors": "fc = #caffbf; conv1=red",
    }
    assert options.drawing(given) == {
        "rename": {"fc": "Classifier", "conv1": "Stem"}, "group": {"Stem": ("conv1", "bn1")},
        "hide": ("a", "b", "c"), "node_attributes": {"penwidth": "2"}, "ranksep": 1,
        "nodesep": 0.5, "fold": True, "colors": {"fc": "#caffbf", "conv1": "red"},
    }
    made = options.target("nets:Net", {"shape": "1,3\nx=2", "arg": "3; gelu", "set": "bias=no"})
    assert [(shape.name, shape.sizes) for shape in made.shape] == [(None, (1, 3)), ("x", (2,))]
    assert (made.arg, made.set, made.seed, made.train) == ((3, "gelu"), {"bias": "no"}, 0, False)
    with pytest.raises(ValueError, match=":rename: cannot read 'fc': write NAME=TEXT"):
        options.drawing({"rename": "fc"})
    with pytest.raises(ValueError, match=":node-attributes: it needs a value; .* colon in MyST"):
        options.drawing({"node_attributes": ""})


def test_links_without_addresses_are_none():
    """Only names that are documented somewhere stay links."""
    links = [f'<a xlink:href="torchrecorder:{name}"><g>{name}</g></a>' for name in ("a.B", "c")]
    svg = "".join(links)
    assert with_addresses(svg, {"a.B": "x?y&z"}) == (
        '<a xlink:href="x?y&amp;z" target="_parent"><g>a.B</g></a><g>c</g>'
    )


def test_described():
    """Alternative text names three ends at most."""
    four = tuple(torch.ones(2) for _ in range(4))
    recording = torchrecorder.record(lambda a, b, c, d: a + b + c + d, four)
    assert recording.name in described(recording) and "…" in described(recording)


def test_fold_is_a_word_or_a_flag():
    """As `Recording.render` takes it."""
    texts = (None, "yes", "no", "similar")
    read = [options.drawing({"fold": text})["fold"] for text in texts]
    assert read == [True, True, False, "similar"]
    with pytest.raises(ValueError, match=":fold: it must be yes, no or 'similar', not 'perhaps'"):
        options.drawing({"fold": "perhaps"})


def test_figures_are_made_again_for_another_version(monkeypatch, tmp_path):
    """Whatever of its code changed, also that of the page; not for what Python compiled."""
    monkeypatch.setattr(sources, "_OWN", tmp_path)
    states = []
    for name in ("a.py", "a.py", "inner/b.js", "c.css", "a.pyc", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{len(states)}")
        states.append(sources.own_state.__wrapped__())
    assert len(set(states)) == 4 and states[3] == states[4] == states[5]


def test_links_of_boxes():
    """To the name of what they stand for; inputs have none, and a link of the user's stays."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    recording = torchrecorder.record(model, torch.ones(1, 2))
    view = make_view(recording)
    named = with_names(draw(view, Style()), view)
    found = {shape.id: shape.look.attributes.get("URL") for shape in named.shapes}
    assert {item for item in found.values() if item} == {
        "torchrecorder:torch.nn.modules.linear.Linear",
        "torchrecorder:torch.nn.modules.activation.ReLU",
    }
    assert None in found.values() and "torchrecorder:" not in found.values()
    for key in ("URL", "href"):
        own = tuple(
            replace(shape, look=replace(shape.look, attributes={key: "mine"}))
            for shape in named.shapes
        )
        again = with_names(replace(named, shapes=own), view)
        assert all(shape.look.attributes == {key: "mine"} for shape in again.shapes)


def test_the_cache_makes_its_folder(tmp_path):
    """With those around it."""
    Cache(tmp_path / "doctrees" / "torchrecorder")
    assert (tmp_path / "doctrees" / "torchrecorder").is_dir()


def test_what_the_cache_has_is_not_recorded_again(monkeypatch, tmp_path):
    """Also by another object, as that of the next build."""
    request = Request(Target(""), code="from torch import nn, ones\nnn.Tanh(), ones(1, 2)")
    first, _ = Cache(tmp_path).recorded(request)
    monkeypatch.delattr(Request, "run")
    again, _ = Cache(tmp_path).recorded(request)
    assert again == first


@pytest.mark.parametrize(
    ("error", "format", "copied"),
    [(None, "html", True), (ValueError(), "html", False), (None, "latex", False)],
)
def test_files_of_pages(error, format, copied, tmp_path):
    """They are for pages that were built to their end."""
    app = SimpleNamespace(builder=SimpleNamespace(format=format), outdir=str(tmp_path / "out"))
    _copy_static(app, error)
    assert (tmp_path / "out" / "_static" / "torchrecorder.css").is_file() is copied


@pytest.mark.parametrize(("given", "shown"), [
    ({}, "figure"), ({"code": "none"}, "figure"), ({"code": "before"}, "code figure"),
    ({"code": "after"}, "figure code"),
])
def test_where_the_code_stands(given, shown):
    """Beside its figure if that is asked for; without code there is only the figure."""
    frame = nodes.figure()
    block = SimpleNamespace(content=["net = 1"], options=given, set_source_info=lambda node: None)
    kinds = {nodes.figure: "figure", nodes.literal_block: "code"}
    found = TorchRecorder._with_code(block, frame)
    assert " ".join(kinds[type(node)] for node in found) == shown
    block.content = []
    assert TorchRecorder._with_code(block, frame) == [frame]


def test_figures_of_latex_have_the_size_that_is_asked_for():
    """Else they are no higher than the page."""
    assert _fitting("{f}", "width=3cm") == "\\sphinxincludegraphics[width=3cm]{f}"
    assert "\\textheight" in _fitting("{f}", "")


def test_figures_with_links_are_other_figures(tmp_path):
    """One for pages with links in it, one for those without; each is drawn once."""
    cache, calls = Cache(tmp_path), []
    recording = torchrecorder.record(torch.nn.Linear(2, 2), torch.ones(1, 2))
    torchrecorder.save(recording, tmp_path / "net.json.gz")

    def finish(figure, view):
        calls.append(view)
        return replace(figure, fontsize=33.0)

    for _ in range(2):
        plain, linked = cache.figure("net", ".dot", {}), cache.figure("net", ".dot", {}, finish)
        assert plain != linked and len(calls) == 1
    assert "33" in linked.read_text() and "33" not in plain.read_text()


def test_figures_that_no_build_uses_are_removed(tmp_path):
    """After some days, if the cache has a limit; each use counts, not only the first."""
    recording = torchrecorder.record(torch.nn.Linear(2, 2), torch.ones(1, 2))
    torchrecorder.save(recording, tmp_path / "net.json.gz")
    unlimited, limited = Cache(tmp_path), Cache(tmp_path, days=30)
    for kept, cache in ((True, unlimited), (False, limited)):
        unused, used = (cache.figure("net", ".dot", {"depth": depth}) for depth in (1, 2))
        for path in (unused, used):
            os.utime(path, (time.time() - 30 * 24 * 3600 - 60,) * 2)
        cache.figure("net", ".dot", {"depth": 2})
        cache.figure("net", ".dot", {"depth": 3 + kept})
        assert (unused.is_file(), used.is_file()) == (kept, True)


def test_names_are_looked_up_in_other_projects_too():
    """Those that this one documents come first; some have no address."""
    def find(own, elsewhere):
        def ask(event, *_, allowed_exceptions=()):
            assert event == "missing-reference"
            if elsewhere is NoUri and NoUri in allowed_exceptions:
                raise NoUri
            return elsewhere

        python = SimpleNamespace(resolve_xref=lambda *_: own)
        env = SimpleNamespace(domains={"py": python})
        app = SimpleNamespace(env=env, builder=None, emit_firstresult=ask)
        return _found(app, "page", "a.B", None)

    assert find("here", "there") == "here"
    assert find(None, "there") == "there"
    assert find(None, None) is find(None, NoUri) is None


@pytest.mark.parametrize(
    ("code", "said"),
    [("", "its last line must be a model"), ("x = 1", "its last line must be a model"),
     ("x = 1 / 0", "division by zero"), ("x = 1\ny", "name 'y' is not defined")],
)
def test_what_is_wrong_with_code(code, said):
    """All lines run, whatever the last one is; no line is no model."""
    with pytest.raises(ModelFailed, match=f"the code of the directive.*{said}"):
        _executed(Request(Target(""), code=code), {})
    assert _executed(Request(Target(""), code="z = 2\nz + 1"), {}) == 3


def test_warnings_of_a_file_in_the_cache_come_again(monkeypatch, tmp_path):
    """Until it is made without any."""
    said = ["too small"]

    def render(recording, path, **_):
        path.write_text("a figure")
        for text in said:
            warnings.warn(text, Notice)

    monkeypatch.setattr(torchrecorder.drawing, "render", render)
    monkeypatch.setattr(Cache, "recording", lambda cache, name: None)
    cache = Cache(tmp_path)

    def told():
        found = []
        with notices.notices_to(found.append):
            path = cache.figure("name", ".svg", {})
        assert path.read_text() == "a figure"
        return path, found

    path, first = told()
    assert first == told()[1] == ["too small"]
    path.unlink()
    said.clear()
    assert told()[1] == told()[1] == []
    assert not notices.kept_in(path).exists()


def test_warnings_of_a_recording_in_the_cache_come_again(monkeypatch, tmp_path):
    """As those of a figure."""
    request = Request(Target(""), code="from torch import nn, ones\nnn.Tanh(), ones(1, 2)")

    def warned(self):
        warnings.warn("not recorded", Notice)
        return made(self)

    made = Request.run
    monkeypatch.setattr(Request, "run", warned)
    for _ in range(2):
        found = []
        with notices.notices_to(found.append):
            Cache(tmp_path).recorded(request)
        assert found == ["not recorded"]


@pytest.mark.parametrize(("given", "path"), [
    ("run.json.gz", "/docs/run.json.gz"), ("nets.py:Net", "/docs/nets.py:Net"),
    ("nets:Net", "nets:Net"), ("nets:config.json", "nets:config.json"), ("nets", "nets"),
])
def test_files_are_beside_the_page(given, path):
    """Names in modules are no files."""
    env = SimpleNamespace(relfn2path=lambda file: (file, f"/docs/{file}"))
    assert TorchRecorder._path(SimpleNamespace(env=env), given) == path

"""Parts of the Sphinx extension on their own: addresses, options, descriptions."""

from __future__ import annotations


import pytest

pytest.importorskip("sphinx")

import torch  # noqa: E402

import torchrecorder  # noqa: E402
from torchrecorder.integrations.sphinx import options, sources  # noqa: E402
from torchrecorder.integrations.sphinx.alt_text import described  # noqa: E402
from torchrecorder.integrations.sphinx.links import aside, with_addresses  # noqa: E402
from torchrecorder.options import OPTIONS  # noqa: E402


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
    written = {name for name, one in OPTIONS.items() if one.check.read is not None}
    assert written <= set(options.ALL) and len(written) > 30
    assert {"color-range", "edge-attributes", "as-is", "label"} <= set(options.ALL)
    assert not {"rules", "finish", "notes"} & set(options.ALL)


def test_several_values():
    """They stand on lines of their own, or between semicolons."""
    given = {
        "rename": "fc = Classifier\nconv1=Stem", "group": "Stem = conv1, bn1", "hide": "a, b; c",
        "node-attributes": "penwidth=2", "option": "ranksep=1; nodesep=0.5", "fold": None,
    }
    assert options.drawing(given) == {
        "rename": {"fc": "Classifier", "conv1": "Stem"}, "group": {"Stem": ("conv1", "bn1")},
        "hide": ("a", "b", "c"), "node_attributes": {"penwidth": "2"}, "ranksep": 1,
        "nodesep": 0.5, "fold": True,
    }
    made = options.target("nets:Net", {"shape": "1,3\nx=2", "arg": "3; gelu", "set": "bias=no"})
    assert [(shape.name, shape.sizes) for shape in made.shape] == [(None, (1, 3)), ("x", (2,))]
    assert (made.arg, made.set, made.seed, made.train) == ((3, "gelu"), {"bias": "no"}, 0, False)
    with pytest.raises(ValueError, match=":rename: cannot read 'fc': write NAME=TEXT"):
        options.drawing({"rename": "fc"})


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

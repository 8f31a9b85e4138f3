"""Parts of the Sphinx extension on their own: addresses, options, descriptions."""

from __future__ import annotations

from dataclasses import fields

import pytest

pytest.importorskip("sphinx")

import torch  # noqa: E402

import torchrecorder  # noqa: E402
from torchrecorder.integrations.sphinx import options  # noqa: E402
from torchrecorder.integrations.sphinx.alt import described  # noqa: E402
from torchrecorder.integrations.sphinx.links import aside, with_addresses  # noqa: E402
from torchrecorder.style.style import Style  # noqa: E402
from torchrecorder.views.plan import ViewOptions  # noqa: E402


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


def test_every_option_of_a_figure_can_be_said():
    """What text can say of a view or a style is an option; objects and functions are not."""
    simple = ("bool", "int | None", "float", "str | None", "str", "tuple[str, ...]")
    named = [each for each in (*fields(ViewOptions), *fields(Style)) if each.type in simple]
    assert len(named) > 15
    assert {each.name for each in named} - set(options.PLACED) <= set(options.ALL)
    assert {"color_by", "color-range", "numbers", "rename", "group"} <= set(options.ALL)
    assert not {"rules", "finish", "attributes", "node_attributes"} & set(options.ALL)


def test_names_in_pairs():
    """What is renamed and what is grouped stands on lines of its own."""
    assert options.pairs("fc = Classifier\nconv1=Stem") == {"fc": "Classifier", "conv1": "Stem"}
    assert options.groups("Stem = conv1, bn1") == {"Stem": ("conv1", "bn1")}
    with pytest.raises(ValueError, match="NAME = NAME"):
        options.pairs("fc")


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
    read = options.DRAWN["fold"]
    assert [read(text) for text in (None, "yes", "no", "similar")] == [True, True, False, "similar"]
    with pytest.raises(ValueError, match="neither yes nor no"):
        read("perhaps")

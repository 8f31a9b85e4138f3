"""What is written into a page cannot leave it: names, scripts, themes, and equal bytes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.figures import linear
from tests.page.test_data import data_of
from tests.views.test_fold import stack
from torchrecorder.export import html
from torchrecorder.export.html import ESCAPES, embedded, page, policy
from torchrecorder.export.page_data.data import page_data
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import make_view

HOSTILE = "</script><img src=x onerror=alert(1)>"


def test_two_runs_of_one_model_give_the_same_bytes() -> None:
    """Once times are left out."""
    assert embedded(data_of(stack(5))) == embedded(data_of(stack(5)))


def test_times_can_be_left_out() -> None:
    """No annotation in seconds stays."""
    run = Builder("Timed")
    with run.scope("Timed"):
        run.op("relu", run.input())
    recording = run.recording()
    timed = {op: found.replace(seconds=0.5) for op, found in recording.ops.items()}
    view = make_view(replace(recording, ops=timed))
    keys = [
        {each["key"] for each in page_data(view, Style(), times)["annotations"]}
        for times in (True, False)
    ]
    assert keys[0] - keys[1] == {"forward_time", "time"}


def test_hostile_names_cannot_leave_their_script_element() -> None:
    """Nothing in the data can end the element, or begin another."""
    run = Builder(HOSTILE)
    with run.scope(HOSTILE, "<!--<script>"):
        linear(run, HOSTILE, run.input(HOSTILE))
    data = data_of(run.recording())
    text = embedded(data)
    assert not set(text) & ESCAPES.keys()
    assert json.loads(text)["name"] == HOSTILE


def test_the_head_of_a_page_has_its_name_and_theme_and_nothing_else_of_the_run() -> None:
    """A name is text, whatever is in it; the system of the reader chooses where no theme does."""
    data = data_of(stack(2))
    for name, title in (
        (HOSTILE, "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"),
        ("{{ data }} & more", "{{ data }} &amp; more"),
    ):
        head = page({**data, "name": name}).partition("<style>")[0]
        assert f"<title>{title}</title>" in head and HOSTILE not in head
    for theme in ("auto", "light", "dark"):
        head = page({**data, "theme": theme}).partition("<style>")[0]
        assert (f'<html lang="en" data-theme="{theme}">' in head) == (theme != "auto")
        assert ('<html lang="en">' in head) == (theme == "auto")


def test_unprintable_names_are_replaced() -> None:
    """Half of a surrogate pair cannot be written in UTF-8."""
    run = Builder("Odd")
    with run.scope("Odd"):
        linear(run, "a\ud800\x00b", run.input())
    embedded(data_of(run.recording())).encode()


def test_policy_names_every_script() -> None:
    """By its digest; nothing is fetched."""
    policy_text = policy(["one()", "two()"], "p {}")
    assert policy_text.count("'sha256-") == 3 and "default-src 'none'" in policy_text
    assert "unsafe" not in policy_text and "http" not in policy_text


def test_what_all_pages_share_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts and styles, without what only their writers need, and the policy for them."""
    data = data_of(stack(2))
    first = page(data)
    monkeypatch.delattr(html, "_lean")
    monkeypatch.delattr(html, "policy")
    assert page(data) == first

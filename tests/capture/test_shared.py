"""Settings of the process that several recorders share, and what is put back of them."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torchrecorder.capture.recorder import Recorder
from torchrecorder.capture.state.shared_patch import SharedPatch, replaced


@pytest.mark.parametrize("order", itertools.permutations("abc"))
def test_a_setting_is_made_by_the_first_and_undone_by_the_last(order: tuple[str, ...]) -> None:
    """In whatever order they end; another one after that makes it again."""
    seen: list[str] = []

    @contextlib.contextmanager
    def setting() -> Iterator[None]:
        seen.append("made")
        yield
        seen.append("undone")

    shared: SharedPatch[str] = SharedPatch(setting)
    for user in "abc":
        shared.add(user)
    for place, user in enumerate(order):
        assert seen == ["made"] and set(shared.users) == set(order[place:])
        shared.remove(user)
        shared.remove(user)
    assert seen == ["made", "undone"] and not shared.users
    shared.add("d")
    assert seen == ["made", "undone", "made"]


def test_a_setting_that_cannot_be_made_has_no_users() -> None:
    """It is tried again for the next one."""
    tried: list[int] = []

    @contextlib.contextmanager
    def setting() -> Iterator[None]:
        tried.append(len(tried))
        if len(tried) == 1:
            raise LookupError
        yield

    shared: SharedPatch[str] = SharedPatch(setting)
    with pytest.raises(LookupError):
        shared.add("a")
    assert shared.users == ()
    shared.add("b")
    assert shared.users == ("b",) and tried == [0, 1]


class Base:
    """Has a method."""

    def method(self) -> int:
        return 1


class Derived(Base):
    """Inherits it."""


@pytest.mark.parametrize("cls", [Base, Derived])
def test_an_attribute_is_replaced_for_a_while(cls: type[Base]) -> None:
    """Afterwards it is inherited, if it was before."""
    before = dict(vars(cls))
    with replaced(cls, "method", lambda self: 2):
        assert cls().method() == 2
    assert dict(vars(cls)) == before and cls().method() == 1


def test_what_the_program_puts_there_meanwhile_stays() -> None:
    """Whoever replaced it last wanted that."""
    before = Base.method
    with replaced(Base, "method", lambda self: 2):
        Base.method = lambda self: 3  # type: ignore[method-assign]
    try:
        assert Base().method() == 3
    finally:
        Base.method = before  # type: ignore[method-assign]


def test_a_profile_function_that_the_program_sets_inside_stays() -> None:
    """It is called in its threads, and is there after the block."""
    heard: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        heard.append(event)

    before = threading.getprofile()
    try:
        with Recorder():
            threading.setprofile(profile)
            thread = threading.Thread(target=torch.ones, args=(1,))
            thread.start()
            thread.join()
        assert threading.getprofile() is profile and heard
    finally:
        threading.setprofile(before)  # type: ignore[arg-type]


def test_a_start_of_threads_that_the_program_sets_inside_stays() -> None:
    """As that of a debugger, which calls the one that was there before."""
    before, started = threading.Thread.start, []
    try:
        with Recorder(threads=True):
            inside = threading.Thread.start

            def start(self: threading.Thread) -> None:
                started.append(self)
                inside(self)

            threading.Thread.start = start  # type: ignore[method-assign]
        assert threading.Thread.start is start
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        assert started == [thread]
    finally:
        threading.Thread.start = before  # type: ignore[method-assign]

"""Recorders in several threads: what all threads share is put back when the last has ended."""

from __future__ import annotations

import sys
import threading

import pytest
import torch

import torchrecorder as tr
from torchrecorder.capture.autograd.thread_nodes import ThreadStartHook
from torchrecorder.capture.state.shared_patch import RaisedRecursionLimit
from torchrecorder.capture.tape import Tape


@pytest.mark.filterwarnings("ignore:.*ran eagerly")
def test_the_compiler():
    """The one that began first may end first: until the last has ended nothing is compiled."""
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    @torch.compile(backend=backend)
    def double(x):
        return x * 2

    one, other = tr.Recorder(), tr.Recorder()
    entered, ended = threading.Event(), threading.Event()

    def beside():
        with other:
            entered.set()
            ended.wait()
            double(torch.ones(2))

    thread = threading.Thread(target=beside)
    with one:
        thread.start()
        entered.wait()
    ended.set()
    thread.join()
    assert not compiled
    double(torch.ones(2))
    assert compiled


def test_recursion_limit_and_profile_function():
    """Left in the order in which they were entered, and with one entered between."""
    before = sys.getrecursionlimit(), threading.getprofile()
    heard = []
    shared = [
        (RaisedRecursionLimit(), ThreadStartHook(Tape(), lambda: heard.append(1))) for _ in range(3)
    ]

    def enter(number):
        for each in shared[number]:
            each.__enter__()

    def leave(number):
        for each in shared[number]:
            each.__exit__(None, None, None)

    enter(0), enter(1), leave(0)
    assert sys.getrecursionlimit() > before[0]
    enter(2), leave(1)
    threading.Thread(target=int).start()
    assert heard == [1]
    leave(2)
    assert (sys.getrecursionlimit(), threading.getprofile()) == before

"""A pytest plugin that, in place of the tests, runs trials: one mutant against its tests.

Tests are imported and collected once. A trial is a fork of this process, in which the functions
of the mutated file are given their new code. What runs when a file is imported cannot be changed
so: then a fresh pytest runs the tests.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutation.trial import Trial

ROOT = Path.cwd()
WITHIN = 30
"""Seconds a test may take, besides ten times what it took when it was measured."""

FRESH = ("-q", "-x", "-p", "no:cacheprovider")


class Trials:
    """Takes trials from one pipe, writes which test failed to another; nothing if none did."""

    def __init__(self) -> None:
        self.stamp = 0
        self.functions: dict[CodeType, list[FunctionType]] = {}
        self.failed: int | None = None
        """Where a trial writes the name of a test that failed."""
        self.steady: dict[str, bool] = {}
        """Tests that failed in a trial: whether they pass in one without a change."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all trials."""
        items = {item.nodeid: item for item in session.items}
        self.functions = _functions()
        gc.freeze()
        with open(os.environ["MUTATION_TRIALS"]) as given:
            trials = [Trial(*json.loads(line)) for line in given]
        with open(os.environ["MUTATION_RESULTS"], "w", buffering=1) as results:
            for trial in trials:
                noticed = self._noticed(items, trial)
                print("." if noticed else "S", end="", flush=True)
                results.write(json.dumps(noticed) + "\n")
            print()
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In a trial: the first failure ends it."""
        if self.failed is not None and report.failed:
            os.write(self.failed, report.nodeid.encode())
            os._exit(1)

    def _noticed(self, items: dict[str, pytest.Item], trial: Trial) -> str:
        """The test that notices a mutant, empty if none does."""
        tests = [test for test in trial.tests if test[0] in items]
        while tests:
            with self._written(trial) as original:
                found = self._run(items, trial, tests, original)
            if not found or self._passes_unchanged(items, found):
                return found
            tests = [test for test in tests if test[0] != found]
        return ""

    def _run(
        self, items: dict[str, Any], trial: Trial, tests: list[tuple[str, float]], original: str
    ) -> str:
        replacements = None if trial.at_import else self._new_code(trial, original)
        if replacements is None:
            return _run_fresh(tests)
        return self._fork(items, tests, replacements)

    def _new_code(self, trial: Trial, original: str) -> list[tuple[FunctionType, CodeType]] | None:
        """Functions with their new code; ``None`` where they cannot be given it."""
        module = trial.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if module not in sys.modules:
            return []  # its import is still to come
        path = str(ROOT / trial.path)
        old, new = (list(_codes(compile(text, path, "exec"))) for text in (original, trial.text))
        pairs = [
            (function, code)
            for before, code in zip(old, new) if before != code
            for function in self.functions.get(before, ())
        ]
        fits = all(function.__code__.co_freevars == code.co_freevars for function, code in pairs)
        return pairs if pairs and fits and len(old) == len(new) else None

    def _passes_unchanged(self, items: dict[str, pytest.Item], test: str) -> bool:
        if test in items and test not in self.steady:
            self.steady[test] = not self._fork(items, [(test, WITHIN)], [])
        return self.steady.get(test, True)

    def _fork(
        self, items: dict[str, pytest.Item], tests: list[tuple[str, float]],
        replacements: list[tuple[FunctionType, CodeType]],
    ) -> str:
        """The test that fails, or does not end, in a child process with new code."""
        reading, self.failed = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            for function, code in replacements:
                function.__code__ = code
            self._run_items([(items[name], seconds) for name, seconds in tests])
        os.close(self.failed)
        self.failed = None
        with open(reading) as pipe:
            _, status = os.waitpid(child, 0)
            _end_group(child)
            found = pipe.read()
        return found or ("" if status == 0 else f"ended with status {status}")

    def _run_items(self, items: list[tuple[pytest.Item, float]]) -> None:
        """Run tests until one fails; does not return."""
        config = items[0][0].config
        config.pluginmanager.unregister(name="terminalreporter")
        following = [item for item, _ in items[1:]] + [None]
        try:
            for (item, seconds), next_item in zip(items, following):
                signal.setitimer(signal.ITIMER_REAL, WITHIN + 10 * seconds)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        except BaseException:
            os._exit(2)
        os._exit(0)

    @contextmanager
    def _written(self, trial: Trial) -> Iterator[str]:
        """The mutated file in the place of the original, which is given."""
        path = ROOT / trial.path
        original = path.read_text(encoding="utf-8")
        try:
            self._write(path, trial.text)
            yield original
        finally:
            self._write(path, original)

    def _write(self, path: Path, text: str) -> None:
        """With a time of its own: compiled files are told apart by time and size."""
        path.write_text(text, encoding="utf-8")
        self.stamp += 1
        os.utime(path, (self.stamp, self.stamp))


def _functions() -> dict[CodeType, list[FunctionType]]:
    """All functions of the package that were made so far, by their code."""
    package, found = str(ROOT / "torchrecorder"), defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(package):
            found[each.__code__].append(each)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _run_fresh(tests: list[tuple[str, float]]) -> str:
    """The test that fails, or does not end, in a pytest of its own."""
    command = [sys.executable, "-m", "pytest", *FRESH, *(name for name, _ in tests)]
    limit = WITHIN + 10 * sum(seconds for _, seconds in tests)
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return "did not end"
    failed = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("FAILED ")]
    return (failed or [f"ended with status {ran.returncode}"])[0] if ran.returncode else ""


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def pytest_configure(config: pytest.Config) -> None:
    """Put trials in the place of tests."""
    config.pluginmanager.register(Trials())

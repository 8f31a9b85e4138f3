"""A pytest plugin that measures which lines of which function each test runs, and its time.

``coverage`` switches its context with every test. Lines are counted from the first of their
function: what was measured stays true while other functions of the same file change.
"""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutation import coverage_store, functions

ROOT = Path.cwd()
FOLDER = Path(os.environ["MUTATION_COVERAGE"])

measuring = coverage.Coverage(
    data_file=None, config_file=False, source=[str(ROOT / "torchrecorder")], messages=False
)
measuring.start()
seconds: dict[str, float] = defaultdict(float)
not_passed: set[str] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """What runs from here on is run by this test."""
    measuring.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        measuring.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of setup, call and teardown."""
    seconds[report.nodeid] += report.duration
    if report.outcome != "passed":
        not_passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write what was measured, also for files in which no test passed.

    If a file could not be imported, no test has run.
    """
    measuring.stop()
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        return
    lines = _lines_by_test(measuring.get_data())
    tests: dict[str, dict[str, Any]] = {name: {} for name in session.config.args}
    for test in sorted(set(seconds) - not_passed):
        measured = {"seconds": round(seconds[test], 4), "lines": lines[test]}
        tests.setdefault(test.split("::")[0], {})[test] = measured
    for name, found in tests.items():
        coverage_store.store(FOLDER, ROOT / name, found)
    coverage_store.store_imported(FOLDER, lines[""])


def _lines_by_test(data: coverage.CoverageData) -> dict[str, coverage_store.Lines]:
    found: dict[str, coverage_store.Lines] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(int))
    )
    for name in data.measured_files():
        path = Path(name).relative_to(ROOT).as_posix()
        function_of = functions.by_line(ast.parse(Path(name).read_text(encoding="utf-8")))
        for line, contexts in data.contexts_by_lineno(name).items():
            function = function_of.get(line)
            for test in contexts if function else ():
                found[test][path][function.name] |= 1 << (line - function.first)
    return found

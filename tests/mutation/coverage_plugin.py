"""A pytest plugin that measures which lines of which function each test runs, and its time.

``coverage`` switches its context with every test, and measures the Python processes that a test
starts, under the name of this test. Lines are counted from the first of their function: what was
measured stays true while other functions of the same file change.
"""

from __future__ import annotations

import ast
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
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

CHILDREN = tempfile.TemporaryDirectory(prefix="coverage-")
"""Where processes that a test starts leave what they measured."""

SETTINGS = Path(CHILDREN.name, "settings")
SETTINGS.write_text(f"""[run]
source = {ROOT / "torchrecorder"}
data_file = {Path(CHILDREN.name, "child")}
parallel = true
context = ${{MUTATION_TEST}}
disable_warnings = no-data-collected, module-not-imported
""", encoding="utf-8")

seconds: dict[str, float] = defaultdict(float)
not_run: set[str] = set()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """What runs from here on is run by this test."""
    if sys.gettrace() is None:  # the test before was one of tracing
        measuring.stop()
        measuring.start()
    measuring.switch_context(item.nodeid)
    of_children = {"COVERAGE_PROCESS_START": str(SETTINGS), "MUTATION_TEST": item.nodeid}
    os.environ.update(of_children)
    try:
        return (yield)
    finally:
        measuring.switch_context("")
        for name in of_children:
            del os.environ[name]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of setup, call and teardown.

    What fails here may pass where nothing is measured: a trial finds out.
    """
    seconds[report.nodeid] += report.duration
    if report.skipped:
        not_run.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write what was measured, also for files in which no test ran.

    If a file could not be imported, no test has run.
    """
    measuring.stop()
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        return
    lines = _lines_by_test([measuring.get_data(), *_of_children()])
    tests: dict[str, dict[str, Any]] = {name: {} for name in session.config.args}
    for test in sorted(set(seconds) - not_run):
        measured = {"seconds": round(seconds[test], 4), "lines": lines[test]}
        tests.setdefault(test.split("::")[0], {})[test] = measured
    for name, found in tests.items():
        coverage_store.store(FOLDER, ROOT / name, found)
    coverage_store.store_imported(FOLDER, lines[""])


def _of_children() -> Iterator[coverage.CoverageData]:
    for path in Path(CHILDREN.name).glob("child.*"):
        data = coverage.CoverageData(str(path))
        data.read()
        yield data


def _lines_by_test(measured: Iterable[coverage.CoverageData]) -> dict[str, coverage_store.Lines]:
    found: dict[str, coverage_store.Lines] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(int))
    )
    for data in measured:
        for name in data.measured_files():
            _add_file(found, data, Path(name))
    return found


def _add_file(
    found: dict[str, coverage_store.Lines], data: coverage.CoverageData, path: Path
) -> None:
    inside = path.relative_to(ROOT).as_posix()
    function_of = functions.by_line(ast.parse(path.read_text(encoding="utf-8")))
    for line, contexts in data.contexts_by_lineno(str(path)).items():
        function = function_of.get(line)
        for test in contexts if function else ():
            found[test][inside][function.name] |= 1 << (line - function.first)

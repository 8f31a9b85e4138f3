"""What must pass, one session each: ``nox -s lint``, ``nox -s "tests(2.7.1-3.11)"`` ...

The sessions ``tests`` and ``dependencies`` build the wheel, install it into a new environment,
run the core tests beside it, away from the source tree, and delete the environment: wheels of
PyTorch take gigabytes. They may be run one at a time, also on different days: results and logs
stay in ``.nox``, and each run writes what is known by then into ``docs/guide/compatibility.md``.
A Python version that this machine lacks skips its sessions.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).parent
PAGE = ROOT / "docs" / "guide" / "compatibility.md"
STATE = ROOT / ".nox"
RESULTS = STATE / "results.json"
LOGS = STATE / "logs"

CELLS = (
    ("2.6.0", "3.10"),
    ("2.7.1", "3.11"),
    ("2.9.1", "3.13"),
    ("2.11.0", "3.10"),
    ("2.13.0", "3.13"),
    ("2.14.1", "3.12"),
    ("2.15.0", "3.13"),
    ("2.15.0", "3.14"),
    ("2.15.0", "3.15"),
)
"""Versions of PyTorch and Python, the newest last; `dependencies` adds 2.13.0 with Python 3.11.

``nox -t newest`` runs the last, as each release does.
"""

PINNED = "3.11"
"""The version of Python for everything that is not about versions."""

COLUMNS = ("core tests", "first picture", "doctor")
"""What is tried in each environment."""

QUICK = ("-m", "not slow and not page", "-q", "-n", os.environ.get("TEST_PROCESSES", "auto"))
"""What the core tests are, and in how many processes they run."""

OF_THE_TREE = (
    "--ignore=tests/test_packaging.py",
    "--ignore=tests/test_benchmarks.py",
    "--ignore=tests/mutation",
)
"""What is about the source tree, and not about what is installed."""

UNPINNED = {"PIP_CONSTRAINT": os.devnull}
"""Pins that a machine has for other projects would decide which PyTorch is tested."""

nox.options.sessions = ["lint", "types"]
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False


def _versions_of_pyenv() -> Iterator[str]:
    """Folders with interpreters that pyenv has installed, the newest first.

    The commands that pyenv itself puts on the path fail for versions that are not switched on.
    """
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [path for path in root.glob("3.*/bin") if re.fullmatch(r"[\d.]+", path.parent.name)]
    yield from map(str, sorted(found, key=lambda path: _numbers(path.parent.name), reverse=True))


def _numbers(version: str) -> tuple[int, ...]:
    """A version, such that versions can be sorted."""
    return tuple(map(int, re.findall(r"\d+", version)))


os.environ["PATH"] = os.pathsep.join([*_versions_of_pyenv(), os.environ.get("PATH", "")])


def _requirements() -> dict[str, str]:
    """Name and requirement of each package that is installed along with this one."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = setup["options"]["install_requires"].split("\n")
    wanted = [line.partition(";")[0].strip() for line in lines if line.strip()]
    return {re.split(r"[<>=!~\[]", each)[0]: each for each in wanted}


EXCHANGED = [name for name in _requirements() if name not in ("torch", "font-manrope")]
"""Packages that are tried in their oldest and in their newest version."""


@nox.session
@nox.parametrize(
    "python,torch",
    [
        nox.param(python, torch, id=f"{torch}-{python}", tags=["newest"] * (cell == CELLS[-1]))
        for cell in CELLS
        for torch, python in [cell]
    ],
)
def tests(session: nox.Session, torch: str) -> None:
    """The installed wheel with one version of PyTorch: core tests, an example, doctor."""
    _cell(session, f"torch {torch}", [f"torch=={torch}"])


@nox.session(python=PINNED)
@nox.parametrize("which", ["oldest", "newest", "no-numpy"], ids=["oldest", "newest", "no-numpy"])
def dependencies(session: nox.Session, which: str) -> None:
    """The same with other versions of everything else, or without numpy."""
    wanted = _requirements()
    pins = [f"torch=={_pinned_torch()}"]
    if which == "oldest":
        pins += [wanted[name].replace(">=", "==") for name in EXCHANGED]
    _cell(session, f"dependencies, {which}", pins, numpy=which != "no-numpy")


@nox.session(python=PINNED)
def lint(session: nox.Session) -> None:
    """Style, and the order of imports."""
    session.install("flake8>=7", "isort>=5.13")
    files = "torchrecorder", "tests", "examples", "benchmarks", "docs", "noxfile.py", "setup.py"
    session.run("flake8", *files)
    session.run("isort", "--check", *files)


@nox.session(python=PINNED)
def types(session: nox.Session) -> None:
    """Types."""
    session.install("-c", "constraints.txt", "-e", ".[test]", "mypy>=1.11")
    session.run("mypy")


@nox.session(python=PINNED)
def docs(session: nox.Session) -> None:
    """The documentation, without a warning; ``-- -t quick`` leaves out the gallery."""
    session.install("-c", "constraints.txt", "-e", ".[docs]", "-r", "tests/requirements.txt")
    if "quick" not in session.posargs:
        session.install("--no-deps", "-r", "tests/models.txt")
    out = "docs/_build/html"
    session.run("sphinx-build", "-W", "-n", *session.posargs, "docs", out)


@nox.session(python=PINNED)
def page(session: nox.Session) -> None:
    """The page to explore, in Chromium."""
    _with_models(session)
    session.run("pytest", "-m", "page", "-q", *session.posargs)


@nox.session(python=PINNED)
def explore(session: nox.Session) -> None:
    """Properties, on random examples that were not tried before."""
    _with_models(session)
    chosen = ("-m", "hypothesis and not page", "--hypothesis-profile=explore")
    session.run("pytest", *chosen, *QUICK[2:], *session.posargs)


@nox.session(python=PINNED)
def slow(session: nox.Session) -> None:
    """Real architectures."""
    _with_models(session)
    session.run("pytest", "-m", "slow and not page", *QUICK[2:], *session.posargs)


@nox.session(python=PINNED)
def build(session: nox.Session) -> None:
    """What is released: sdist and wheel, in ``dist``."""
    session.install("build", "twine")
    session.run(*_build(ROOT / "dist"))
    session.run("twine", "check", "--strict", *map(str, (ROOT / "dist").iterdir()))


@nox.session(python=False)
def table(session: nox.Session) -> None:
    """Print what is known of versions, and write it into the documentation."""
    text = _table(_results())
    print(text)
    start, end = "<!-- versions -->\n", "<!-- end of versions -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(start)
    _, _, after = rest.partition(end)
    written = f"{before}{start}\n{text}\n{end}{after}"
    PAGE.write_text(written, encoding="utf-8")


def _with_models(session: nox.Session) -> None:
    """Install this tree with the libraries of models that tests record."""
    session.install("-c", "constraints.txt", "-e", ".[test]", "-r", "tests/requirements.txt")
    session.install("--no-deps", "-r", "tests/models.txt")


def _pinned_torch() -> str:
    found = re.search(r"torch==([\w.]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    if found is None:
        raise LookupError("constraints.txt pins no torch")
    return found[1]


def _cell(session: nox.Session, name: str, pins: Sequence[str], *, numpy: bool = True) -> None:
    """Install, try everything, note down how it went, and delete the environment."""
    cell = f"{name}, Python {session.python}"
    log = LOGS / f"{re.sub(r'[^a-z0-9.]+', '-', cell.lower())}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    outcome = dict.fromkeys(COLUMNS, "not finished")
    keep = not session.posargs  # chosen tests alone say little
    if keep:
        _note(cell, outcome)
    try:
        with log.open("w", encoding="utf-8") as file:
            outcome = _tried(session, pins, numpy, file)
    finally:
        if keep:
            _note(cell, outcome)
        shutil.rmtree(session.virtualenv.location, ignore_errors=True)
        session.notify("table")
    failed = [step for step, result in outcome.items() if result.startswith("failed")]
    if failed:
        session.error(f"{cell}: {', '.join(failed)} went wrong; the log is {log}")


def _tried(
    session: nox.Session, pins: Sequence[str], numpy: bool, log: Any
) -> dict[str, str]:
    """How each step went in a new environment."""
    place = Path(session.create_tmp()).resolve()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    run = _Logged(session, log)
    wheel, tree = _unpacked(run, place)
    if not run("python", "-m", "pip", "install", f"{wheel}[test]", *pins):
        return dict.fromkeys(COLUMNS, "failed to install")
    run("python", "-m", "pip", "install", "-r", str(tree / "tests" / "requirements.txt"))
    if not numpy:
        run("python", "-m", "pip", "uninstall", "-y", "numpy")
    run("python", "-m", "pip", "freeze")
    report = place / "report.xml"
    run("pytest", *QUICK, *OF_THE_TREE, f"--junitxml={report}", *session.posargs, folder=tree)
    picture = run("python", "examples/first_picture.py", folder=tree)
    return {
        "core tests": _counted(report),
        "first picture": "passed" if picture else "failed",
        "doctor": "passed" if run("torchrecorder", "doctor", folder=place) else "failed",
    }


class _Logged:
    """Runs commands in the environment of a session; what they print goes into a file."""

    def __init__(self, session: nox.Session, log: Any) -> None:
        self.session, self.log = session, log

    def __call__(self, *command: str, folder: Path = ROOT) -> bool:
        """Whether the command succeeded."""
        self.log.write(f"$ {' '.join(command)}\n")
        self.log.flush()
        variables = {**UNPINNED, "PYTHONUTF8": "1", "HF_HUB_OFFLINE": "1"}
        with self.session.chdir(folder):
            try:
                self.session.run(
                    *command, env=variables, stdout=self.log, stderr=subprocess.STDOUT
                )
            except nox.command.CommandFailed:
                return False
        return True


def _unpacked(run: _Logged, place: Path) -> tuple[Path, Path]:
    """The wheel, and a copy of the source tree without the package in it."""
    if not (run("python", "-m", "pip", "install", "build") and run(*_build(place / "dist"))):
        run.session.error("the wheel could not be built")
    (wheel,) = (place / "dist").glob("*.whl")
    (sources,) = (place / "dist").glob("*.tar.gz")
    with tarfile.open(sources) as packed:
        if sys.version_info >= (3, 12):
            packed.extractall(place / "tree", filter="data")
        else:
            packed.extractall(place / "tree")
    (tree,) = (place / "tree").iterdir()
    shutil.rmtree(tree / "torchrecorder")
    shutil.rmtree(tree / "torchrecorder.egg-info")  # else it would count as a second installation
    return wheel, tree


def _build(folder: Path) -> tuple[str, ...]:
    """The command that makes sdist and wheel; the wheel from the sdist, not from leftovers."""
    return ("python", "-m", "build", "--outdir", str(folder), str(ROOT))


def _counted(report: Path) -> str:
    """How many tests passed, failed and were skipped, from pytest's report."""
    if not report.exists():
        return "failed before the first test"
    suite = ElementTree.parse(report).getroot().find("testsuite")
    if suite is None:
        return "failed before the first test"
    total, *rest = (int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped"))
    failed, skipped = rest[0] + rest[1], rest[2]
    done = f"{total - failed - skipped:,} passed"
    done += f", {skipped} skipped" if skipped else ""
    return f"failed: {failed} of {total:,}" if failed or not total else done


def _results() -> dict[str, dict[str, str]]:
    """How each cell went when it was last run."""
    if not RESULTS.exists():
        return {}
    found: dict[str, dict[str, str]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def _note(cell: str, outcome: Mapping[str, str]) -> None:
    results = {**_results(), cell: dict(outcome)}
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True), encoding="utf-8")


def _table(results: Mapping[str, Mapping[str, str]]) -> str:
    """All cells as a table in Markdown."""
    tested = [f"torch {torch}, Python {python}" for torch, python in CELLS]
    cells = [*tested, *sorted(cell for cell in results if cell not in tested)]
    lines = [f"| versions | {' | '.join(COLUMNS)} |", "| --- " * (1 + len(COLUMNS)) + "|"]
    for cell in cells:
        outcome = [results.get(cell, {}).get(column, "not run") for column in COLUMNS]
        lines.append(f"| {' | '.join([cell, *outcome])} |")
    return "\n".join(lines) + "\n"

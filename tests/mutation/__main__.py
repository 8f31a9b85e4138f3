"""Run a sample of mutants: ``python -m tests.mutation --folder views --sample 60 --seed 3``."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import accumulate, chain
from pathlib import Path

from tests.mutation import coverage_store
from tests.mutation.mutants import Mutant, mutants, sample
from tests.mutation.trial import Trial

ROOT = Path(__file__).parents[2]
TOOL = ROOT
"""Where this tool is imported from."""

COVERAGE = ROOT / ".mutation" / "coverage"
SURVIVORS = ROOT / ".mutation" / "survivors.txt"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
WORKERS = "torchrecorder/planning/workers.py"
STARTED_BY = {
    "torchrecorder/layout/child.py": ("torchrecorder/layout/engine.py", "_spoken_to"),
    f"{WORKERS} _record_rank": (WORKERS, "Workers._start"),
}
"""Files and functions that run in processes without coverage, and what starts these."""

MARKERS = "not slow and not page"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", MARKERS)


def main() -> None:
    """Copy the tree, measure which test runs what, run the mutants, report."""
    options = _parser().parse_args()
    if options.measure == "all":
        shutil.rmtree(COVERAGE, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        copy = Path(name)
        _copy_tree(copy)
        if options.measure != "none":
            _measure(copy, options.tests or ["tests"])
        chosen = _chosen(options)
        outcomes = _run(copy, list(chain(*chosen.values())), options.seconds)
    _report(chosen, outcomes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    add = parser.add_argument
    add("--folder", action="append", metavar="PATH",
        help="a folder or file of the package (all); can be given several times")
    add("--sample", type=int, default=60, metavar="N", help="mutants of each folder (60)")
    add("--seed", type=int, default=0, help="which mutants (0)")
    add("--seconds", type=float, default=10, metavar="S",
        help="run the fastest tests of a line that take so long in all (10)")
    add("--again", action="store_true", help="only the survivors of the last run")
    add("--tests", action="append", metavar="PATH",
        help="measure test files of this folder, or this file (tests)")
    add("--measure", choices=("changed", "all", "none"), default="changed",
        help="the test files whose coverage to measure first (changed)")
    return parser


def _copy_tree(copy: Path) -> None:
    """What git knows, and what it would, where mutants can be written."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def _measure(copy: Path, tests: list[str]) -> None:
    """Coverage of the test files that changed since it was measured."""
    found = [path for path in sorted((copy / "tests").rglob("test_*.py"))
             if any(path.relative_to(copy).is_relative_to(name) for name in tests)]
    stale = [path for path in found if not coverage_store.is_fresh(COVERAGE, path)]
    if stale:
        print(f"measuring coverage of {len(stale)} test files ...", flush=True)
        names = [path.relative_to(copy).as_posix() for path in stale]
        plugin = ["-p", "tests.mutation.coverage_plugin"]
        _pytest(copy, [*plugin, *names], {"MUTATION_COVERAGE": str(COVERAGE)})


def _chosen(options: argparse.Namespace) -> dict[str, list[Mutant]]:
    """By folder, the mutants to run."""
    equivalent, last = _keys(EQUIVALENT), _keys(SURVIVORS)
    chosen = {}
    for folder, paths in _folders(options.folder).items():
        found = [mutant for path in paths for mutant in mutants(ROOT, path)]
        for key in _unknown(equivalent, paths, found):
            print(f"listed as equivalent, but not found any more: {key}")
        if options.again:
            chosen[folder] = [mutant for mutant in found if mutant.key in last - equivalent]
        else:
            drawn = sample(found, options.sample, options.seed)
            chosen[folder] = [mutant for mutant in drawn if mutant.key not in equivalent]
    return chosen


def _folders(wanted: list[str] | None) -> dict[str, list[str]]:
    """The files of each folder of the package, of those that are wanted."""
    package = ROOT / "torchrecorder"
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        folders = [name for name in wanted or inside.parts[:1] if inside.is_relative_to(name)]
        for folder in folders:
            found[folder].append(path.relative_to(ROOT).as_posix())
    unknown = set(wanted or ()) - set(found)
    if unknown:
        raise SystemExit(f"no such folder or file in {package}: {', '.join(sorted(unknown))}")
    return found


def _keys(path: Path) -> set[str]:
    """The lines of a list that are neither indented nor remarks."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {line for line in lines if line and line[0] not in " #"}


def _unknown(keys: set[str], paths: list[str], found: list[Mutant]) -> list[str]:
    known = {mutant.key for mutant in found}
    return sorted(key for key in keys if key.split()[0] in paths and key not in known)


def _run(copy: Path, chosen: list[Mutant], seconds: float) -> dict[Mutant, str | None]:
    """For each mutant, the test that notices it: empty if none does, None if none runs it."""
    measured, imported = coverage_store.load(COVERAGE), coverage_store.imported(COVERAGE)
    tests = [test for test in measured if (copy / test.name.partition("::")[0]).exists()]
    trials = [_trial(mutant, tests, imported, seconds) for mutant in chosen]
    given, results = copy / "trials", copy / "results"
    given.write_text("\n".join(json.dumps(trial) for trial in trials), encoding="utf-8")
    names = {test.split("::")[0] for trial in trials for test, _ in trial.tests}
    plugin = ["-p", "tests.mutation.trials_plugin", "--basetemp", str(copy / "temporary")]
    paths = {"MUTATION_TRIALS": str(given), "MUTATION_RESULTS": str(results)}
    _pytest(copy, [*plugin, *sorted(names)], paths)
    noticed = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {
        mutant: test if trial.tests else None
        for mutant, trial, test in zip(chosen, trials, noticed, strict=True)
    }


def _trial(
    mutant: Mutant, tests: list[coverage_store.Test], imported: set[str], seconds: float
) -> Trial:
    running, naming = [test for test in tests if _runs(test, mutant)], _naming(mutant.path)
    found = running if mutant.function else tests
    near = [test for test in found if test.name.split("::")[0] in naming]
    if mutant.function:  # whatever is named, there is time for the fastest of all
        near = _within(near, seconds / 2)
    first = {test.name for test in near}
    running = [*near, *(test for test in running if test.name not in first)]
    timed = [(test.name, test.seconds) for test in running]
    within = [(test.name, test.seconds) for test in _within(running, seconds)]
    at_import = not mutant.function or f"{mutant.path} {mutant.function}" in imported
    text = mutant.apply((ROOT / mutant.path).read_text(encoding="utf-8"))
    return Trial(mutant.path, text, within or timed[:1], at_import)


def _within(tests: list[coverage_store.Test], seconds: float) -> list[coverage_store.Test]:
    """The first of *tests*, as many as take so long in all."""
    spent = accumulate(test.seconds for test in tests)
    return [test for test, so_far in zip(tests, spent) if so_far <= seconds]


def _runs(test: coverage_store.Test, mutant: Mutant) -> bool:
    whole, part = mutant.path, f"{mutant.path} {mutant.function}"
    if started_by := STARTED_BY.get(whole) or STARTED_BY.get(part):
        path, function = started_by
        return function in test.lines.get(path, {})
    return test.runs(mutant.path, mutant.function, mutant.line)


def _naming(path: str) -> set[str]:
    """Test files that name a module, else those that name its package."""
    module = path.removesuffix(".py").replace("/", ".")
    texts = {
        found.relative_to(ROOT).as_posix(): found.read_text(encoding="utf-8")
        for found in (ROOT / "tests").rglob("test_*.py")
    }
    for name in (module, module.rpartition(".")[0]):
        word = re.compile(rf"\b{re.escape(name)}\b")
        if found := {test for test, text in texts.items() if word.search(text)}:
            return found
    return set()


def _pytest(copy: Path, arguments: list[str], environment: dict[str, str]) -> None:
    """Run pytest in the copy."""
    path = {"PYTHONPATH": f"{copy}{os.pathsep}{TOOL}", "HF_HUB_OFFLINE": "1"}
    subprocess.run([*PYTEST, *arguments], cwd=copy, env={**os.environ, **path, **environment})


def _report(chosen: dict[str, list[Mutant]], outcomes: dict[Mutant, str | None]) -> None:
    """Survivors with what they change, then how many were noticed."""
    survivors = [mutant for mutant, noticed in outcomes.items() if not noticed]
    for mutant in survivors:
        print(mutant.key, mutant.difference((ROOT / mutant.path).read_text()), sep="\n")
        if outcomes[mutant] is None:
            print("no measured test runs this line")
    SURVIVORS.write_text("\n".join(mutant.key for mutant in survivors), encoding="utf-8")
    for folder, found in chosen.items():
        if not found:
            continue
        noticed = sum(bool(outcomes[mutant]) for mutant in found)
        print(f"{folder}: {noticed} of {len(found)} noticed, {100 * noticed // len(found)} %")


if __name__ == "__main__":
    main()

"""Try thousands of random models: ``python -m tests.generated 5000 --seed 7``.

Prints how much was checked, and each way of failing with the smallest model that shows it.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.generated.checks import COUNTS
from tests.generated.program import PROGRAMS, Program
from tests.generated.shrink import Failure, failure_of, shrink


def main() -> int:
    """Run as many as asked for; the exit status says whether all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=__doc__)
    parser.add_argument("number", type=int, help="how many models")
    parser.add_argument("--seed", type=int, default=0, help="others with another seed")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    failing = _failing(chosen.number, chosen.seed)
    print(f"{chosen.number} models in {time.monotonic() - began:.0f} s; checked by each proof:")
    for proof, models in COUNTS.models.items():
        print(f"  {proof}: {models} models, {COUNTS.ops[proof]} ops, {COUNTS.edges[proof]} edges")
    for failure, programs in failing.items():
        print(f"\n{len(programs)} times {failure}", flush=True)
        smallest = shrink(min(programs, key=lambda each: len(repr(each))))
        found = failure_of(smallest)
        print(found[1][:2000] if found else "now it holds", smallest, sep="\n", flush=True)
    return 1 if failing else 0


def _failing(number: int, start: int) -> dict[Failure, list[Program]]:
    """The programs that fail, by the way they do."""
    failing: dict[Failure, list[Program]] = {}

    @seed(start)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(PROGRAMS)
    def try_one(program: Program) -> None:
        found = failure_of(program)
        if found is not None:
            failing.setdefault(found[0], []).append(program)

    try_one()
    return failing


if __name__ == "__main__":
    sys.exit(main())

"""Try thousands of random programs: ``python -m tests.generated 5000 --seed 7``.

With ``--of compiled``, also what the compiler makes of them; with ``--of edits``, what a comparison
lists of an edit; with ``--of training``, training programs; with ``--of ranks``, programs of
several processes. Prints how much was checked, and each way of failing with the smallest program
that shows it.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from tests.generated.checks import COUNTS
from tests.generated.kinds import KINDS
from tests.generated.shrink import Check, Failure, failure_of, shrink


def main() -> int:
    """Run as many as asked for; the exit status says whether all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=__doc__)
    parser.add_argument("number", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="others with another seed")
    parser.add_argument("--of", choices=[*KINDS], default="models", help="the kind of program")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    programs, check = KINDS[chosen.of]
    failing = _failing(programs, check, chosen.number, chosen.seed)
    print(f"{chosen.number} programs in {time.monotonic() - began:.0f} s; checked by each proof:")
    for proof, models in COUNTS.models.items():
        print(f"  {proof}: {models} programs, {COUNTS.ops[proof]} ops, {COUNTS.edges[proof]} edges")
    for failure, found in failing.items():
        print(f"\n{len(found)} times {failure}", flush=True)
        smallest = shrink(min(found, key=lambda each: len(repr(each))), check)
        again = failure_of(smallest, check)
        text = again[1][:2000] if again else "now it holds"
        print(text, smallest, sep="\n", flush=True)
    return 1 if failing else 0


def _failing(
    programs: st.SearchStrategy[Any], check: Check, number: int, start: int
) -> dict[Failure, list[Any]]:
    """The programs that fail, by the way they do."""
    failing: dict[Failure, list[Any]] = {}

    @seed(start)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs)
    def try_one(program: Any) -> None:
        found = failure_of(program, check)
        if found is not None:
            failing.setdefault(found[0], []).append(program)

    try_one()
    return failing


if __name__ == "__main__":
    sys.exit(main())

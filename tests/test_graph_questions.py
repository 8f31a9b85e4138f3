"""The questions to a graph in ``examples`` get the answers that the model was built for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "examples" / "graph_questions.py"


def test_answers() -> None:
    """The narrow layer, the tied weight and the probe that leads nowhere are found."""
    ran = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True, timeout=120
    )
    answers = dict(line.split(": ", 1) for line in ran.stdout.splitlines())
    path = answers["longest path"].split(" → ")
    assert path[0] == "embedding" and path[-3:] == ["linear", "gelu", "linear"]
    assert answers["readers of letters.weight"] == "letters (embedding), spell (linear)"
    assert answers["never reach the output"] == "probe.bias, probe.weight"
    assert answers["everything passes"].endswith("squeeze, widen.0, widen.1, spell")
    assert answers["cheapest cut"] == f"{12 * 4 * 4} bytes, after squeeze"

"""Pages of runs that failed: they lead to the failure, and mark errors that the program caught."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from tests.figures import network
from tests.page.browser import Visiting
from tests.page.test_browser import failing
from torchrecorder.testing import Builder

pytestmark = pytest.mark.page


def test_a_failed_run_leads_to_its_failure(visit: Visiting) -> None:
    """To the innermost box that failed, whatever is closed."""
    seen = visit(failing(), depth=0)
    button = seen.page.locator("#failure")
    assert "matmul" in button.inner_text()
    button.click()
    failed = seen.state("selected")
    assert seen.page.evaluate(f"page.model.failed({failed}) && !page.model.canOpen({failed})")
    assert visit(network()).page.locator("#failure").is_hidden()


@pytest.mark.parametrize("fails, shown, tip", [
    (True, "matmul", "Go to where the run failed"),
    (False, "probe", "Go to an error that the program caught"),
])
def test_an_error_that_the_program_caught(
    visit: Visiting, fails: bool, shown: str, tip: str
) -> None:
    """It is gone to if the run did not end in another."""
    run = Builder("Net")
    with contextlib.suppress(RuntimeError), run.scope("Net"):
        with contextlib.suppress(KeyError), run.scope("probe", "Probe"):
            run.op("mul", run.input())
            raise KeyError
        run.op("matmul", run.input("y"))
        if fails:
            run.fail("ValueError", "shapes do not fit")
            raise RuntimeError
    button = visit(run.recording()).page.locator("#failure")
    assert shown in button.inner_text() and button.get_attribute("title") == tip


def test_a_run_that_hangs_has_not_failed(visit: Visiting) -> None:
    """The button and the panel say that it was still running, as figures do."""
    recording = failing()
    (op,) = (op for op in recording.ops.values() if op.failed)
    run = replace(recording.run, failure=None, running=(op.id,))
    page = visit(replace(recording, run=run)).page
    button = page.locator("#failure")
    assert button.inner_text() == "Still running: matmul"
    assert button.get_attribute("title") == "Go to where the run waits"
    button.click()
    assert page.locator("#panel h3").first.inner_text().lower() == "still running"

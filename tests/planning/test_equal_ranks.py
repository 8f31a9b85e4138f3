"""When one rank of a plan may stand for another: each thing in which two can differ."""

from __future__ import annotations

from array import array

from tests.figures import network
from torchrecorder.events import Rank
from torchrecorder.planning.translate import is_equal
from torchrecorder.ranks.digest import Digest, digest
from torchrecorder.ranks.sent import CommunicationColumns

ALONE = Rank(0, 2, "", (), ())


def one(sent: CommunicationColumns | None = None) -> Digest:
    """The digest of a small network, with these communications."""
    found = digest(network(), ALONE)
    return found if sent is None else found._replace(sent=sent)


def sent(seconds: float, *peers: int) -> CommunicationColumns:
    """A message to each of these ranks."""
    places = array("i", range(len(peers)))
    lasts = array("d", [seconds] * len(peers))
    return CommunicationColumns((), ("0",), places, places, array("i", peers), lasts, lasts)


def test_equal_ranks_may_differ_in_times_and_names() -> None:
    """How long they took, and where they ran."""
    assert is_equal(one(), one())
    assert is_equal(one(sent(1.0, 1, 2)), one(sent(2.0, 1, 2)))
    assert is_equal(one(), one()._replace(name="other", seconds=3.0))


def test_whatever_else_differs_is_another_rank() -> None:
    """Operations and sizes, bytes of weights, what failed, groups, and what was sent to whom."""
    for other in (
        one()._replace(exact="other"),
        one()._replace(parameter_bytes=1),
        one()._replace(failure="RuntimeError"),
        one()._replace(rank=ALONE._replace(groups=(None,))),  # type: ignore[arg-type]
        one(sent(1.0, 1)),
    ):
        assert not is_equal(one(), other) and not is_equal(other, one())
    assert not is_equal(one(sent(1.0, 1)), one(sent(1.0, 2)))

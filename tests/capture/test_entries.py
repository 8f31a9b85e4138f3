"""What is known of living tensors: which lies around which, what is forgotten, who wrote where."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import pytest
import torch
from hypothesis import given, strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import torchrecorder
from torchrecorder.capture.tensors.byte_ranges import TensorRanges, Write
from torchrecorder.capture.tensors.describe import ANYWHERE, byte_range, shape_of, tensors_in
from torchrecorder.capture.tensors.entries import Entry, containing_tensor, forget_callback
from torchrecorder.capture.tensors.sizes import elements_of
from torchrecorder.capture.tensors.storage import Storage, Storages
from torchrecorder.events import NO_STORAGE, OpId


class Table:
    """Entries of some tensors in one storage."""

    def __init__(self):
        self.storage = Storage(None, 0)
        self.entries, self.aliases, self.lost = {}, set(), []
        record_error = lambda *fact: self.lost.append(fact)  # noqa: E731
        self.forget = forget_callback(self.entries, self.aliases, record_error)

    def enter(self, *tensors, storage=None):
        for tensor in tensors:
            entry = self.entries[id(tensor)] = Entry(tensor, self.forget)
            entry.key, entry.producer = id(tensor), OpId("o0")
            entry.set_storage(storage or self.storage)

    def around(self, tensor):
        return containing_tensor(self.entries, tensor, self.storage)


@pytest.fixture
def table():
    """An empty one."""
    return Table()


def test_only_tensors_of_the_storage_are_looked_at():
    """However many others there are; and none that went to another storage."""
    class Counting(dict):
        asked = 0

        def get(self, key):
            self.asked += 1
            return super().get(key)

    table = Table()
    whole, others = torch.ones(6), [torch.ones(2) for _ in range(50)]
    table.enter(whole)
    table.enter(*others, storage=Storage(None, 1))
    entries = Counting(table.entries)
    assert containing_tensor(entries, whole[:3], table.storage)[0] is whole
    assert entries.asked < 10
    table.entries[id(whole)].set_storage(Storage(None, 2))
    assert table.around(whole[:3])[0] is None


@pytest.mark.parametrize("write", [False, True])
def test_memory_from_before_the_run_comes_from_no_part_of_it(write):
    """A tensor around an input is an input, too, unless the run has written their memory."""
    whole = torch.ones(4, 2)
    part, other = whole.split(2)
    with torchrecorder.Recorder() as recorder:
        part.mul_(3) if write else part.neg()
        other.neg()
        whole.exp()
    recording = recorder.recording
    (read,) = [op.inputs[0].value for op in recording.ops.values() if op.name == "exp"]
    assert (recording.values[read].producer is None) is not write


def test_the_narrowest_around_is_the_nearest(table):
    """Whichever was met first; one that only overlaps is not around."""
    base = torch.zeros(10)
    wide, narrow, beside = base[1:9], base[2:6], base[4:8]
    for order in ([base, wide, narrow, beside], [beside, narrow, wide, base]):
        table.entries.clear()
        table.enter(*order)
        assert table.around(base[3:5])[0] is narrow
        assert table.around(base[1:3])[0] is wide
        assert table.around(base[0:2])[0] is base


def test_of_equals_the_one_met_last_is_the_nearest(table):
    """It may be that the first was cut off from what is now computed."""
    base = torch.zeros(10)
    first, last = base[2:6], base.detach()[2:6]
    table.enter(first, base, last)
    assert table.around(base[2:6])[0] is last
    assert table.around(base[3:4])[0] is last


def test_no_tensor_lies_around_itself(table):
    """Nor one in another storage, nor one that has died."""
    base, other = torch.zeros(10), torch.zeros(10)
    part = base[2:6]
    table.enter(part)
    table.enter(other, storage=Storage(None, 1))
    assert table.around(part) == (None, False)
    wide = base[1:9]
    table.enter(wide)
    assert table.around(part) == (wide, True)
    del wide
    assert table.around(part) == (None, True)


@pytest.mark.parametrize(
    ("start", "end", "unclear"),
    [(0, 2, False), (1, 3, True), (2, 6, True), (5, 7, True), (6, 8, False)],
)
def test_what_overlaps_makes_it_unclear(table, start, end, unclear):
    """Whether others may lie around: parts that only touch do not tell."""
    base = torch.zeros(10)
    part = base[2:6]
    table.enter(part)
    found, is_unclear = table.around(base[start:end])
    assert is_unclear is unclear
    assert (found is part) == (start >= 2 and end <= 6)


@given(st.data())
def test_ranges_around_and_over_bytes(data):
    """They are found as by a look at each; ranges move and go."""
    ranges, known = TensorRanges(), {}
    places = st.tuples(st.integers(-20, 40), st.integers(0, 20))
    for key, (low, size) in data.draw(st.lists(st.tuples(st.integers(0, 12), places), max_size=30)):
        known.pop(key, None)
        ranges.put(key, low, low + size)
        known[key] = low, low + size
    for key in data.draw(st.sets(st.integers(0, 12), max_size=4)):
        ranges.drop(key)
        known.pop(key, None)
    low, size = data.draw(places)
    high = low + size
    around = [key for key, (start, end) in known.items() if start <= low and high <= end]
    around.sort(key=lambda key: (known[key][1] - known[key][0], -[*known].index(key)))
    assert ranges.around(low, high) == around
    over = [key for key, (start, end) in known.items() if start < high and low < end]
    assert sorted(ranges.overlapping(low, high)) == sorted(over)


def test_the_range_of_a_tensor_with_the_id_of_a_dead_one_is_the_latest():
    """Ids are used again, for a tensor of the same bytes as well."""
    ranges = TensorRanges()
    for key in (1, 2, 1):
        ranges.put(key, 0, 4)
    assert ranges.around(0, 4) == [1, 2]


def test_ranges_of_dead_tensors_take_no_memory():
    """They are removed when there are twice as many as the living ones were."""
    ranges = TensorRanges()
    for key in range(5000):
        ranges.put(key, key, key + 1)
        ranges.forget_dead(lambda known: 1 if known in (3, key) else None)
    assert len(ranges._ranges) <= 1000 and ranges.around(3, 4) == [3]


def test_a_tensor_that_has_moved_is_found_where_it_is():
    """In-place operations change the bytes of a tensor; the place of the search is new."""
    def run(x):
        part = x.clone()[:2]
        first = torch.nn.Parameter(part) * 2
        part.as_strided_((2,), (1,), 2)
        beside = part.as_strided((1,), (1,), 5)
        return first, torch.nn.Parameter(part) * 3, beside

    recording = torchrecorder.record(run, torch.rand(6))
    moved = next(op for op in recording.ops.values() if op.name == "as_strided_")
    alias = next(op for op in recording.ops.values() if op.name == "alias" and op.id > moved.id)
    assert alias.inputs[0].value == moved.outputs[0]


def test_a_copy_is_in_the_storage_on_its_own(table):
    """It stays when the first tensor is gone, and is not tracked by autograd."""
    base = torch.zeros(10)
    first, second = base[2:8], base.detach()[2:8]
    table.enter(first)
    known = table.entries[id(first)]
    for name in set(Entry.__slots__) - {"key", "storage"}:
        setattr(known, name, name)
    copied = table.entries[id(second)] = known.copy(second, table.forget)
    assert (copied.key, copied.value, copied.original) == (id(second), "value", None)
    assert copied.requires_grad is False
    del first
    assert table.around(base[3:5])[0] is second


def test_a_dead_tensor_is_forgotten(table):
    """Its storage remembers that there was one; others stay."""
    base = torch.zeros(10)
    part, other = base[2:4], base[4:6]
    table.enter(part, other)
    table.aliases.update([id(part), id(other)])
    assert not table.storage.has_dead_tensors
    del part
    assert list(table.entries) == [id(other)] == list(table.aliases)
    assert table.storage.has_dead_tensors and not table.lost


def test_what_fails_when_a_tensor_dies_is_lost(table):
    """Python would print it, and nobody could catch it."""
    tensor = torch.zeros(1)
    table.enter(tensor)
    table.entries[id(tensor)].storage = None
    del tensor
    ((what, error),) = table.lost
    assert what == "values" and isinstance(error, AttributeError)


def writes(*spans):
    storage = Storage(None, 0)
    for number, (low, high) in enumerate(spans):
        storage.write(OpId(f"o{number}"), low, high)
    return storage


def test_writes_that_reach_the_bytes():
    """Those that overlap, in order; those that end where the bytes begin do not."""
    storage = writes((0, 4), (2, 6), (6, 8), (8, 12))
    assert storage.since(0, 4, 8) == ([Write("o1", 2, 6), Write("o2", 6, 8)], True)
    assert storage.since(0, 3, 4) == ([Write("o1", 2, 6)], True)
    assert storage.since(0, 8, 16) == ([Write("o3", 8, 12)], False)
    assert storage.since(0, 12, 16) == ([], False)
    assert Storage(None, 0).since(0, 0, 4) == ([], False)


def ops_since(storage, *args):
    return [write.op for write in storage.since(*args)[0]]


def test_writes_after_those_seen():
    """What was seen is known."""
    storage = writes((0, 4), (0, 2), (0, 4), (0, 1))
    assert ops_since(storage, 2, 0, 4) == ["o2", "o3"]
    assert ops_since(storage, 3, 0, 4) == ["o3"]
    assert ops_since(storage, 4, 0, 4) == []


def test_writes_over_everything_end_the_search():
    """What was written before lies behind them; one a byte short does not cover."""
    assert ops_since(writes((0, 9), (2, 4), (0, 9)), 0, 0, 9) == ["o2"]
    assert ops_since(writes((0, 9), (4, 9), (2, 3), (0, 4)), 0, 0, 9) == ["o1", "o3"]
    assert ops_since(writes((0, 9), (0, 8)), 0, 0, 9) == ["o0", "o1"]
    assert ops_since(writes((0, 9), (1, 9)), 0, 0, 9) == ["o0", "o1"]


def test_storages_are_those_of_memory():
    """Views share one; what has none of its own is given one that nobody shares."""
    storages = Storages()
    one, other = torch.zeros(4), torch.zeros(4)
    assert storages.of(one) is storages.of(one[1:]) is not storages.of(other)
    assert (storages.of(one).number, storages.of(other).number) == (0, 1)
    sparse = torch.zeros(2, 2).to_sparse()
    assert storages.of(sparse).number == NO_STORAGE
    assert storages.of(sparse) is not storages.of(sparse)


def test_freed_storages_are_forgotten():
    """So that what is known stays in proportion to what lives; the numbers go on."""
    storages = Storages()
    kept = torch.zeros(1)
    first = storages.of(kept)
    for _ in range(3000):
        storages.of(torch.zeros(1))
    assert len(storages._known) <= 1001 + 1
    assert storages.of(kept) is first
    assert storages.of(torch.zeros(1)).number == 3001


def test_cleared_storages_are_forgotten():
    """Memory that is used again is another's."""
    storages, tensor = Storages(), torch.zeros(1)
    first = storages.of(tensor)
    storages.clear()
    assert storages.of(tensor) is not first


def test_what_arrives_is_shown_if_it_is_still_there():
    """After the collective that writes it is done; not before."""
    storages, shown = Storages(), []
    storages.expect_collective(base := torch.zeros(4))
    kept, dropped = base[:1], base[1:3]
    storages.when_arrived(kept, shown.append)
    storages.when_arrived(dropped, shown.append)
    del dropped
    assert not shown
    storages.collective_done(base)
    assert len(shown) == 1 and shown[0] is kept


@pytest.mark.parametrize(
    ("take", "reach"),
    [
        (lambda base: base, (0, 48)),
        (lambda base: base[1], (16, 32)),
        (lambda base: base[:, 1], (4, 40)),
        (lambda base: base[1:, 1:3], (20, 44)),
        (lambda base: base.t(), (0, 48)),
        (lambda base: base[1:2, 2:2], (24, 24)),
        (lambda base: torch.nested.nested_tensor([base, base[1:]]).mT, (0, ANYWHERE)),
    ],
)
def test_the_bytes_that_a_tensor_can_reach(take, reach):
    """From the first to past the last, whatever lies between."""
    assert byte_range(take(torch.zeros(3, 4))) == reach


def test_nothing_is_decided_about_sizes_that_are_not_known():
    """Such a tensor may reach everything; asking would fix its sizes."""
    sizes = ShapeEnv()
    tensor = FakeTensorMode(shape_env=sizes).from_tensor(torch.zeros(3, 4))
    part = tensor[1:]
    known = len(sizes.guards)
    assert byte_range(tensor) == byte_range(part) == (0, ANYWHERE)
    assert shape_of(tensor) == (-1, -1) and len(sizes.guards) == known


def test_shapes_and_elements():
    """Ragged sizes are -1 and are counted as they are."""
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    assert shape_of(ragged) == (2, -1, 3)
    assert elements_of(ragged, shape_of(ragged)) == 18
    assert (shape_of(torch.ones(2, 3)), elements_of(torch.ones(2, 3), (2, 3))) == ((2, 3), 6)
    assert elements_of(torch.ones(()), ()) == 1


Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Held:
    tensor: object
    rest: object = None


def test_tensors_are_found_with_their_places():
    """In order, in all usual containers; one that holds itself ends."""
    a, b, c, d, e = (torch.tensor(float(number)) for number in range(5))
    loop = [a]
    loop.append(loop)
    found = tensors_in((a, {"k": [b, 1]}, Pair(c, "x"), Held(d, (e,)), {a}, None, loop), "in")
    assert [name for name, _ in found] == [
        "in.0", "in.1.k.0", "in.2.first", "in.3.tensor", "in.3.rest.0", "in.6.0",
    ]
    assert [tensor.item() for _, tensor in found] == [0, 1, 2, 3, 4, 0]
    assert tensors_in([b]) == [("0", b)] and tensors_in(b) == [("", b)]
    assert tensors_in(Held) == [] == tensors_in(dataclasses.make_dataclass(
        "Shared", [("tensor", object, a)]))


class Token:
    """A key that must not be made into text."""

    def __str__(self):
        raise AssertionError("nothing here has a name")


def test_keys_of_plain_values_are_not_read():
    """A dict without tensors, such as a vocabulary, takes little time."""
    assert tensors_in([{Token(): number for number in range(3)}, {}]) == []

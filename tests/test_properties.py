"""What holds for every recording: random nested runs through views, figures and DOT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import networkx as nx
import pygraphviz
import pytest
from hypothesis import given, settings, strategies as st

from torchrecorder.events import OpKind, ScopeKind
from torchrecorder.export.dot import dot_text
from torchrecorder.recording import Recording
from torchrecorder.select.focus import Focus
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.auto_depth import max_depth, scope_depths
from torchrecorder.views.collapse import Collapse
from torchrecorder.views.fold.fold import Fold
from torchrecorder.views.full_view import full_view
from torchrecorder.views.hide import HideOps
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.quiet_ops import is_identity, is_reshape
from torchrecorder.views.tensors import show_tensors
from torchrecorder.views.view import View

STEPS = st.lists(
    st.tuples(
        st.sampled_from("open close op op op two view weight pass const repeat loop turns".split()),
        st.integers(0, 1000),
        st.integers(0, 1000),
    ),
    max_size=40,
)
ENDS = st.lists(st.integers(0, 1000), max_size=3)
RUNS = st.builds(lambda steps, ends: build(steps, ends), STEPS, ENDS)
NAMES = ("a", "b", "layers.0", "layers.1", "layers.2")


def build(steps: list[tuple[str, int, int]], ends: list[int]) -> Recording:
    """A run that does what *steps* say."""
    run = Builder("Random")
    opened = [run.scope("Random")]
    opened[0].__enter__()
    values = [run.input("x"), run.input("y")]
    for kind, one, other in steps:
        first, second = values[one % len(values)], values[other % len(values)]
        if kind == "open":
            region = ScopeKind.NO_GRAD if other % 7 == 0 else ScopeKind.MODULE
            opened.append(run.scope(NAMES[one % len(NAMES)], f"C{other % 3}", kind=region))
            opened[-1].__enter__()
        elif kind == "close" and len(opened) > 1:
            opened.pop().__exit__(None, None, None)
        elif kind == "op":
            values.append(run.op("relu", first, grads=("ReluBackward0",)))
        elif kind == "two":
            values.append(run.op("add", first, second, grads=("MulBackward0", "AddBackward0")))
        elif kind == "view":
            values.append(run.op("view", first))
        elif kind == "weight":
            values.append(run.op("linear", first, run.parameter("weight")))
        elif kind == "pass":
            values.append(run.op("pass", first, kind=OpKind.PASS))
        elif kind == "const":
            values.append(run.op("mul", first, run.constant()))
        elif kind == "repeat":
            values.extend(repeat(run, first, one, other))
        elif kind == "loop":
            values.extend(loop(run, first, second, one, other))
        elif kind == "turns":
            values.extend(turns(run, first, one, other))
    if len(opened) == 1:
        run.returns(*(values[end % len(values)] for end in ends))
    while opened:
        opened.pop().__exit__(None, None, None)
    return run.recording()


def repeat(run: Builder, start: str, number: int, form: int) -> list[str]:
    """Equal blocks in a chain or side by side; gives the last result, or all."""
    made, h = [], start
    for place in range(2 + number % 3):
        with run.scope(f"block.{place}", "Block"):
            with run.scope("inner", "Inner"):
                h = run.op("linear", h, run.parameter("weight"))
            h = run.op("add", h, start) if form % 2 else run.op("relu", h)
        made.append(h)
        h = start if form % 3 == 0 else h
    return made if form % 5 == 0 else [run.op("cat", *made)] if form % 3 == 0 else made[-1:]


def loop(run: Builder, start: str, beside: str, number: int, form: int) -> list[str]:
    """The same ops again and again; gives the last result, or all, or one from the middle."""
    made, h = [], start
    for place in range(3 + number % 4):
        part = run.op("getitem", beside, arguments=(("index", str(place)),))
        if form % 4 == 1:
            part = run.op("mul", part, run.constant())
        if form % 7 == 3:
            with run.scope("cell", "Cell"):
                part = run.op("linear", part, run.parameter("weight"))
        h = run.op("add", part, h if form % 3 else start)
        h = run.op("tanh", h if form % 11 else made[-2] if len(made) > 1 else h)
        made.append(h)
    return [run.op("stack", *made)] if form % 2 else made if form % 5 else made[-1:]


def turns(run: Builder, h: str, number: int, form: int) -> list[str]:
    """Blocks of two or three sorts in turn."""
    made = []
    for place in range((4 + number % 6) * (2 + form % 2)):
        with run.scope(f"layers.{place}", f"Sort{place % (2 + form % 2)}"):
            with run.scope("inner", "Inner"):
                h = run.op("linear", h, run.parameter("weight"))
        made.append(h)
    return made if form % 5 == 0 else made[-1:]


def graph_of(view: View) -> nx.DiGraph:
    """The view's boxes and arrows."""
    graph = nx.DiGraph()
    graph.add_nodes_from(view.boxes)
    graph.add_edges_from((arrow.tail, arrow.head) for arrow in view.arrows)
    return graph


def place(view: View) -> dict[str, str]:
    """The box that each recorded thing is in."""
    return {member: box.id for box in view.boxes.values() for member in (box.id, *box.members)}


@given(RUNS)
def test_whole_has_an_arrow_for_every_argument(recording: Recording) -> None:
    """And none besides."""
    view = full_view(recording)
    view.check()
    read = Counter(arrow.head for arrow in view.arrows)
    for op in recording.ops.values():
        assert read[op.id] == len(op.inputs)


@given(RUNS, st.integers(0, 6))
def test_closing_keeps_every_outer_edge(recording: Recording, depth: int) -> None:
    """An argument whose ends lie in different boxes has an arrow that carries its value."""
    full, closed = full_view(recording), Collapse(depth)(full_view(recording))
    closed.check()
    home = place(closed)
    drawn = {(arrow.tail, arrow.head, arrow.value) for arrow in closed.arrows}
    for arrow in full.arrows:
        ends = home[arrow.tail], home[arrow.head]
        assert ends[0] == ends[1] or (*ends, arrow.value) in drawn
    wanted = {(home[each.tail], home[each.head], each.value) for each in full.arrows}
    assert drawn <= wanted


@given(RUNS, st.integers(0, 6))
def test_members_are_shared_out(recording: Recording, depth: int) -> None:
    """Every scope that is not open, every op and every value is in exactly one box."""
    view = Collapse(depth)(full_view(recording))
    members = Counter(member for box in view.boxes.values() for member in box.members)
    assert set(members.values()) <= {1}
    things = {*recording.ops, *(value for op in recording.ops.values() for value in op.outputs)}
    assert things <= set(members)
    assert set(recording.scopes) == {each for each in (*members, *view.clusters) if each[0] == "s"}


@given(RUNS)
def test_full_depth_is_the_identity_on_ops(recording: Recording) -> None:
    """Nothing but empty scopes is closed."""
    view = Collapse(max_depth(recording))(full_view(recording))
    assert {box for box in view.boxes if box in recording.ops} == set(recording.ops)


@given(RUNS)
def test_hiding_keeps_reachability(recording: Recording) -> None:
    """What could be reached through hidden boxes still can, and nothing more."""
    full = full_view(recording)
    ops = recording.ops.values()
    view = HideOps({op.id for op in ops if is_identity(op) or is_reshape(op)})(full)
    view.check()
    before, after = nx.transitive_closure(graph_of(full)), nx.transitive_closure(graph_of(view))
    assert set(after.edges) == {
        (tail, head) for tail, head in before.edges if tail in after and head in after
    }


@given(RUNS, st.integers(0, 5))
def test_folds_add_up(recording: Recording, depth: int) -> None:
    """No op is lost, and a box stands for as many scopes as the counts around it say."""
    closed = Collapse(depth)(full_view(recording))
    view = Fold()(closed)
    view.check()
    assert ops_in(view) == ops_in(closed)
    for box in view.boxes.values():
        times, around = box.count, box.cluster
        while around is not None:
            times, around = times * view.clusters[around].count, view.clusters[around].parent
        if box.id in recording.scopes:
            scope = recording.scopes[box.id]
            alike = [
                each
                for each in box.members
                if each in recording.scopes
                and recording.structures[each] == recording.structures[scope.id]
                and scope_depths(recording)[each] == scope_depths(recording)[scope.id]
            ]
            assert len(alike) == times


def ops_in(view: View) -> Counter[str]:
    """Every op that some box stands for."""
    return Counter(
        member
        for box in view.boxes.values()
        for member in box.members
        if member in view.recording.ops
    )


def test_random_runs_do_fold() -> None:
    """So that the other properties say something: chains, side by side, nested."""
    for form in (1, 2, 3, 5):
        recording = build([("repeat", 2, form), ("repeat", 1, form)], [])
        for depth in (1, 2):
            view = Fold()(Collapse(depth)(full_view(recording)))
            assert max(each.count for each in (*view.boxes.values(), *view.clusters.values())) > 1


@given(RUNS, st.integers(0, 5))
def test_folding_keeps_every_edge(recording: Recording, depth: int) -> None:
    """Each arrow between two things is there between what stands for them, or inside it."""
    closed = Collapse(depth)(full_view(recording))
    view = Fold()(closed)
    home = place(view)
    drawn = {(arrow.tail, arrow.head) for arrow in view.arrows}
    groups = {box.id: [*folds_around(view, box.id)] for box in view.boxes.values()}
    for arrow in closed.arrows:
        ends = home[arrow.tail], home[arrow.head]
        shared = set(groups[ends[0]]) & set(groups[ends[1]])
        assert ends in drawn or shared, arrow


def folds_around(view: View, box: str) -> Iterator[str]:
    """The folds that a box is in, or is."""
    if view.boxes[box].count > 1:
        yield box
    around = view.boxes[box].cluster
    while around is not None:
        if view.clusters[around].count > 1:
            yield around
        around = view.clusters[around].parent


@given(RUNS, st.integers(0, 5))
def test_folding_invents_no_edge(recording: Recording, depth: int) -> None:
    """Each arrow that is drawn was there, between two that its ends stand for."""
    closed = Collapse(depth)(full_view(recording))
    view = Fold()(closed)
    home = place(view)
    known = {(home[arrow.tail], home[arrow.head]) for arrow in closed.arrows}
    assert {(arrow.tail, arrow.head) for arrow in view.arrows} <= known


@given(RUNS, st.integers(0, 5))
def test_folding_leaves_no_block_of_one(recording: Recording, depth: int) -> None:
    """What did not fold is where it was, and all is in the order of the run."""
    closed = Collapse(depth)(full_view(recording))
    view = Fold()(closed)
    blocks = [each for each in view.clusters.values() if each.id not in closed.clusters]
    assert all(each.count > 1 for each in blocks)
    for box in view.boxes.values():
        around = box.cluster
        while around is not None and around not in closed.clusters:
            around = view.clusters[around].parent
        assert around == closed.boxes[box.id].cluster
    assert list(view.boxes) == [box for box in closed.boxes if box in view.boxes]


def test_random_loops_do_fold() -> None:
    """So that the other properties say something of them."""
    for step in ("loop", "turns"):
        for form in range(1, 8):
            view = Fold()(Collapse(1)(full_view(build([(step, 1, 3), (step, 3, form)], []))))
            assert any(each.id.startswith("block:") for each in view.clusters.values())


@given(RUNS, st.integers(0, 5))
def test_folding_keeps_what_is_joined_to_the_outside(recording: Recording, depth: int) -> None:
    """Boxes that did not fold keep their neighbors, up to what stands for these."""
    closed = Collapse(depth)(full_view(recording))
    view = Fold()(closed)
    home = place(view)
    drawn = {(arrow.tail, arrow.head) for arrow in view.arrows}
    stays = {box for box in view.boxes if view.boxes[box] == closed.boxes[box]}
    for arrow in closed.arrows:
        if arrow.tail in stays and arrow.head in stays:
            assert (arrow.tail, arrow.head) in drawn
        elif arrow.tail in stays or arrow.head in stays:
            assert (home.get(arrow.tail), home.get(arrow.head)) in drawn or inside_fold(view, arrow)


def inside_fold(view: View, arrow: object) -> bool:
    """Whether an end lies in an open fold, in which other copies have the arrow."""
    return any(cluster.count > 1 for cluster in view.clusters.values())


@given(RUNS, st.integers(0, 5))
def test_tensors_as_boxes_keep_the_flow(recording: Recording, depth: int) -> None:
    """Between the boxes that were there, what could be reached still can."""
    before = Collapse(depth)(full_view(recording))
    after = show_tensors(before)
    after.check()
    graph = nx.transitive_closure(graph_of(after))
    assert all(graph.has_edge(arrow.tail, arrow.head) for arrow in before.arrows)


@given(RUNS, st.data())
def test_focus_keeps_exactly_the_scope(recording: Recording, data: st.DataObject) -> None:
    """Its ops, with all their arguments."""
    scope = data.draw(st.sampled_from(list(recording.scopes.values())))
    part = Focus(scope.path)(recording)
    inside = {
        op.id
        for op in recording.ops.values()
        if any(recording.scopes[each].path == scope.path for each in recording.within(op.scope))
    }
    assert set(part.ops) == inside
    view = full_view(part)
    view.check()
    assert sum(len(op.inputs) for op in part.ops.values()) <= len(view.arrows)


@given(RUNS, st.integers(0, 1000))
def test_what_lies_between(recording: Recording, number: int) -> None:
    """Since and until an op cut the run at it: its ancestors and descendants."""
    if not recording.ops:
        return
    op = list(recording.ops)[number % len(recording.ops)]
    graph = nx.DiGraph()
    graph.add_nodes_from(recording.ops)
    for each in recording.ops.values():
        for slot in each.inputs:
            producer = recording.values[slot.value].producer
            if producer is not None:
                graph.add_edge(producer, each.id)
    assert set(Focus(until=op)(recording).ops) == nx.ancestors(graph, op) | {op}
    assert set(Focus(since=op)(recording).ops) == nx.descendants(graph, op) | {op}


@pytest.mark.dot
@settings(max_examples=40)
@given(
    RUNS,
    st.builds(
        ViewOptions,
        depth=st.none() | st.integers(0, 6),
        parameters=st.none() | st.booleans(),
        tensors=st.booleans(),
        passes=st.booleans(),
        reshapes=st.booleans(),
        queries=st.booleans(),
        fold=st.booleans(),
    ),
)
def test_dot_has_the_texts_of_the_view(recording: Recording, options: ViewOptions) -> None:
    """Graphviz reads as many nodes and edges as there are boxes and arrows."""
    view = make_view(recording, options)
    view.check()
    graph = pygraphviz.AGraph(dot_text(draw(view, Style())))
    assert len(graph.nodes()) == len(view.boxes)
    assert len(graph.edges()) == len(view.arrows)


@given(RUNS, st.integers(0, 6))
def test_views_are_the_same_every_time(recording: Recording, depth: int) -> None:
    """Down to the text."""
    texts = {dot_text(draw(make_view(recording, ViewOptions(depth=depth)))) for _ in range(2)}
    assert len(texts) == 1

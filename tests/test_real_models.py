"""Real architectures: recorded, compared with the witness, and left as they were."""

from __future__ import annotations

import functools

import pytest

import torchrecorder
from tests import real_models
from tests.agreement import Agreement
from tests.export.test_text import total
from tests.reach import disagreements
from tests.replay import Replay, kept_run
from tests.structure import structure
from torchrecorder.annotations.parameters import BUFFER_BYTES, PARAMETER_BYTES
from torchrecorder.testing.inert import assert_inert

SLOW = {"faster_rcnn", "faster_rcnn_training", "raft", "vgg11", "inception_v3", "timm_levit"}
SLOW |= {"timm_efficientnet", "densenet121_checkpointed", "timm_resnest"}

LASTING = {"mixtral", "llava"}
"""transformers registers hooks of its own in their first forward."""

each_model = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
        for name in real_models.available()
    ],
    scope="module",  # all tests of one model come one after the other
)


pytestmark = pytest.mark.usefixtures("strict_but_quiet")


@functools.lru_cache(maxsize=1)
def _recorded(name):
    """A recording of the model, made when all caches are filled; its tests only read it."""
    run = real_models.make(name)
    run.model(*run.args, **(run.kwargs or {}))
    run = real_models.make(name)
    return torchrecorder.record(run.model, run.args, run.kwargs)


@functools.lru_cache(maxsize=1)
def _kept(name):
    """A run of the model under a witness, which two tests compare with the recording."""
    return kept_run(real_models.make(name))


@each_model
def test_agrees_with_the_witness(name):
    """Every tensor argument of every op, and every result, has the right origin."""
    recording = _recorded(name)
    assert structure(recording) == []
    assert recording.run.lost == 0
    agreement = Agreement(recording, _kept(name).witness)
    assert agreement.flow(_kept(name).read) == []
    assert agreement.modules() == []
    assert agreement.edges > 0


@each_model
def test_replays(name):
    """Run again along its edges only, the recording gives every result bit for bit."""
    recording = _recorded(name)
    kept = _kept(name)
    replay = Replay(recording, Agreement(recording, kept.witness), kept.keeper)
    assert replay.run(kept.outputs) == []
    assert replay.ran > 0


OWN_BACKWARD = {"reformer"}
"""Its reversible layers run forward and backward again inside backward."""

COMPILED_THERE = {"faster_rcnn", "faster_rcnn_training"}
"""torchvision compiles ``roi_align`` on a GPU that is to compute the same each time."""

NOT_DETERMINISTIC = {*COMPILED_THERE, "raft", "vgg11"}
"""Some of their operations have no deterministic gradient on a GPU."""


@each_model
def test_reaches_what_gradients_reach(name):
    """Recorded paths lead from output to leaf exactly where autograd finds a gradient."""
    if name in COMPILED_THERE and real_models.DEVICE != "cpu":
        pytest.skip("compiled there, but not while it is recorded")
    if name not in OWN_BACKWARD:
        assert disagreements(_recorded(name), real_models.make(name)) == []


FUNCTIONS = {"beam_search", "generation"}
"""Methods of models: whose weights they use is not asked."""


@each_model
def test_counts(name):
    """Weights, trained and not, and the bytes of all that is stored are those of the model."""
    if name not in FUNCTIONS:
        recording, model = _recorded(name), real_models.make(name).model
        weights = list(model.parameters())
        trained = sum(each.numel() for each in weights if each.requires_grad)
        count = sum(each.numel() for each in weights)
        assert total(recording, "Total params") == f"{count:,}"
        assert total(recording, "Trainable params") == f"{trained:,}"
        assert total(recording, "Non-trainable params") == f"{count - trained:,}"
        assert PARAMETER_BYTES.on(recording).total() == sum(each.nbytes for each in weights)
        assert BUFFER_BYTES.on(recording).total() == sum(each.nbytes for each in model.buffers())


@each_model
def test_is_inert(name):
    """A plain run and a recorded run cannot be told apart."""
    if name in NOT_DETERMINISTIC and real_models.DEVICE != "cpu":
        pytest.skip("two plain runs differ there")

    _recorded.cache_clear()  # what is alive during this test is not collected after it
    _kept.cache_clear()

    def make():
        run = real_models.make(name)
        return run.model, run.args, run.kwargs or {}

    assert_inert(make, lasting=name in LASTING)

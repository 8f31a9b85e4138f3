"""Options and fixtures that all tests share."""

from __future__ import annotations

import gc
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from torchrecorder.layout import engine

# Some kernels add in the order in which threads come: two plain runs would differ in bits.
torch.set_num_threads(1)

# With one thread for tasks that are forked, one task waits until all before it are put away.
torch.set_num_interop_threads(1)

# A seed for devices that are not there is noted for later, with the text of the whole stack: that
# takes longer than most models of the tests.
for _devices in (torch.cuda, torch.xpu, torch.mtia):
    if not _devices.is_available():
        _devices.manual_seed_all = lambda seed: None

# A busy machine is no failure, and what a change has not broken is no failure of it.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("steady")

# Else examples are also made of the constants in all modules that happen to be imported by then:
# the same test would try others alone than among all, and others after each change of a number.
providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` renews the files that tests compare with; ``--device`` says where the
    real models are made."""
    parser.addoption("--update-golden", action="store_true", help="renew golden files")
    parser.addoption("--device", default="cpu", help="device of the real models: cpu, cuda")


def pytest_configure(config: pytest.Config) -> None:
    """Make real models on the device that is asked for."""
    if config.getoption("--device") != "cpu":
        from tests import real_models

        real_models.use(config.getoption("--device"))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be renewed."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(update_golden: bool) -> Callable[[str, str], None]:
    """Compares a text with the golden file of this name."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if update_golden:
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text

    return compare


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> None:
    """Leave what was imported or cached before out of garbage collections, which tests run often.

    A heap grows to millions of objects, and each test of inertness goes through it many times.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def pytorch_restored() -> Iterator[None]:
    """Every test leaves PyTorch as it found it: hooks, modes, saved-tensor hooks, grad mode."""
    before = _installed()
    yield
    assert _installed() == before


@pytest.fixture
def no_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a platform for which pygraphviz has no wheel."""
    usual = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "pygraphviz" else usual(name, package)

    monkeypatch.setattr("importlib.util.find_spec", find_spec)


@pytest.fixture
def broken_graphviz(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine without the libraries of the system that Graphviz needs."""
    folder = tmp_path / "pygraphviz"
    folder.mkdir()
    text = "libgobject-2.0.so.0: cannot open shared object file: No such file or directory"
    (folder / "_graphviz.py").write_text(f"raise ImportError({text!r})\n")
    monkeypatch.setattr(engine, "_installed", lambda: str(folder))
    monkeypatch.setattr(engine, "_missing", [])


@pytest.fixture
def strict_but_quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Errors of an instrument are raised; warnings of models and PyTorch are not."""
    from torchrecorder.capture.tape import Tape

    monkeypatch.setattr(Tape, "strict", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    if "torch._dynamo" in sys.modules:  # it compiles the same function only so many times
        sys.modules["torch._dynamo"].reset()


def _installed() -> dict[str, Any]:
    """What is installed in PyTorch right now; nothing where it was not imported."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return {}
    from torchrecorder.capture.internals.access import saved_tensor_hooks

    tables = vars(torch.nn.modules.module)
    found = {
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "saved-tensor hooks": saved_tensor_hooks(),
        "without gradients": not torch.is_grad_enabled(),
        **{name: len(hooks) for name, hooks in tables.items() if _holds_hooks(name, hooks)},
    }
    return {name: state for name, state in found.items() if state}


def _holds_hooks(name: str, hooks: Any) -> bool:
    return name.startswith("_global_") and hasattr(hooks, "__len__")

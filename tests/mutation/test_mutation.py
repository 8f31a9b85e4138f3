"""The tool that changes the package to see whether a test notices."""

import ast
import contextlib
import io
import shutil
import subprocess

import pytest

from tests.mutation import __main__ as tool
from tests.mutation.coverage_store import Test
from tests.mutation.mutants import mutants, sample

SUMS = '''"""Sums."""

LIMIT = 3


def _twice(function):
    return lambda *values: 2 * function(*values)


def small(values):
    """What is below the limit, in order."""
    found = [
        value for value in values if value < LIMIT
    ]
    return sorted(found) if found else None


class Total:
    """A sum."""

    def __init__(self):
        self.value = 0
        self.calls = 0

    def add(self, value):
        """Count and add."""
        self.calls += 1
        self.value += value


@_twice
def last(values):
    return values[-1]


def unused(one):
    return one + 1
'''

TESTS = '''import sys

import pytest

from torchrecorder import sums


def test_debugger():
    """One that ends all tracing."""
    sys.settrace(None)


def test_small():
    """Nothing is said about the limit itself."""
    assert sums.small([2, 4, 1]) == [1, 2]
    assert sums.small([]) is None


def test_total():
    """Both the calls and the sum, but the calls are not looked at."""
    total = sums.Total()
    total.add(1)
    total.add(2)
    assert total.value == 3


def test_last():
    """Twice the last."""
    assert sums.last([1, 3]) == 6


def test_slow_to_end():
    """Never reached before a faster test fails."""
    sums.Total().add(0)
'''

TEST_IN_A_CHILD = '''import subprocess
import sys


def test_unused():
    """In a process of its own."""
    code = "from torchrecorder.sums import unused; assert unused(1) == 2"
    subprocess.run([sys.executable, "-c", code], check=True)
'''

TEST_OF_UNUSED = """from torchrecorder.sums import unused


def test_unused():
    assert unused(1) == 2
"""

SURVIVORS = [
    "<module> off_by_one: 3 -> 4",
    "Total.__init__ off_by_one: 0 -> 1 #2",
    "Total.add arithmetic: self.calls += 1 -> self.calls -= 1",
    "Total.add off_by_one: 1 -> 2",
    "Total.add removed_statement: self.calls += 1 -> pass",
    "Total.add replaced_sum: self.calls += 1 -> self.calls = 1",
    "small boundary: value < LIMIT -> value <= LIMIT",
    *(UNUSED := ["unused arithmetic: one + 1 -> one - 1", "unused off_by_one: 1 -> 2"]),
]
"""The limit itself, the calls, and what no test runs."""

ALL = 22
"""Mutants of the small package."""


def _written(folder):
    """A small package with tests."""
    for name, text in {"__init__": '"""A package."""\n', "sums": SUMS}.items():
        path = folder / "torchrecorder" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_sums.py").write_text(TESTS)
    (folder / "conftest.py").touch()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)


def _take_the_place(folder, monkeypatch):
    """The tool works on the package in *folder*."""
    monkeypatch.setattr(tool, "ROOT", folder)
    for name, inside in {"COVERAGE": "coverage", "SURVIVORS": "survivors.txt"}.items():
        monkeypatch.setattr(tool, name, folder / ".mutation" / inside)
    monkeypatch.setattr(tool, "EQUIVALENT", folder / "equivalent.txt")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def _prints(*arguments):
    """Run the tool, and give what it prints."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as told:
        patch.setattr("sys.argv", ["mutation", *arguments])
        tool.main()
    return told.getvalue()


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """The package after all its mutants were tried once, and what the tool printed."""
    folder = tmp_path_factory.mktemp("first")
    _written(folder)
    with pytest.MonkeyPatch.context() as patch:
        _take_the_place(folder, patch)
        return folder, _prints()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small package with tests, in the place of this one."""
    _written(tmp_path)
    _take_the_place(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def tried(tmp_path, monkeypatch, first_run):
    """The same, all mutants tried already."""
    shutil.copytree(first_run[0], tmp_path, dirs_exist_ok=True)
    _take_the_place(tmp_path, monkeypatch)
    return tmp_path


def _survivors(project):
    text = (project / ".mutation" / "survivors.txt").read_text()
    return sorted(line.removeprefix("torchrecorder/sums.py ") for line in text.splitlines())


def test_survivors_are_what_no_test_looks_at(first_run):
    """Functions, methods, decorated functions and what runs at import are changed."""
    project, out = first_run
    assert _survivors(project) == SURVIVORS
    assert "-        value for value in values if value < LIMIT\n+ " in out
    assert f"{ALL - len(SURVIVORS)} of {ALL} noticed" in out
    assert out.count("no measured test runs this line") == len(UNUSED)
    assert (project / "torchrecorder" / "sums.py").read_text() == SUMS


@pytest.mark.parametrize("text", [TEST_OF_UNUSED, TEST_IN_A_CHILD], ids=["here", "in a child"])
def test_survivors_again_after_a_new_test(tried, text):
    """Only the survivors run again, and coverage is measured of the file that changed."""
    (tried / "tests" / "test_unused.py").write_text(text)
    out = _prints("--again", "--tests", "tests/test_unused.py")
    assert "coverage of 1 test files" in out
    assert _survivors(tried) == SURVIVORS[:-2]
    assert f"2 of {len(SURVIVORS)} noticed" in out


def test_coverage_of_tests_that_could_not_be_imported_is_measured_again(project):
    """What was wrong may lie elsewhere."""
    (project / "tests" / "test_unused.py").write_text("import helper\n" + TEST_OF_UNUSED)
    with pytest.raises(FileNotFoundError):
        _prints()
    (project / "helper.py").touch()
    assert "coverage of 2 test files" in _prints()


def test_equivalent_mutants_are_left_out(project):
    """One that is listed does not run; one that is listed and gone is told."""
    listed = [f"torchrecorder/sums.py {key}" for key in ("gone off_by_one: 1 -> 2", SURVIVORS[0])]
    (project / "equivalent.txt").write_text("# Why\n" + "\n    A reason.\n".join([*listed, ""]))
    out = _prints("--folder", "sums.py")
    assert _survivors(project) == SURVIVORS[1:]
    assert f"not found any more: {listed[0]}" in out and listed[1] not in out


def test_what_a_package_defines_itself(project):
    """Its functions are changed in processes that have loaded it before."""
    text = "def one():\n    return 1\n"
    (project / "torchrecorder" / "__init__.py").write_text(text)
    test = f"import torchrecorder\n\n\n{text.replace('def ', 'def test_')}"
    test = test.replace("return 1", "assert torchrecorder.one() == 1")
    (project / "tests" / "test_one.py").write_text(test)
    assert "1 of 1 noticed" in _prints("--folder", "__init__.py", "--tests", "tests/test_one.py")


def test_constants_are_tried_with_tests_that_name_their_module(project):
    """Before faster ones that run something else in it."""
    path = "torchrecorder/sums.py"
    (project / "tests" / "test_limit.py").write_text("from torchrecorder.sums import LIMIT")
    (project / "tests" / "test_sums.py").write_text("import small")
    tests = [
        Test("tests/test_sums.py::test_small", 1.0, {path: {"small": 1}}),
        Test("tests/test_limit.py::test_limit", 2.0, {}),
    ]
    constant = next(each for each in mutants(project, path) if not each.function)
    other = next(each for each in mutants(project, path) if each.function == "small")
    trials = (tool._trial(each, tests, set(), 10) for each in (constant, other._replace(line=0)))
    assert [[test for test, _ in trial.tests] for trial in trials] == [
        [tests[1].name, tests[0].name], [tests[0].name]
    ]


def test_tests_that_name_a_module_have_half_the_time(project):
    """Before faster ones, which may be many, of other things; the rest is of the fastest."""
    path = "torchrecorder/sums.py"
    (project / "tests" / "test_sums.py").write_text("from torchrecorder.sums import small")
    (project / "tests" / "test_other.py").write_text("import other")
    lines = {path: {"small": 1}}
    tests = [
        *(Test(f"tests/test_other.py::test_{number}", 1.0, lines) for number in range(9)),
        *(Test(f"tests/test_sums.py::test_{number}", 2.0, lines) for number in range(3)),
        Test("tests/test_sums.py::test_else", 2.0, {}),
    ]
    mutant = next(each for each in mutants(project, path) if each.function == "small")
    trial = tool._trial(mutant._replace(line=0), tests, set(), 10)
    assert [test for test, _ in trial.tests] == [
        *(f"tests/test_sums.py::test_{number}" for number in range(2)),
        *(f"tests/test_other.py::test_{number}" for number in range(6)),
    ]


def test_unknown_folder(project):
    """A folder that is not there is an error, not an empty sample."""
    with pytest.raises(SystemExit, match="no such folder or file.*nowhere"):
        _prints("--folder", "nowhere")


def test_every_mutant_changes_one_place(project):
    """Each can be compiled, has a key of its own, and leaves every other line where it is."""
    path = "torchrecorder/sums.py"
    found = list(mutants(project, path))
    assert len({mutant.key for mutant in found}) == len(found) == ALL
    before = SUMS.splitlines()
    for mutant in found:
        after = mutant.apply(SUMS).splitlines()
        ast.parse("\n".join(after))
        changed = [one for one, other in zip(before, after, strict=True) if one != other]
        assert len(changed) == 1 or len(changed) == 3 and "value < LIMIT" in mutant.before


def test_a_sample_stays_when_code_is_added(project):
    """The same seed chooses the same mutants; another seed others."""
    found = list(mutants(project, "torchrecorder/sums.py"))
    few = sample(found, 8, seed=1)
    assert sample(found[::-1], 8, seed=1) == few != sample(found, 8, seed=2)
    assert set(few) - {found[0]} <= set(sample(found[1:], 8, seed=1))


@pytest.mark.parametrize(
    "code, changed",
    [
        ("a and b and c", {"a or b or c", "b and c", "a and c", "a and b"}),
        ("not a", {"a"}),
        ("a <= b != c", {"a < b != c", "a <= b == c"}),
        ("a if b else c", {"c if b else a"}),
        ("[a for a in b if c]", {"[a for a in b if True]"}),
        ("a[0]", {"a[-1]", "a[1]"}),
        ("b = sum(a)", {"b = [0, *a][-1]"}),
        ("c = sorted(a, key=b)", {"c = list(a)"}),
        ("c = min(a, key=b)", {"c = max(a, key=b)"}),
        ("'text' + a", set()),
        ("if a:\n    b", {"if True:\n    b", "if False:\n    b"}),
        ("f(1.5, 0.0)", {"pass", "f(3.0, 0.0)", "f(1.5, 1.0)"}),
        ("def a(b: 'c[0]' = True): pass", {"def a(b: 'c[0]' = False): pass"}),
        ("raise a(0)", set()),
        ("@dataclass(frozen=True, eq=False)\nclass A: pass",
         {"@dataclass(frozen=True, eq=True)\nclass A: pass"}),
        ("@lru_cache(maxsize=64)\ndef a(): pass", set()),
        ("a.b = f(c)", {"pass"}),
        ("for a in b:\n    continue", {"for a in b:\n    pass"}),
    ],
)
def test_operators(code, changed, tmp_path):
    """What each construct is changed to."""
    (tmp_path / "code.py").write_text(code)
    found = [mutant.apply(code) for mutant in mutants(tmp_path, "code.py")]
    assert sorted(map(_plain, found)) == sorted(map(_plain, changed))


def _plain(code):
    return ast.unparse(ast.parse(code))


def test_modules_without_functions_are_tried_with_tests_that_name_them(tmp_path, monkeypatch):
    """Or, if there are none, with those that name their package; no other name will do."""
    texts = {
        "test_one.py": "from torchrecorder.sums.names import FIRST",
        "test_other.py": "from torchrecorder.sums.namesakes import first",
        "inner/test_package.py": "import torchrecorder.sums",
    }
    for name, text in texts.items():
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    every = {f"tests/{name}" for name in texts}
    assert tool._naming("torchrecorder/sums/names.py") == {"tests/test_one.py"}
    assert tool._naming("torchrecorder/sums/limits.py") == every
    assert tool._naming("torchrecorder/products/names.py") == set()

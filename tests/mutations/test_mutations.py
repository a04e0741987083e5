"""The changes that a mutation run tries, and the tests it tries them with."""

import ast
from pathlib import Path

import pytest

from tests.mutations import cython_mutants, nearest, python_mutants, run
from tests.mutations.mutant import Mutant
from tests.mutations.overlay import Overlay

pytestmark = pytest.mark.control

PYTHON = b'''\
LIMIT: int = 5


def f(a: int = 3, *names: str) -> bool:
    """A text."""
    if a < 1 and not names:
        logger.info("so many: %d", 7)
        g(a)
        return True
    a += 1
    total: int = a - 2 << b >> b ** c
    if names:
        raise ValueError(f"{a + 1}")
    return None
'''
PYTHON_CHANGES = {
    "<": "<=",
    "and": "or",
    "not ": "",
    "1": "2",
    "2": "3",
    "g(a)": "pass",
    "True": "False",
    "+=": "-=",
    "a += 1": "pass",
    "-": "+",
    "names": "not (names)",
    'raise ValueError(f"{a + 1}")': "pass",
}
CYTHON = b'''\
cdef int LIMIT = 5


cdef class Log:
    """A text with 1 < 2."""

    cdef int64_t f(self, int a=3,
                   int b=4) noexcept:
        """Another, with 3."""
        cdef int64_t end = 0   # a <= b
        if a <= b or self.is_full:
            logger.info("%d < %d", a, 7)
            self.roll(a)
            continue
        end = a + 1
        return end
'''
CYTHON_CHANGES = {
    "<=": "<",
    "or": "and",
    "self.roll(a)": "pass",
    "continue": "pass",
    "end = a + 1": "pass",
    "+": "-",
    "1": "2",
}


def changes(mutants: list[Mutant], source: bytes) -> set[tuple[str, str]]:
    return {(source[each.start : each.end].decode(), each.replacement.decode()) for each in mutants}


def test_mutants_change_only_the_bodies_of_python_functions() -> None:
    found = python_mutants.mutants("f.py", PYTHON)

    returned = ("True", "None")
    assert changes(found, PYTHON) == {*PYTHON_CHANGES.items(), returned}


def test_mutants_change_only_the_bodies_of_cython_functions() -> None:
    assert changes(cython_mutants.mutants("f.pyx", CYTHON), CYTHON) == {*CYTHON_CHANGES.items()}


@pytest.mark.parametrize("layer", ["core", "storage"])
def test_every_mutated_python_file_compiles_and_differs(layer: str) -> None:
    for mutant in list(run.sample([layer], 1))[:100]:
        source = (run.ROOT / mutant.file).read_bytes()

        changed = ast.dump(ast.parse(mutant.applied(source)))

        assert changed != ast.dump(ast.parse(source)), mutant.shown(source)


def test_a_mutant_is_shown_with_its_line_before_and_after() -> None:
    start = PYTHON.index(b"and")

    shown = Mutant("f.py", start, start + 3, b"or").shown(PYTHON)

    assert shown == "f.py:6: if a < 1 and not names: -> if a < 1 or not names:"


def test_a_sample_depends_on_its_seed_alone_and_takes_the_layers_in_turn() -> None:
    layers = ["core", "native"]
    first, again, other = (
        [next(mutants) for _ in range(10)]
        for mutants in (run.sample(layers, 1), run.sample(layers, 1), run.sample(layers, 2))
    )

    assert first == again
    assert first != other
    assert [each.file.startswith("src/_native") for each in first] == [False, True] * 5


@pytest.mark.parametrize("layer", run.LAYERS)
def test_every_file_has_existing_tests_near_it(layer: str) -> None:
    for file in {each.file for each in run.mutants_of(layer)}:
        stages = nearest.stages(file)
        assert stages, file
        for argument in [each for stage in stages for each in stage if each.startswith("tests")]:
            assert (nearest.ROOT / argument).exists(), file


def test_the_mirror_test_of_a_file_runs_before_its_neighbours() -> None:
    stages = nearest.stages("src/broker/core/groups/classic/presence.py")

    assert stages[0] == ("tests/unit/core/groups/classic/test_presence.py",)
    assert stages[1] == ("tests/unit/core/groups/classic",)
    assert stages[2] == ("tests/unit/core/groups",)


def test_the_copy_holds_a_mutated_file_until_it_is_restored(
    tmp_path: Path,
) -> None:
    overlay = Overlay(run.ROOT, tmp_path)
    mutant = run.mutants_of("core", "core/scheduling/steps.py")[0]
    copy = overlay.folder / "broker/core/scheduling/steps.py"
    before = copy.read_bytes()

    target = overlay.change(mutant)

    assert target is not None
    assert copy.read_bytes() == mutant.applied(before)
    overlay.restore(target)
    assert copy.read_bytes() == before


def test_tests_import_the_mutated_package(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "__init__.py").write_text("raise SystemExit(1)\n")
    stage = ("tests/unit/model/test_clock.py",)

    assert run.run_tests(None, stage)
    assert not run.run_tests(tmp_path, stage)

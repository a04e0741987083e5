"""The tests nearest to a source file: those of its mirror first, then those around it.

src/broker/core/topics/rules.py    tests/unit/core/topics/test_rules*.py, tests/unit/core/topics
src/_native/log/segment.pyx        tests/native/**/test_segment*.py, tests that import the module
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = ROOT / "tests"
_SIMULATION: Final = ("tests/simulation/test_simulation.py", "--simulation-seeds=100")
_FEW_HISTORIES: Final = (*_SIMULATION, "-k=not mutation")
# In addition to the mirror: scenarios of state machines, and the simulation that drives them.
_AROUND: Final = {
    "core/groups": [
        ("tests/unit/core/groups",),
        ("tests/scenarios/test_scenarios.py",),
        _FEW_HISTORIES,
    ],
    "core/transactions": [("tests/scenarios/transactions",), _FEW_HISTORIES],
    "core": [("tests/scenarios",), _FEW_HISTORIES, ("tests/unit/protocols/kafka/handlers",)],
    "storage": [("tests/unit/core", "--ignore=tests/unit/core/groups"), ("tests/unit/server",)],
}


def stages(file: str) -> list[tuple[str, ...]]:
    """Return arguments of pytest, one run each, the nearest tests first."""
    path = Path(file)
    found = _of_native(path) if path.suffix == ".pyx" else _of_python(path)
    return list(dict.fromkeys(found))


def _of_python(path: Path) -> list[tuple[str, ...]]:
    inside = path.relative_to("src/broker")
    mirror = TESTS / "unit" / inside.parent
    found = [_named(mirror, path.stem)]
    while not mirror.is_dir():
        mirror = mirror.parent
    found.append((_relative(mirror),))
    around = [each for each in (inside.parent, *inside.parent.parents) if str(each) in _AROUND]
    found += _AROUND[str(around[0])] if around else []
    return [each for each in found if each]


def _of_native(path: Path) -> list[tuple[str, ...]]:
    inside = path.relative_to("src/_native").parent
    folder, name = ".".join(inside.parts), path.stem
    module = f"broker._native.{folder}.{name}"
    tests = [*(TESTS / "native").rglob("test_*.py"), *(TESTS / "unit").rglob("test_*.py")]
    importing = [each for each in tests if module in each.read_text() or _says(each, folder, name)]
    around = TESTS / "native" / inside
    found = [
        _named(TESTS / "native", name),
        tuple(sorted(map(_relative, importing))),
        (_relative(around),) if around.is_dir() else (),
        tuple(sorted(map(_relative, (TESTS / "native").glob("test_*.py")))),
    ]
    return [each for each in found if each]


def _says(test: Path, folder: str, name: str) -> bool:
    return f"from broker._native.{folder} import {name}" in test.read_text()


def _named(folder: Path, name: str) -> tuple[str, ...]:
    """Return the test files whose names begin with a word, at any depth."""
    return tuple(sorted(map(_relative, folder.rglob(f"test_{name}*.py"))))


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))

"""The step of the build that makes C of Cython: which files it writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "src" / "_native" / "transpile.py"
SHARED = """
cdef inline int double_of(int value) noexcept nogil:
    return 2 * value
"""
USER = """
from shared cimport double_of

def of(int value):
    return double_of(value)
"""
ALONE = """
def of(int value):
    return value
"""
SOURCES = {
    "shared.pxd": SHARED,
    "user.pyx": USER,
    "alone.pyx": ALONE,
}
LONG_AGO_S = 1_000_000_000
PATHS = ("user", "alone")

pytestmark = pytest.mark.slow("starts Cython fourteen times")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        write(tmp_path / "source" / name, text)
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def transpile(place: Path) -> int:
    places = [SCRIPT, place / "source", place / "generated", place / "needs.d"]
    command = [sys.executable, *map(str, places), *PATHS]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode


def written_again(place: Path) -> list[str]:
    """Transpile once more; return the sources whose C files were written."""
    files = [place / "generated" / f"{path}.c" for path in PATHS]
    before = [each.stat().st_mtime_ns for each in files]
    assert transpile(place) == 0
    return [
        path
        for path, file, time in zip(PATHS, files, before, strict=True)
        if file.stat().st_mtime_ns != time
    ]


def make_newest(file: Path, others: Path) -> None:
    for each in others.rglob("*.p*"):
        os.utime(each, (LONG_AGO_S, LONG_AGO_S))
    os.utime(file)


def test_a_source_is_transpiled_again_only_if_it_or_what_it_cimports_changed(place: Path) -> None:
    assert transpile(place) == 0
    nothing = written_again(place)
    make_newest(place / "source" / "shared.pxd", place / "source")
    after_the_declarations = written_again(place)
    make_newest(place / "source" / "alone.pyx", place / "source")
    after_a_source = written_again(place)

    assert (nothing, after_the_declarations, after_a_source) == ([], ["user"], ["alone"])


def test_a_source_is_transpiled_again_if_a_declaration_it_cimported_is_gone(place: Path) -> None:
    assert transpile(place) == 0
    (place / "source" / "shared.pxd").unlink()

    assert transpile(place) == 1


def test_a_change_during_a_run_is_seen_by_the_next_one(place: Path) -> None:
    assert transpile(place) == 0
    end_ns = (place / "generated" / "alone.needs").stat().st_mtime_ns
    before_the_end_ns = end_ns - 5_000_000  # a run takes longer, and the last write is quicker
    os.utime(place / "source" / "alone.pyx", ns=(before_the_end_ns, before_the_end_ns))

    assert written_again(place) == ["alone"]


def test_a_source_with_an_error_leaves_its_c_file_as_it_was(place: Path) -> None:
    assert transpile(place) == 0
    whole = (place / "generated" / "alone.c").read_bytes()
    write(place / "source" / "alone.pyx", "def of(int value:\n")

    assert transpile(place) == 1
    assert (place / "generated" / "alone.c").read_bytes() == whole


def test_the_depfile_names_the_declarations_that_any_source_cimports(place: Path) -> None:
    transpile(place)

    target, needs = (place / "needs.d").read_text().split(": ")
    assert target == str(place / "generated" / "user.c")
    found = {Path(each) for each in needs.split()}
    assert {place / "source" / name for name in SOURCES} <= found


def test_a_source_with_an_error_fails_the_build_until_it_is_mended(place: Path) -> None:
    source = place / "source" / "alone.pyx"
    write(source, "def of(int value:\n")
    failed = [transpile(place), transpile(place)]
    write(source, ALONE)

    assert failed == [1, 1]
    assert transpile(place) == 0

"""The garbage collector during the load of coordinators."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.model.limits import GC_YOUNG_COLLECTIONS, GC_YOUNG_OBJECTS
from broker.server.garbage_collection import CollectorPause, bound_collections

START = """
import gc, os, signal, sys
from broker.cli import main, start

start.banner = lambda *_: os.kill(os.getpid(), signal.SIGTERM) or ""
main(["start", "--data-dir", sys.argv[1], "--listen", "127.0.0.1:0"])
print(*gc.get_threshold())
"""


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    gc.unfreeze()  # the collected tests (tests/conftest.py)
    yield
    gc.enable()
    gc.freeze()


def test_the_collector_is_paused_until_everything_is_loaded() -> None:
    load = CollectorPause()

    load.begin()
    during = (load.is_held, gc.isenabled())
    load.end()

    assert during == (True, False)
    assert not load.is_held
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_a_partition_that_is_loaded_again_is_loaded_with_the_collector_enabled() -> None:
    load = CollectorPause()
    load.begin()
    load.end()

    load.begin()

    assert gc.isenabled()


def test_a_broker_with_nothing_to_load_does_not_pause_the_collector() -> None:
    CollectorPause().end()

    assert gc.get_freeze_count() == 0


def test_a_collection_visits_what_was_made_since_the_last_ones_however_much_there_is() -> None:
    before = (gc.get_threshold(), list(gc.callbacks))
    try:
        bound_collections()
        kept = [[number] for number in range(20 * GC_YOUNG_OBJECTS)]
        visited = sum(len(gc.get_objects(generation)) for generation in range(3))
    finally:
        gc.set_threshold(*before[0])
        gc.callbacks[:] = before[1]

    assert len(kept) == 20 * GC_YOUNG_OBJECTS
    assert visited <= (GC_YOUNG_COLLECTIONS + 2) * (GC_YOUNG_OBJECTS + 1)


def test_a_started_broker_bounds_its_collections(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path / "data")],
        check=True,
        capture_output=True,
        text=True,
    )

    young, middle, oldest = map(int, ended.stdout.split())
    assert (young, middle) == (GC_YOUNG_OBJECTS, GC_YOUNG_COLLECTIONS)
    assert oldest > 1_000_000

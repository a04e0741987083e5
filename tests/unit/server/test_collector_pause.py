"""The collector of garbage and the load of coordinators."""

import gc
from collections.abc import Iterator

import pytest

from broker.server.collector_pause import CollectorPause


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_rests_until_everything_is_loaded() -> None:
    load = CollectorPause()

    load.begin()
    during = (load.is_held, gc.isenabled())
    load.end()

    assert during == (True, False)
    assert not load.is_held
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_a_partition_that_is_loaded_again_is_loaded_with_the_collector_at_work() -> None:
    load = CollectorPause()
    load.begin()
    load.end()

    load.begin()

    assert gc.isenabled()


def test_a_broker_that_has_nothing_to_load_leaves_the_collector_alone() -> None:
    CollectorPause().end()

    assert gc.get_freeze_count() == 0

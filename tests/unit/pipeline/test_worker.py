"""What tasks do for the worker that runs them."""

import gc
from itertools import count

import pytest

pytest.importorskip("pyspark")

from broker.pipeline import worker


class InTask:
    """What Spark's tasks have."""

    @staticmethod
    def get() -> object:
        return object()


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A new worker; how often it was told to leave alone what is there."""
    calls: list[int] = []
    monkeypatch.setattr(worker, "_TASKS", count())
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(1))
    return calls


def test_the_second_task_of_a_worker_takes_what_is_there_out_of_collections(
    frozen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "TaskContext", InTask)
    counts = []
    for _ in range(4):
        worker.begin_task()
        counts.append(len(frozen))

    assert counts == [0, 1, 1, 1]


def test_outside_of_a_worker_collections_stay_as_they_are(frozen: list[int]) -> None:
    for _ in range(4):
        worker.begin_task()

    assert not frozen

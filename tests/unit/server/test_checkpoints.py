"""Checkpoints: the order in which they are written, and what a slow or failing one holds back."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from broker.core.topics.topic import Topic
from broker.model.config import load
from broker.model.errors import StorageError
from broker.model.topic_config import TopicConfig
from broker.server.checkpoints import Checkpoints

ID = bytes(16)


class OneLog:
    log_start_offset = 3

    def __init__(self) -> None:
        self.offline = ""

    def take_offline(self, reason: str) -> None:
        self.offline = reason


class Fakes:
    """Everything around checkpoints; what is done is written down."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.plans = 0
        self.slow: asyncio.Future[None] | None = None  # the next cover waits for it
        self.error: StorageError | None = None
        self.failed: dict[Any, str] = {}  # logs whose epochs or indexes the next one cannot sync
        plain = TopicConfig({}, load())
        self.log, self.plain_log = OneLog(), OneLog()
        logs: list[Any] = [self.log]
        plain_logs: list[Any] = [self.plain_log]
        self.topics = [Topic("t", ID, plain, logs), Topic("plain", ID, plain, plain_logs)]
        fakes: Any = self
        self.checkpoints = Checkpoints(fakes, fakes.topics, fakes, self.on_disk)
        self.checkpoints.cover_first([self])

    name = "derived state"

    def is_kept_for(self, topic: Topic) -> bool:
        return topic.name == "t"

    async def cover(self, places: Iterable[tuple[Topic, Any]]) -> None:
        slow, self.slow = self.slow, None
        if slow is not None:
            await slow
        if self.error is not None:
            raise self.error
        self.done += [f"cover {topic.name}" for topic, _ in places]

    def plan_checkpoint(self) -> int:
        self.plans += 1
        return self.plans

    def prepare_checkpoint(self) -> dict[Any, str]:
        failed, self.failed = self.failed, {}
        return failed

    def write_checkpoint(self, plan: int) -> None:
        self.done.append(f"points {plan}")

    def note_log_starts(self, planned: list[tuple[Any, int]]) -> None:
        self.done.append(f"note {len(planned)}")

    def write_log_starts(self) -> None:
        self.done.append("starts")

    async def on_disk(self, work: Callable[[], None]) -> bool:
        work()
        return True

    run = on_disk  # of the I/O thread


def test_derived_state_is_written_before_recovery_points() -> None:
    async def written() -> list[str]:
        fakes = Fakes()
        assert await fakes.checkpoints.write()
        return fakes.done

    assert asyncio.run(written()) == ["cover t", "points 1"]


def test_a_log_whose_checkpoint_fails_is_offline_before_the_points_are_written() -> None:
    async def written() -> tuple[str, list[str]]:
        fakes = Fakes()
        fakes.failed = {fakes.log: "its index cannot be synced"}
        assert await fakes.checkpoints.write()
        return fakes.log.offline, fakes.done

    assert asyncio.run(written()) == ("its index cannot be synced", ["cover t", "points 1"])


def test_older_recovery_points_are_not_written_after_newer_ones() -> None:
    async def written() -> list[str]:
        fakes = Fakes()
        slow = fakes.slow = asyncio.get_running_loop().create_future()
        both = [asyncio.ensure_future(fakes.checkpoints.write()) for _ in range(2)]
        for _ in range(10):
            await asyncio.sleep(0)
        slow.set_result(None)
        await asyncio.gather(*both)
        assert fakes.plans == 2
        return fakes.done

    assert asyncio.run(written()) == ["cover t", "points 1", "cover t", "points 2"]


def test_recovery_points_are_not_advanced_if_derived_state_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def written() -> list[str]:
        fakes = Fakes()
        fakes.error = StorageError("no space left on device")
        assert not await fakes.checkpoints.write()
        assert not await fakes.checkpoints.save_log_starts([(fakes.log, 5)])
        with pytest.raises(StorageError):
            await fakes.checkpoints.persist_log_starts([(fakes.log, 5)])
        return fakes.done

    assert asyncio.run(written()) == []
    assert (
        "derived state not written: of=derived state error=no space left on device" in caplog.text
    )


@pytest.mark.parametrize(("is_plain", "start"), [(False, 5), (False, 3), (True, 5)])
def test_derived_state_is_written_first_only_for_logs_that_lose_records(
    *, is_plain: bool, start: int
) -> None:
    async def written() -> list[str]:
        fakes = Fakes()
        log = fakes.plain_log if is_plain else fakes.log
        assert await fakes.checkpoints.save_log_starts([(log, start)])
        return fakes.done

    covered = ["cover t"] if start == 5 and not is_plain else []
    assert asyncio.run(written()) == [*covered, "note 1", "starts"]

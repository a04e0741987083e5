"""Logs recovered in threads, and published on the loop."""

import asyncio
import sys
from collections.abc import Callable
from threading import current_thread, main_thread

import pytest

from broker.core.logs import log_loader
from broker.core.logs.log_loader import LogLoader


class SlowLog:
    """A log that records its progress."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_loading = True
        self.offline: str | None = None

    def end_loading(self) -> None:
        assert current_thread() is main_thread()
        self.is_loading = False

    def take_offline(self, reason: str) -> None:
        assert current_thread() is main_thread()
        assert self.is_loading, "not visible before the log is known to be offline"
        self.offline = reason


class Files:
    """What recovers logs, as the test decides."""

    def __init__(
        self,
        load: Callable[[SlowLog], str | None],
        settle: Callable[[list[SlowLog]], dict[SlowLog, str]] = lambda _: {},
    ) -> None:
        self.load = load
        self.settle = settle


def run(
    logs: list[SlowLog],
    load: Callable[[SlowLog], str | None] = lambda _: None,
    settle: Callable[[list[SlowLog]], dict[SlowLog, str]] = lambda _: {},
    threads: int = 2,
) -> list[str]:
    """Load all of them; return their names in the order in which they became ready."""
    ready: list[str] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        job: LogLoader[SlowLog] = LogLoader(loop, Files(load, settle))
        job.when_ready(lambda log: ready.append(log.name))
        job.start(logs, threads)
        await asyncio.wait_for(job.until_loaded(logs), 60)
        job.stop()

    asyncio.run(scenario())
    return ready


def test_all_logs_become_ready_in_the_given_order() -> None:
    logs = [SlowLog(str(number)) for number in range(100)]

    assert run(logs, threads=1) == [log.name for log in logs]


def test_all_logs_are_awaited_however_many_begin_to_load_meanwhile() -> None:
    logs, added = ([SlowLog(f"{name}{number}") for number in range(50)] for name in "ab")

    async def scenario() -> None:
        job: LogLoader[SlowLog] = LogLoader(
            asyncio.get_running_loop(), Files(lambda _: None, lambda _: {})
        )
        await job.until_all_loaded()  # there is none yet
        job.when_ready(lambda log: job.start(added, 2) if log is logs[0] else None)
        job.start(logs, 2)
        await asyncio.wait_for(job.until_all_loaded(), 60)
        job.stop()

    asyncio.run(scenario())

    assert not any(each.is_loading for each in (*logs, *added))


def test_no_log_is_loaded_twice_or_on_the_loop() -> None:
    logs = [SlowLog(str(number)) for number in range(500)]
    loaded: list[str] = []

    def load(log: SlowLog) -> None:
        assert current_thread() is not main_thread()
        loaded.append(log.name)

    ready = run(logs, load, threads=4)

    assert sorted(loaded) == sorted(ready) == sorted(log.name for log in logs)


def test_a_log_is_settled_after_its_load_and_before_it_is_ready() -> None:
    logs = [SlowLog(str(number)) for number in range(50)]
    loaded: list[SlowLog] = []
    settled: list[SlowLog] = []

    def settle(some: list[SlowLog]) -> dict[SlowLog, str]:
        assert all(log in loaded and log.is_loading for log in some)
        settled.extend(some)
        return {}

    run(logs, loaded.append, settle)

    assert sorted(log.name for log in settled) == sorted(log.name for log in logs)


def test_many_logs_are_settled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_loader, "RECOVERED_WAIT_MS", 60_000)
    monkeypatch.setattr(log_loader, "RECOVERED_LOGS_MAX", 20)
    sizes: list[int] = []

    def settle(some: list[SlowLog]) -> dict[SlowLog, str]:
        sizes.append(len(some))
        return {}

    run([SlowLog(str(number)) for number in range(100)], settle=settle, threads=1)

    assert [size for size in sizes if size] == [20] * 5


def test_logs_that_cannot_be_loaded_or_settled_are_offline_and_the_others_are_not() -> None:
    logs = [SlowLog(name) for name in ("good", "torn", "crash", "unsynced")]

    def load(log: SlowLog) -> str | None:
        if log.name == "crash":
            raise ZeroDivisionError("a mistake of ours")
        return "no such file" if log.name == "torn" else None

    def settle(some: list[SlowLog]) -> dict[SlowLog, str]:
        return {log: "EIO" for log in some if log.name == "unsynced"}

    run(logs, load, settle)

    assert [log.offline for log in logs] == [None, "no such file", "a mistake of ours", "EIO"]
    assert not any(log.is_loading for log in logs)


def test_a_stop_skips_logs_not_yet_begun_and_publishes_loaded_ones() -> None:
    logs = [SlowLog(str(number)) for number in range(50)]

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()

        def load(_: SlowLog) -> None:
            loop.call_soon_threadsafe(begun.set)
            job._waiting.clear()  # as `stop` does, while the first is being loaded

        job: LogLoader[SlowLog] = LogLoader(loop, Files(load))
        job.start(logs, 1)
        await begun.wait()
        job.stop()

    asyncio.run(scenario())

    assert [log.is_loading for log in logs] == [False] + [True] * 49


def test_nothing_to_load_starts_no_thread() -> None:
    assert run([]) == []


def test_the_switch_interval_is_shorter_only_while_logs_are_loaded() -> None:
    before = sys.getswitchinterval()
    during: list[float] = []

    run([SlowLog("a")], lambda _: during.append(sys.getswitchinterval()))

    assert during[0] < before
    assert sys.getswitchinterval() == before

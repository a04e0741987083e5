"""Services of a process: the order of their starts and stops, and what happens when one fails."""

import asyncio
import logging
from functools import partial

import pytest

from broker.core.service import Service
from broker.model import limits
from broker.model.errors import StorageError
from broker.server.services import Part, Services


class Noted(Service):
    """Writes down what is done with it."""

    def __init__(self, name: str, done: list[str]) -> None:
        self.name = name
        self.done = done

    def start(self) -> None:
        self.done.append(f"start {self.name}")

    async def run(self) -> None:
        self.done.append(f"run {self.name}")
        try:
            await asyncio.Future()
        finally:
            self.done.append(f"end {self.name}")

    async def stop(self) -> None:
        self.done.append(f"stop {self.name}")


class Broken(Noted):
    """Fails where it is told to."""

    def __init__(self, name: str, done: list[str], *, fails_at: str) -> None:
        super().__init__(name, done)
        self.fails_at = fails_at

    def _fail(self, step: str) -> None:
        if step == self.fails_at:
            raise StorageError(f"{step} of {self.name} has failed")

    def start(self) -> None:
        super().start()
        self._fail("start")

    async def run(self) -> None:
        self._fail("run")
        await super().run()

    async def stop(self) -> None:
        await super().stop()
        self._fail("stop")


async def whole_life(services: Services) -> None:
    services.start()
    services.run(lambda: None)
    await asyncio.sleep(0)
    services.cancel()
    await services.stop()


def test_services_start_in_order_and_stop_in_reverse_after_all_have_ended() -> None:
    done: list[str] = []
    asyncio.run(whole_life(Services([Noted("a", done), Noted("b", done)])))

    assert done == [
        *("start a", "start b", "run a", "run b"),
        *("end a", "end b", "stop b", "stop a"),
    ]


def test_services_that_never_ran_are_stopped_too() -> None:
    done: list[str] = []

    async def scenario() -> None:
        services = Services([Noted("a", done), Noted("b", done)])
        services.start()
        await services.stop()

    asyncio.run(scenario())

    assert done == ["start a", "start b", "stop b", "stop a"]


def test_after_a_failed_start_nothing_is_started_or_stopped() -> None:
    done: list[str] = []
    broken = Broken("b", done, fails_at="start")
    services = Services([Noted("a", done), broken, Noted("c", done)])

    with pytest.raises(StorageError):
        asyncio.run(whole_life(services))

    assert done == ["start a", "start b"]


def test_background_work_that_fails_is_logged_with_its_name_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []
    services = Services([Noted("a", done), Broken("b", done, fails_at="run"), Noted("c", done)])

    asyncio.run(whole_life(services))

    assert done[-3:] == ["stop c", "stop b", "stop a"]
    assert "end c" in done
    [line] = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert line == "background work has failed: service=b follows=it is not restarted"


def test_background_work_that_is_essential_stops_the_process_when_it_fails() -> None:
    stopped: list[str] = []

    async def scenario() -> None:
        for each in (Noted("a", []), Broken("b", [], fails_at="run")):
            each.is_essential = True
            services = Services([each])
            services.start()
            services.run(partial(stopped.append, each.name))
            await asyncio.sleep(0)
            services.cancel()
            await services.stop()

    asyncio.run(scenario())

    assert stopped == ["b"]


def test_services_before_one_that_cannot_stop_are_not_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[str] = []
    services = Services([Noted("a", done), Broken("b", done, fails_at="stop"), Noted("c", done)])

    with pytest.raises(StorageError):
        asyncio.run(whole_life(services))

    assert [each for each in done if each.startswith("stop")] == ["stop c", "stop b"]
    assert "service has not stopped: service=b" in caplog.text


def test_a_stop_waits_a_limited_time_for_background_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STOP_SECONDS", 0.01)
    done: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.Future()
        except asyncio.CancelledError:
            await asyncio.Future()

    async def scenario() -> None:
        await whole_life(Services([Part("a", run=stubborn), Noted("b", done)]))

    asyncio.run(scenario())

    assert done[-1] == "stop b"


def test_a_part_stops_by_a_function_or_a_coroutine() -> None:
    done: list[str] = []

    async def stop_later() -> None:
        await asyncio.sleep(0)
        done.append("b")

    parts = [
        Part("a", start=lambda: done.append("start"), stop=lambda: done.append("a")),
        Part("b", stop=stop_later),
        Part("c"),
    ]
    asyncio.run(whole_life(Services(parts)))

    assert done == ["start", "b", "a"]

"""Executes the transactions that a state machine makes, several at a time."""

import asyncio
import logging

from broker.core.cluster.machine import Machine
from broker.core.cluster.writes import Write
from broker.core.scheduling.events import is_set_within
from broker.core.scheduling.steps import next_step
from broker.core.scheduling.tasks import Tasks
from broker.model.clock import Clock
from broker.model.errors import StorageError
from broker.storage.metadata import MetaStore

_log = logging.getLogger(__name__)


class Writing:
    """Executes the transactions of a state machine, several at a time."""

    def __init__(self, store: MetaStore, clock: Clock) -> None:
        """Start without any."""
        self._store = store
        self._clock = clock
        self._running = Tasks()
        self.something = asyncio.Event()  # has happened: there may be work

    async def work(self, machine: Machine) -> None:
        """Work until there is nothing to do now."""
        while machine.has_work:
            write = machine.work()
            if write is not None:
                self._running.begin(self._write(machine, write))
            await next_step()

    async def wait(self, due_ms: int | None) -> None:
        """Wait until something happens or until a time."""
        seconds = None if due_ms is None else (due_ms - self._clock.monotonic_ms()) / 1000
        await is_set_within(self.something, seconds)
        self.something.clear()

    async def stop(self) -> None:
        """Give up the transactions that are being executed; their outcome is not known."""
        await self._running.stop()

    async def _write(self, machine: Machine, write: Write) -> None:
        guards, operations = write.transaction
        try:
            revision = await self._store.transact(guards, operations)
        except StorageError as error:
            _log.warning(
                "metadata not written, decided again: keys=%d error=%s", len(operations), error
            )
            machine.unknown(write, self._clock.monotonic_ms())
        except Exception:  # noqa: BLE001 (whatever it is: the keys must not be in flight for ever)
            _log.exception("metadata not written, decided again: keys=%d", len(operations))
            machine.unknown(write, self._clock.monotonic_ms())
        else:
            if revision is None:
                machine.refused(write, self._clock.monotonic_ms())
            else:
                machine.applied(write, revision)
        self.something.set()

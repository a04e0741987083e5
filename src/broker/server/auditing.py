"""Writes the events of the audit into its files, and then into the topic `__audit`.

    queue ── take ──> thread: lines of the chain, file, fdatasync ──> written ──> topic

The file is the record: its chain goes on after a restart. The topic (audit_topic.py) has the same
lines, for those who read them from elsewhere.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from broker.core.remote_appends import RemoteAppends
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.tasks import Tasks
from broker.core.security.audit import Audit, Event, Kind
from broker.core.security.audit_chain import Head, head_after, line_of
from broker.core.security.audit_queue import AuditQueue, Noted
from broker.core.security.ocsf import Lifecycle, Producer, fields_of
from broker.core.service import Service
from broker.core.topics.topics import Topics
from broker.model import security_limits
from broker.model.clock import Clock
from broker.model.config import Config
from broker.model.errors import StorageError
from broker.model.secret_file import read_secret_file
from broker.server.audit_topic import AuditTopic
from broker.storage.files.audit_file import AuditFile
from broker.storage.log_dir import LogDir

_FILE = "audit.jsonl"
_log = logging.getLogger(__name__)


class Settings(NamedTuple):
    """How events are written."""

    events_max: int
    is_fail_closed: bool
    key: bytes  # of the chain; empty: hashes without a key


class Auditing(Service):
    """The thread and the background work that write events."""

    name = "audit"

    def __init__(
        self,
        file: AuditFile,
        settings: Settings,
        producer: Callable[[], Producer],
        clock: Clock,
        topic: AuditTopic | None,
    ) -> None:
        """Write nothing yet.

        Args:
            file: where events are written; `start` reads its end.
            settings: how.
            producer: returns who writes them.
            clock: the time of events.
            topic: where lines are written then; None: nowhere.
        """
        self._file = file
        self._key = settings.key
        self._make_producer = producer
        self._topic = topic
        self._queue = AuditQueue(
            settings.events_max, is_fail_closed=settings.is_fail_closed, wall_ms=clock.wall_ms
        )
        self._head = Head()
        self._thread = IoThread()
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()
        self._tasks = Tasks()  # a write is never left in between

    def put(self, event: Event) -> bool:
        """Take an event; return whether what it is about may go on."""
        self._changed.set()
        return self._queue.put(event)

    def start(self) -> None:
        """Open the file and go on with its chain; StorageError."""
        self._producer = self._make_producer()
        last = self._file.resume()
        if last is not None:
            try:
                self._head = head_after(last, self._key)
            except ValueError as error:
                raise StorageError(
                    f"the last line of the audit is no event ({error}): move its files away to"
                    " begin a new chain"
                ) from None
        self._queue.put_always(Lifecycle(is_start=True))
        self._changed.set()

    async def run(self) -> None:
        """Write events as they come."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while len(self._queue):
                if not await self._tasks.run_to_completion(self._write()):
                    await asyncio.sleep(security_limits.AUDIT_RETRY_MS / 1000)

    async def stop(self) -> None:
        """Write the events that are left, and that the broker has stopped."""
        self._queue.put_always(Lifecycle(is_start=False))
        while len(self._queue):
            if not await self._write():
                _log.error("events of the audit are lost: count=%d", len(self._queue))
                break
        self._thread.stop()

    async def _write(self) -> bool:
        """Write the oldest events into the file; return whether that has succeeded."""
        async with self._writing:
            taken = self._queue.take(security_limits.AUDIT_EVENTS_PER_WRITE)
            was_failing = self._queue.is_failing
            try:
                lines, head = await self._thread.run(lambda: self._append(taken))
            except StorageError as error:
                self._queue.not_written()
                if not was_failing:
                    _log.error("the audit cannot be written: error=%s", error)
                return False
            self._head = head
            self._queue.written()
            if was_failing:
                _log.info("the audit is written again: dropped=%d", self._queue.dropped)
            if self._topic is not None:
                self._topic.add(lines)
            return True

    def _append(self, events: Sequence[Noted]) -> tuple[list[bytes], Head]:
        """Write events, in the thread; return their lines, and the end of the chain."""
        head, lines = self._head, []
        for time_ms, event in events:
            fields = fields_of(event, self._producer, time_ms, head.sequence + 1)
            line, head = line_of(fields, head, self._key)
            lines.append(line)
        content = b"".join(line + b"\n" for line in lines)
        self._file.append(content, self._head.sequence + 1)
        return lines, head


def make_audit(
    config: Config,
    log_dir: LogDir,
    topics: Topics,
    clock: Clock,
    others: RemoteAppends | None,
) -> tuple[Audit, Sequence[Service]]:
    """Return what events are told to, and what writes them. Raises ConfigError."""
    kinds = [Kind(word) for word in config.words("polylog.audit.events")]
    topic = None
    if config.flag("polylog.audit.topic.enable"):
        topic = AuditTopic(topics, log_dir.node_id, clock, others)
    auditing = _auditing(config, log_dir, clock, topic)
    audit = Audit(kinds, config.words("polylog.audit.excluded.principals"), auditing.put)
    return audit, ((auditing,) if topic is None else (topic, auditing))


def path_of(config: Config, log_dir: LogDir) -> Path:
    """Return where events are written; workers, which share settings, have a file each."""
    named = config.text_or_none("polylog.audit.file")
    if named is None:
        return log_dir.own / _FILE
    path = Path(named).absolute()
    if log_dir.own == log_dir.path:
        return path
    return path.with_name(f"{path.stem}.{log_dir.node_id}{path.suffix}")


def _auditing(config: Config, log_dir: LogDir, clock: Clock, topic: AuditTopic | None) -> Auditing:
    key_file = config.text_or_none("polylog.audit.key.file")
    file = AuditFile(
        path_of(config, log_dir),
        config.integer("polylog.audit.file.max.bytes"),
        config.integer("polylog.audit.files.max"),
    )
    settings = Settings(
        config.integer("polylog.audit.queue.events"),
        config.flag("polylog.audit.fail.closed"),
        b"" if key_file is None else read_secret_file(Path(key_file), "polylog.audit.key.file"),
    )

    def producer() -> Producer:
        return Producer(log_dir.node_id, log_dir.cluster_id, version("polylog-broker"))

    return Auditing(file, settings, producer, clock, topic)

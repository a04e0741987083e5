"""Two brokers of one topic in this process, one native, one in Python, which must agree.

In the fast one the native paths serve what they can and Python the rest, as in production; in the
slow one, whose native topic table is empty, Python serves everything.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from broker._native.log.commit import CommitThread
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.model.topic_config import TopicConfig
from broker.server.requests import Requests
from broker.storage.recovery.log_settings import log_settings
from tests.support.native_log import TOPIC_ID, Logs
from tests.support.native_wire import Client, Wire
from tests.support.one_topic import broker_of

COMMIT = CommitThread(1)  # for logs that never sync


class ServedTopic:
    """The broker, whose loop and turns the test plays; subclasses add a protocol and a client.

    Attributes:
        handed_over: the number of requests left to Python.
    """

    partition_count: ClassVar[int]

    def __init__(
        self, path: Path, config: TopicConfig, *, is_fast: bool, is_loading: bool = False
    ) -> None:
        """Create the logs; the native paths know only those of the fast one."""
        path.mkdir()
        self.config = config
        self.logs = Logs(path, COMMIT)
        make = self.logs.unopened if is_loading else self.logs.create
        self.partitions = [
            make(number, **log_settings("topic", config)) for number in range(self.partition_count)
        ]
        for log in self.partitions if is_loading else ():
            log.begin_loading()
        self.wire = Wire(self.logs)
        if is_fast:
            self.wire.serve(*self.partitions)
        self.loop = asyncio.new_event_loop()
        self.requests = Requests(self.loop)
        self.handed_over = 0

    def dispatch(self, pending: list[Any]) -> None:
        """Let Python serve requests, in the loop as the poller does, and count them."""
        self.handed_over += len(pending)
        self.loop.call_soon(self.requests.dispatch, pending)

    def connect(self, transactions: Any = None) -> Client:
        """Return a client of a broker that has these logs, and maybe a transaction coordinator."""
        topic = Topic("topic", TOPIC_ID, self.config, list(self.partitions))
        broker = broker_of(topic, transactions)
        return self.wire.connect(Session(broker, "here", "there", 9092))

    def run(self) -> None:
        """Let Python serve what it can serve at once, and end a turn."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        self.wire.run()

    def close(self) -> None:
        """Close everything."""
        self.wire.close()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


Served = TypeVar("Served", bound=ServedTopic)


@contextmanager
def fast_and_slow(
    kind: type[Served], path: Path, config: TopicConfig
) -> Iterator[tuple[Served, Served]]:
    """Lend the native and the Python broker."""
    with (
        closing(kind(path / "fast", config, is_fast=True)) as fast,
        closing(kind(path / "slow", config, is_fast=False)) as slow,
    ):
        yield fast, slow

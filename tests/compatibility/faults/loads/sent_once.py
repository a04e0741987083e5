"""Load of clients without idempotence: nothing is sent twice.

So each record is stored at most once, and at its returned offset if it was acknowledged.
"""

from collections.abc import Callable
from typing import ClassVar

from tests.compatibility.faults.loads.load import ConnectedWorker, Exceptions, value_of
from tests.compatibility.protocol_clients import (
    V1,
    Cursus,
    MessageSets,
    NotReadyError,
    RustLog,
    RustLogJson,
    Writer,
)
from tests.histories.facts import Place
from tests.histories.history import Recorder
from tests.support.line_client import LineClient
from tests.support.rustlog_client import ConnectionEndedError
from tests.support.wire_client import ConnectionClosedError

PIPELINED = 8  # requests in flight
# Who writes, and how many records at most in one request.
WRITERS: dict[str, tuple[Callable[[str], Writer], int]] = {
    "old": (MessageSets, 8),
    "v1": (V1, 1),
    "rustlog": (RustLog, 8),
    "json": (RustLogJson, 8),
    "cursus": (Cursus, 8),
}


class OnceWorker(ConnectedWorker[Writer]):
    """Writes to partition 0, one request after another, by one of the WRITERS."""

    BROKEN: ClassVar[Exceptions] = (ConnectionClosedError, ConnectionEndedError, OSError)

    def __init__(self, name: str, address: str, history: Recorder, topic: str) -> None:
        super().__init__(name, address, history)
        self._connect, self._records_max = WRITERS[name]
        self._topic = topic

    def connect(self) -> Writer:
        return self._connect(self.address)

    def close(self, client: Writer) -> None:
        client.close()

    def work(self, client: Writer) -> None:
        names = self.names((self._topic, 0), self.random.randint(1, self._records_max))
        what = {"topic": self._topic, "partition": 0, "values": names, "delivery": "once"}
        self.record("send", "invoke", **what)
        try:
            offsets = client.write(self._topic, [value_of(each) for each in names])
        except NotReadyError:
            self.record("send", "fail", **what)
            return
        assert offsets == list(range(offsets[0], offsets[0] + len(names)))
        self.record("send", "ok", **what, offset=offsets[0])


class LineProducer(ConnectedWorker[LineClient]):
    """Sends V1's lines, several at once; its name is the key, which determines the partition."""

    def __init__(
        self, name: str, address: str, history: Recorder, topic: str, *, in_flight: int, acks: str
    ) -> None:
        super().__init__(name, address, history)
        self._topic = topic
        self._in_flight = in_flight
        self._acks = acks

    def connect(self) -> LineClient:
        return LineClient(self.address)

    def work(self, client: LineClient) -> None:
        first = self.numbers
        names = self.names((self._topic, -1), self._in_flight)
        lines = []
        for number, name in enumerate(names, first):
            self._say("invoke", name)
            lines.append(
                f"V1|{number}|PRODUCE|{self._topic} {self.name}:{value_of(name).decode()}"
                f" acks={self._acks}\n"
            )
        client.send("".join(lines).encode())
        for number, name in enumerate(names, first):
            line = client.line().decode()
            if not line.endswith("\n"):
                raise ConnectionResetError
            _, correlation_id, status, payload = line.split("|", 3)
            assert correlation_id == str(number)
            if status == "OK":
                partition, offset, _ = (int(word.partition("=")[2]) for word in payload.split())
                self._say("ok", name, (self._topic, partition), offset=offset)
            elif payload.startswith("REPLICATION_TIMEOUT|"):
                self._say("info", name)  # The disk was slow: the record may or may not be stored.
            else:
                assert payload.startswith("NOT_LEADER|"), payload  # The partition is still loading.
                self._say("fail", name)

    def _say(self, type_: str, name: str, place: Place | None = None, **more: int) -> None:
        topic, partition = place or (self._topic, -1)
        self.record(
            "send",
            type_,
            topic=topic,
            partition=partition,
            values=[name],
            delivery="once",
            **more,
        )

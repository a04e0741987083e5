"""Clients of every protocol for partition 0 of a topic, all with the same interface."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.compatibility.clients import confluent_client
from tests.compatibility.clients.client import EARLIEST, Record
from tests.compatibility.v1.sdks import PythonSdk, SdkError, restored
from tests.oracles import message_set_oracle as message_set
from tests.support import cursus_client, wire_requests
from tests.support.broker_process import wait_until
from tests.support.cursus_client import CursusClient
from tests.support.rustlog_client import RefusedError, RustLogClient
from tests.support.wire_client import WireClient

WAIT_S = 20.0
FETCH_BYTES = 64 << 10
OLD_PRODUCE_VERSION = 1  # message sets of magic 0, as in 0.8
RETRIABLE = {5, 6, 7, 16}  # what a broker that has just started may answer


class NotReadyError(Exception):
    """The broker answered with the protocol's own `try again`; nothing was done."""


class CursusError(Exception):
    """The text of a Cursus error."""


class Writer(ABC):
    """A client that writes."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    def write(self, topic: str, values: list[bytes]) -> list[int]:
        """Write each value as a record, and return the acknowledged offsets.

        Raises:
            NotReadyError: the partition is still loading.
        """


class ProtocolClient(Writer):
    """A client that writes, reads, and at least commits and fetches group offsets.

    An unexpected response fails the test.
    """

    @abstractmethod
    def batch(self, topic: str, offset: int) -> tuple[dict[int, bytes | None], int]:
        """Return the records of the next request by offset, and the offset to continue at."""

    @abstractmethod
    def commit(self, group: str, topic: str, offset: int) -> None:
        """Commit the next offset to read, for a group that has no members now."""

    @abstractmethod
    def committed(self, group: str, topic: str) -> int:
        """Return the committed offset."""

    def read(self, topic: str, last: int) -> dict[int, bytes | None]:
        """Read from the beginning until the record at that offset has arrived."""
        found: dict[int, bytes | None] = {}
        offset = 0

        def has_more() -> bool:
            nonlocal offset
            records, offset = self.batch(topic, offset)
            found.update(records)
            return bool(records)

        while last not in found:
            wait_until(has_more, f"records behind {offset}, up to {last}", WAIT_S)
        return found


class Librdkafka(ProtocolClient):
    """confluent-kafka; given a release, it sends no ApiVersions and uses that release's."""

    def __init__(self, address: str, release: str | None = None) -> None:
        settings = {"api_version_request": False, "broker_version_fallback": release}
        self._client = confluent_client.connect(address, **(settings if release else {}))
        self._config: dict[str, Any] = {"bootstrap.servers": address, "enable.auto.commit": False}
        if release:
            self._config |= {"api.version.request": False, "broker.version.fallback": release}
        self._reader: Any = None

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._client.close()

    def write(self, topic: str, values: list[bytes]) -> list[int]:
        return self._client.produce(topic, [Record(each) for each in values])

    def batch(self, topic: str, offset: int) -> tuple[dict[int, bytes | None], int]:
        if self._reader is None:
            self._reader = self._client.reader(topic, range(1), EARLIEST)
        records = {each.offset: each.value for each in self._reader.poll()}
        return records, max(records, default=offset - 1) + 1

    def commit(self, group: str, topic: str, offset: int) -> None:
        with closing(Consumer(self._config | {"group.id": group})) as consumer:
            place = TopicPartition(topic, 0, offset)
            [done] = consumer.commit(offsets=[place], asynchronous=False) or []
            assert done.error is None, done.error

    def committed(self, group: str, topic: str) -> int:
        with closing(Consumer(self._config | {"group.id": group})) as consumer:
            [found] = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
            assert found.error is None, found.error
            return int(found.offset)


class MessageSets(Writer):
    """The bytes of Kafka 0.8: a request is sent once, whatever its outcome."""

    def __init__(self, address: str) -> None:
        self._client = WireClient(address)

    def close(self) -> None:
        self._client.close()

    def write(self, topic: str, values: list[bytes]) -> list[int]:
        messages = [
            message_set.Message(offset, None, value, magic=0) for offset, value in enumerate(values)
        ]
        body = wire_requests.produce_body(topic, [(0, message_set.encode(messages))])
        code, first = wire_requests.produced(
            self._client.request("Produce", OLD_PRODUCE_VERSION, body)
        )
        if code in RETRIABLE:
            raise NotReadyError
        assert code == 0, code
        return list(range(first, first + len(values)))


class V1(ProtocolClient):
    """V1's lines, as its Python library sends them; a reader that understands `escaped`."""

    def __init__(self, address: str) -> None:
        self._sdk = PythonSdk(address)

    def close(self) -> None:
        self._sdk.close()

    def write(self, topic: str, values: list[bytes]) -> list[int]:
        try:
            return [self._sdk.produce(topic, "key", each.decode()).offset for each in values]
        except SdkError as error:
            if error.code != "NOT_LEADER":
                raise
            raise NotReadyError from error

    def batch(self, topic: str, offset: int) -> tuple[dict[int, bytes | None], int]:
        records = restored(self._sdk.send("CONSUME", f"{topic} 0 {offset}"))
        return {**records}, max(records, default=offset - 1) + 1

    def commit(self, group: str, topic: str, offset: int) -> None:
        member = self._sdk.join(group, topic, "committer")
        self._sdk.commit(group, topic, "committer", member.generation, 0, offset)
        self._sdk.leave(group, topic, "committer", member.generation)

    def committed(self, group: str, topic: str) -> int:
        return self._sdk.offset(group, topic, 0)


class RustLog(ProtocolClient):
    """RustLog's binary form; record i of a response is at the requested offset + i."""

    def __init__(self, address: str) -> None:
        self._client = RustLogClient(address)

    def close(self) -> None:
        self._client.socket.close()

    def write(self, topic: str, values: list[bytes]) -> list[int]:
        try:
            first = self._client.produce(topic, values)
        except RefusedError as error:
            if "try again" not in error.text:
                raise
            raise NotReadyError from error
        return list(range(first, first + len(values)))

    def batch(self, topic: str, offset: int) -> tuple[dict[int, bytes | None], int]:
        records, next_offset = self._client.fetch(topic, offset, FETCH_BYTES)
        return dict(enumerate(records, offset)), next_offset

    def commit(self, group: str, topic: str, offset: int) -> None:
        self._client.commit(group, topic, offset)

    def committed(self, group: str, topic: str) -> int:
        found = self._client.committed(group, topic)
        assert found is not None
        return found


class RustLogJson(RustLog):
    """RustLog's JSON form."""

    def write(self, topic: str, values: list[bytes]) -> list[int]:
        answer = self._ask("Produce", topic, records=[list(each) for each in values])
        offsets: list[int] = answer["offsets"]
        assert len(offsets) == len(values)
        return offsets

    def batch(self, topic: str, offset: int) -> tuple[dict[int, bytes | None], int]:
        answer = self._ask("Fetch", topic, offset=offset, max_bytes=FETCH_BYTES)
        records = {each["offset"]: bytes(each["payload"]) for each in answer["records"]}
        return {**records}, answer["next_offset"]

    def commit(self, group: str, topic: str, offset: int) -> None:
        answer = self._ask("OffsetCommit", topic, group_id=group, offset=offset)
        if not answer["success"]:
            raise RefusedError(5, "success: false")

    def committed(self, group: str, topic: str) -> int:
        return int(self._ask("OffsetFetch", topic, group_id=group)["offset"])

    def _ask(self, request: str, topic: str, **fields: Any) -> dict[str, Any]:
        fields = {"topic": topic, "partition": 0, **fields}
        answer: dict[str, Any] = self._client.ask_json({request: fields})
        if "Error" in answer:
            text = answer["Error"]["message"]
            raise NotReadyError(text) if "try again" in text else RefusedError(0, text)
        value: dict[str, Any] = answer[request]
        return value


class Cursus(ProtocolClient):
    """Cursus's batches in the current layout, and its commands."""

    def __init__(self, address: str) -> None:
        self._client = CursusClient(address)

    def close(self) -> None:
        self._client.close()

    def write(self, topic: str, values: list[bytes]) -> list[int]:
        messages = [cursus_client.Message(each) for each in values]
        answer = self._answer(cursus_client.batch(topic, 0, messages))
        response = json.loads(answer)
        assert response["status"] == "OK", response
        last: int = response["last_offset"]
        return list(range(last - len(values) + 1, last + 1))

    def batch(self, topic: str, offset: int) -> tuple[dict[int, bytes | None], int]:
        answer = self._answer(f"CONSUME topic={topic} partition=0 offset={offset}")
        messages = cursus_client.read_batch(answer).messages
        records = {each.offset: each.payload for each in messages}
        return {**records}, max(records, default=offset - 1) + 1

    def commit(self, group: str, topic: str, offset: int) -> None:
        answer = self._answer(f"COMMIT {topic} {group} 0 {offset}")
        if answer != b"OK":
            raise CursusError(answer.decode())

    def committed(self, group: str, topic: str) -> int:
        answer = self._answer(f"FETCH_OFFSET topic={topic} partition=0 group={group}")
        return int(answer.removeprefix(b"OK offset="))

    def _answer(self, body: str | bytes) -> bytes:
        answer = self._client.answer(body)
        if answer.startswith((b"ERROR: NOT_LEADER ", b"ERROR: coordinator_not_available")):
            raise NotReadyError(answer)
        return answer


PROTOCOL_CLIENTS: dict[str, Callable[[str], ProtocolClient]] = {  # by address
    "Kafka": Librdkafka,
    "Kafka 0.8": partial(Librdkafka, release="0.8.2.2"),
    "V1": V1,
    "RustLog": RustLog,
    "RustLog JSON": RustLogJson,
    "Cursus": Cursus,
}

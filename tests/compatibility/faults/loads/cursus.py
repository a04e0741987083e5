"""Cursus's load: batches and PUBLISH, sent once or again, and a group that reads them.

In a topic that is not idempotent each record is sent once. In an idempotent one it is sent again
until it is acknowledged, batches out of their order too. Members of a group read the plain topic;
they commit, leave and join again.
"""

import json
from typing import ClassVar

from tests.compatibility.cursus.members import JavaMember
from tests.compatibility.faults.loads.load import ConnectedWorker, Exceptions, name_of, value_of
from tests.compatibility.protocol_clients import NotReadyError
from tests.histories.history import Recorder
from tests.support.cursus_client import CursusClient, Message, batch, read_batch

BATCHES, TEXTS = 0, 1  # partitions: one for batches, one for PUBLISH
GROUP = "cursus-readers"
EPOCH = 7
IN_FLIGHT = 5
RECORDS_MAX = 9
LEAVES_ONE_IN = 20
NOT_READY = (b"ERROR: NOT_LEADER ", b"ERROR: coordinator_not_available")


class CursusWorker(ConnectedWorker[CursusClient]):
    """Works on its own connection."""

    BROKEN: ClassVar[Exceptions] = (OSError, NotReadyError)
    DELIVERY = "once"

    def __init__(self, name: str, address: str, history: Recorder, topic: str) -> None:
        super().__init__(name, address, history)
        self.topic = topic
        self.numbers = 1  # sequence numbers begin at 1

    def connect(self) -> CursusClient:
        return CursusClient(self.address)

    def say(self, type_: str, partition: int, names: list[str], **more: int) -> None:
        """Record a send."""
        self.record(
            "send",
            type_,
            topic=self.topic,
            partition=partition,
            values=names,
            delivery=self.DELIVERY,
            **more,
        )

    def send_batch(self, client: CursusClient, names: list[str]) -> None:
        """Send a batch."""
        messages = [
            Message(value_of(each), number_of(each), self.name.encode(), epoch=EPOCH, key=b"k")
            for each in names
        ]
        self.say("invoke", BATCHES, names)
        client.send(batch(self.topic, BATCHES, messages))

    def publish(self, client: CursusClient, name: str) -> None:
        """Send a PUBLISH."""
        self.say("invoke", TEXTS, [name])
        client.send(
            b"PUBLISH topic=%s partition=%d producerId=%s seqNum=%d epoch=%d message=%s"
            % (
                self.topic.encode(),
                TEXTS,
                self.name.encode(),
                number_of(name),
                EPOCH,
                value_of(name),
            )
        )

    def answered(self, partition: int, names: list[str], answer: bytes | None) -> None:
        """Record the offsets of records."""
        if answer is None:
            raise ConnectionError("the broker is gone")
        if answer.startswith(NOT_READY):
            self.say("fail", partition, names)
            raise NotReadyError(answer)
        response = json.loads(answer)
        assert response["status"] == "OK", response
        if self.DELIVERY == "once":
            self.say("ok", partition, names, offset=response["last_offset"] - len(names) + 1)
        else:  # A repeat is acknowledged with the end of the log.
            self.say("ok", partition, names)


def number_of(name: str) -> int:
    """Return a record's sequence number."""
    return int(name.rpartition(",")[2])


class OnceBatches(CursusWorker):
    """Send several batches at once, each only once."""

    def work(self, client: CursusClient) -> None:
        place = (self.topic, BATCHES)
        sent = [self.names(place, self.random.randint(1, RECORDS_MAX)) for _ in range(IN_FLIGHT)]
        for names in sent:
            self.send_batch(client, names)
        # All are acknowledged before the connection may change, or batches of the new one could
        # overtake them.
        answers = [client.frame() for _ in sent]
        refusals = []
        for names, answer in zip(sent, answers, strict=True):
            try:
                self.answered(BATCHES, names, answer)
            except NotReadyError as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]


class OnceTexts(CursusWorker):
    """Send one PUBLISH after another, each only once."""

    def work(self, client: CursusClient) -> None:
        [name] = names = self.names((self.topic, TEXTS), 1)
        self.publish(client, name)
        self.answered(TEXTS, names, client.frame())


class AgainBatches(CursusWorker):
    """Send several batches at once, out of order, again until all are acknowledged."""

    DELIVERY = "unordered"
    unacknowledged: tuple[list[str], ...] = ()

    def work(self, client: CursusClient) -> None:
        if not self.unacknowledged:
            place = (self.topic, BATCHES)
            self.unacknowledged = tuple(
                self.names(place, self.random.randint(1, RECORDS_MAX)) for _ in range(IN_FLIGHT)
            )
        sent = self.random.sample(self.unacknowledged, len(self.unacknowledged))
        for names in sent:
            self.send_batch(client, names)
        for names in sent:
            self.answered(BATCHES, names, client.frame())
            self.unacknowledged = tuple(each for each in self.unacknowledged if each != names)


class AgainTexts(CursusWorker):
    """Send one PUBLISH after another, each again until it is acknowledged."""

    DELIVERY = "idempotent"
    unacknowledged: list[str] | None = None

    def work(self, client: CursusClient) -> None:
        names = self.unacknowledged = self.unacknowledged or self.names((self.topic, TEXTS), 1)
        self.publish(client, names[0])
        self.answered(TEXTS, names, client.frame())
        self.unacknowledged = None


# ---- the group -----------------------------------------------------------------------------------


class ReadingMember(JavaMember):
    """A member that raises when the broker is not ready."""

    def _ask(self, command: str) -> str:
        answer = super()._ask(command)
        if answer.encode().startswith(NOT_READY):
            raise NotReadyError(answer)
        return answer

    def leave(self) -> None:
        """Leave; an expired member has left already."""
        answer = self._ask(f"LEAVE_GROUP {self._place} member={self.member_id}")
        assert answer.startswith("OK ") or self.must_rejoin(answer), answer

    def fetched(self, topic: str, partition: int) -> int:
        """Return how far the group has read."""
        answer = self._ask(f"FETCH_OFFSET topic={topic} partition={partition} group={GROUP}")
        return int(answer.removeprefix("OK offset="))

    def commit_at(self, partition: int, offset: int) -> str:
        """Commit the next offset; return the answer."""
        return self._ask(f"BATCH_COMMIT {self._here} P{partition}:{offset}")


class Reader(CursusWorker):
    """Reads its assigned partitions, commits, and now and then leaves and joins again."""

    def __init__(self, name: str, address: str, history: Recorder, topic: str) -> None:
        super().__init__(name, address, history, topic)
        self._member = ReadingMember(address, topic, GROUP, name)
        self._positions: dict[int, int] = {}
        self._must_begin = False

    def connect(self) -> CursusClient:
        self._must_begin = True  # Only the group's offsets tell where to continue.
        return super().connect()

    def _say_group(self, f: str, type_: str, partition: int, **more: int) -> None:
        self.record(f, type_, group=GROUP, topic=self.topic, partition=partition, **more)

    def _join(self) -> None:
        self._give_back()
        self._member.join()
        self._begin()

    def _give_back(self) -> None:
        for partition in self._positions:
            self._say_group("revoke", "ok", partition)
        self._positions = {}

    def _begin(self) -> None:
        """Continue at the group's offset."""
        self._give_back()
        self._must_begin = False
        for partition in self._member.partitions:
            self._say_group("fetch_committed", "invoke", partition)
            position = self._member.fetched(self.topic, partition)
            self._say_group("fetch_committed", "ok", partition, offset=position or -1)
            generation = self._member.generation
            self._say_group("assign", "ok", partition, generation=generation, position=position)
            self._positions[partition] = position

    def work(self, client: CursusClient) -> None:
        if not self._member.member_id:
            self._join()
        elif self.random.randrange(LEAVES_ONE_IN) == 0:
            self._give_back()
            self._member.leave()
            self._join()
        elif not self._member.beat() or self._must_begin:
            self._begin()
        for partition, position in list(self._positions.items()):
            client.send(f"CONSUME topic={self.topic} partition={partition} offset={position}")
            answer = client.frame()
            if answer is None or answer.startswith(NOT_READY):
                raise ConnectionError("the broker is gone, or not ready")
            messages = read_batch(answer).messages
            if messages:
                records = [[each.offset, name_of(each.payload)] for each in messages]
                self.record("poll", "ok", topic=self.topic, partition=partition, records=records)
                self._commit(partition, messages[-1].offset + 1)

    def _commit(self, partition: int, offset: int) -> None:
        more = {"generation": self._member.generation, "offset": offset}
        self._say_group("commit", "invoke", partition, **more)
        answer = self._member.commit_at(partition, offset)
        if answer.startswith("OK"):
            self._say_group("commit", "ok", partition, **more)
            self._positions[partition] = offset
            return
        self._say_group("commit", "fail", partition, **more)
        if "offset_regression" not in answer:
            assert self._member.must_rejoin(answer), answer
            self._member.join()
        self._begin()

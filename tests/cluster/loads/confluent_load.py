"""librdkafka through its Python binding: the load of `client_load`."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.cluster.loads.client_load import COPIED, PARTITIONS, READERS, SENT, Load
from tests.compatibility.faults.loads import transactions
from tests.compatibility.faults.loads.load import Worker, value_of
from tests.compatibility.faults.loads.transactions import CLIENT
from tests.histories.history import Recorder

IN_FLIGHT_MAX = 300
FLUSH_TIMEOUT_S = 60


class Sender(Worker):
    """An idempotent producer with a client of its own for as long as it lives."""

    def live(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "linger.ms": 2,
                **CLIENT,
            }
        )
        while not self.is_stopping:
            place = (SENT, self.random.randrange(PARTITIONS))
            for name in self.names(place, self.random.randint(1, 5)):
                self._send(producer, place, name)
            producer.poll(0)
            while len(producer) > IN_FLIGHT_MAX and not self.is_stopping:
                producer.poll(0.1)
            self.pause()
        assert producer.flush(FLUSH_TIMEOUT_S) == 0, "records are not acknowledged"

    def _send(self, producer: Producer, place: tuple[str, int], name: str) -> None:
        what: dict[str, Any] = {
            "topic": place[0],
            "partition": place[1],
            "values": [name],
            "delivery": "idempotent",
        }

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            self.record("send", "ok", **what, offset=message.offset())

        self.record("send", "invoke", **what)
        producer.produce(place[0], value_of(name), partition=place[1], on_delivery=delivered)


def load(address: str, history: Recorder, *, protocol: str) -> Load:
    """Return the workers; `protocol` is that of the groups, classic or consumer.

    Transactions have no offsets of a group: librdkafka 2.16 waits for ever to send them when the
    group's coordinator has been absent from Metadata for a moment (librdkafka issue 5511).
    """
    at = (address, history)
    senders: list[Worker] = [
        Sender("confluent-sender", *at),
        transactions.Writer("confluent-writer", *at, COPIED),
    ]
    others: list[Worker] = [
        transactions.Reader(f"confluent-reader-{n}", *at, protocol, (READERS, SENT)) for n in (1, 2)
    ]
    return Load(senders, others, [each.name for each in (*senders, *others)], copies=False)

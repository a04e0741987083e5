"""What Cursus's transactional clients send and how they read answers.

Written from a description of the Java, Python and Go clients: each command is sent on its own
connection, in an envelope without a topic; the clients differ in what they count, which parts of a
response they read, and which errors they take for being fenced.
"""

from collections.abc import Mapping

from tests.compatibility.cursus.sdks import go_ok
from tests.support.cursus_client import CursusClient, envelope


class RefusedError(Exception):
    """The broker refused."""


class FencedError(RefusedError):
    """Another instance holds the transactional id."""


class TransactionalProducer:
    """A producer object; what the clients have in common."""

    def __init__(self, address: str, name: str, credentials: str = "") -> None:
        """Store the address; nothing is sent yet."""
        self._address, self.name, self._credentials = address, name, credentials
        self.producer_id, self.epoch = "", 0
        with CursusClient(address) as client:
            answer = client.ask(envelope(f"FIND_COORDINATOR transactional_id={name}"))
        fields = go_ok(answer, "host", "port", "coordinator_id")
        assert fields["coordinator_type"] == "transaction"
        self._coordinator = f"{fields['host']}:{fields['port']}"

    def command(self, text: str) -> dict[str, str]:
        """Send a command and return the fields of the response."""
        with CursusClient(self._coordinator) as client:
            return self.read(client.ask(envelope(text)))

    def read(self, answer: str) -> dict[str, str]:
        """Return the fields of a response, or raise the exception that it stands for."""
        if answer.startswith("ERROR:"):
            is_fenced = "producer_fenced" in answer or "stale_producer_epoch" in answer
            raise (FencedError if is_fenced else RefusedError)(answer)
        assert answer == "OK" or answer.startswith("OK ")
        pairs = [token.partition("=") for token in answer.split()[1:]]
        return {name: value for name, _, value in pairs}

    def initialise(self) -> None:
        """Initialise the transactional id."""
        fields = self.command(f"INIT_PRODUCER_ID transactional_id={self.name}")
        assert fields["transactional_id"] == self.name
        self.producer_id, self.epoch = fields["producerId"], int(fields["epoch"])
        self.forget_sequences()

    def forget_sequences(self) -> None:
        """Reset the sequence numbers."""

    def next_sequence(self, topic: str) -> int:
        """Return the sequence number of the next message."""
        raise NotImplementedError

    @property
    def who(self) -> str:
        """Return the arguments that every command but the first begins with."""
        return f"transactional_id={self.name} producerId={self.producer_id} epoch={self.epoch}"

    def begin(self) -> None:
        """Begin a transaction; the first one initialises the id."""
        if not self.producer_id:
            self.initialise()
        fields = self.command(f"BEGIN_TXN {self.who}")
        assert fields["state"] == "open"

    def publish(self, topic: str, message: str, partition: int = -1, key: str = "") -> str:
        """Publish a message; return the command that was sent."""
        named_key = f" key={key}" if key else ""
        text = (
            f"TXN_PUBLISH transactional_id={self.name} topic={topic} partition={partition}"
            f" producerId={self.producer_id} seqNum={self.next_sequence(topic)}"
            f" epoch={self.epoch}{named_key} message={message}{self._credentials}"
        )
        self.command(text)
        return text

    def send_offsets(
        self, topic: str, group: str, member: str, generation: int, offsets: Mapping[int, int]
    ) -> None:
        """Commit offsets with the transaction."""
        payload = ",".join(f"P{partition}:{offsets[partition]}" for partition in sorted(offsets))
        self.command(
            f"SEND_OFFSETS_TO_TXN {self.who} topic={topic} group={group} member={member}"
            f" generation={generation} {payload}"
        )

    def commit(self) -> None:
        """Commit; may be called again."""
        self.command(f"END_TXN {self.who} result=commit")

    def abort(self) -> None:
        """Abort; may be called again."""
        self.command(f"END_TXN {self.who} result=abort")

    def status(self) -> tuple[str, int, int]:
        """State, messages, offsets."""
        fields = self.command(f"TXN_STATUS transactional_id={self.name}")
        assert fields["transactional_id"] == self.name
        return fields["state"], int(fields["messages"]), int(fields["offsets"])


class JavaTransactions(TransactionalProducer):
    """Counts by topic and initialises its id only once."""

    def forget_sequences(self) -> None:
        """Reset the sequence numbers."""
        self._sequences: dict[str, int] = {}

    def next_sequence(self, topic: str) -> int:
        """Return the sequence number of the next message."""
        self._sequences[topic] = self._sequences.get(topic, 0) + 1
        return self._sequences[topic]


class PythonTransactions(TransactionalProducer):
    """Counts over all topics and initialises its id only once."""

    def forget_sequences(self) -> None:
        """Reset the sequence numbers."""
        self._sequence = 0

    def next_sequence(self, topic: str) -> int:  # noqa: ARG002 (it does not matter here)
        """Return the sequence number of the next message."""
        self._sequence += 1
        return self._sequence


class GoTransactions(PythonTransactions):
    """Initialises its id for each transaction and parses responses strictly."""

    _has_ended = False

    def read(self, answer: str) -> dict[str, str]:
        """Require that every token is a field and none occurs twice."""
        super().read(answer)
        return go_ok(answer)

    def begin(self) -> None:
        """Begin a transaction."""
        if self._has_ended:
            self.initialise()
        self._has_ended = False
        super().begin()

    def commit(self) -> None:
        """Commit."""
        super().commit()
        self._has_ended = True

    def abort(self) -> None:
        """Abort."""
        super().abort()
        self._has_ended = True

"""What the clients of a broker know at a moment, and so what the next start has to recover.

Events of a run are calls of these methods, in order; a crash at a moment is judged by those before
it. A killed process may lose only what was not acknowledged; a power cut, under `os`, also what
came after the last sync.
"""

from copy import copy
from typing import NamedTuple, TypeAlias

Place: TypeAlias = tuple[bytes, int]  # a topic's id, a partition
PLAIN, TRANSACTIONAL, COMMIT, ABORT = "plain", "transactional", "commit", "abort"


def body_of(batch: bytes) -> bytes:
    """A stored batch without the fields that its position in the log determines."""
    return batch[8:12] + batch[16:]


class Sent(NamedTuple):
    """A batch that was passed to a log."""

    base: int
    end: int
    batch: bytes
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    kind: str = PLAIN


class ExpectedLog:
    """A partition, as its clients know it."""

    def __init__(self, name: str, word: str, *, is_compacted: bool) -> None:
        self.name = name
        self.is_group_commit = word == "group-commit"
        self.is_compacted = is_compacted
        self.sent: list[Sent] = []
        self.kept_in_kill = 0  # log end that the page cache has
        self.kept_always = 0  # log end that the disk has
        self.acked = 0  # end of the acknowledged batches
        self.read = 0  # end of the batches that a consumer has read
        self.start = 0  # acknowledged log start
        self.start_planned = 0
        self.epoch = -1  # of the last run that appended something

    def copy(self) -> "ExpectedLog":
        other = copy(self)
        other.sent = list(self.sent)
        return other


class Transaction:
    """A transaction through the coordinator, as its producer knows it."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.sent: list[tuple[Place, int, int]] = []  # base and end offsets
        self.offset: int | None = None  # whose offset its group commits
        self.asked: bool | None = None  # whether to commit it
        self.is_told = False  # acknowledged to have ended so
        self.is_over = False  # acknowledged, or another one of its id may begin

    def copy(self) -> "Transaction":
        other = copy(self)
        other.sent = list(self.sent)
        return other


class ExpectedState:
    """Everything that any client knows."""

    def __init__(self) -> None:
        self.logs: dict[Place, ExpectedLog] = {}  # of all topics ever acknowledged
        self.created: dict[str, tuple[bytes, int]] = {}  # topics that must exist: id, partitions
        self.gone: set[bytes] = set()  # ids of those that must not exist
        self.ids: set[int] = set()
        self.committed: dict[str, int] = {}  # by group
        self.commits_asked: dict[str, list[int]] = {}
        self.transactions: dict[str, list[Transaction]] = {}  # by transactional id
        self.transactors: set[int] = set()  # their producer ids

    def copy(self) -> "ExpectedState":
        other = copy(self)
        other.logs = {key: log.copy() for key, log in self.logs.items()}
        other.created = dict(self.created)
        other.gone = set(self.gone)
        other.ids = set(self.ids)
        other.committed = dict(self.committed)
        other.commits_asked = {key: list(each) for key, each in self.commits_asked.items()}
        other.transactions = {
            key: [each.copy() for each in found] for key, found in self.transactions.items()
        }
        other.transactors = set(self.transactors)
        return other

    # ---- events ----------------------------------------------------------------------------------

    def topic_made(
        self, topic_id: bytes, name: str, partitions: int, word: str, *, is_compacted: bool = False
    ) -> None:
        """The creation of a topic, or of more partitions, was acknowledged."""
        for partition in range(partitions):
            self.logs.setdefault(
                (topic_id, partition),
                ExpectedLog(f"{name}-{partition}", word, is_compacted=is_compacted),
            )
        self.created[name] = topic_id, partitions

    def topic_doomed(self, name: str) -> None:
        """Its deletion was requested: it may or may not exist."""
        del self.created[name]

    def topic_gone(self, topic_id: bytes) -> None:
        """Its deletion was acknowledged."""
        self.gone.add(topic_id)

    def sending(self, place: Place, sent: Sent, epoch: int) -> None:
        """A batch is about to be appended."""
        self.logs[place].sent.append(sent)
        self.logs[place].epoch = epoch

    def written(self, place: Place, end: int, durable_end: int) -> None:
        """A turn or a sync has ended."""
        log = self.logs[place]
        log.kept_in_kill = max(log.kept_in_kill, end)
        log.kept_always = max(log.kept_always, durable_end)

    def acknowledged(self, place: Place, end: int) -> None:
        """A batch was acknowledged to its producer."""
        self.logs[place].acked = max(self.logs[place].acked, end)

    def read(self, place: Place, end: int) -> None:
        """A consumer has read up to this offset."""
        self.logs[place].read = max(self.logs[place].read, end)

    def start_planned(self, place: Place, start: int) -> None:
        """Records below this offset are about to be deleted."""
        log = self.logs[place]
        log.start_planned = max(log.start_planned, start)

    def start_moved(self, place: Place, start: int) -> None:
        """The deletion of records below this offset was acknowledged."""
        self.start_planned(place, start)
        self.logs[place].start = max(self.logs[place].start, start)

    def id_issued(self, producer_id: int) -> None:
        """A producer has an id."""
        self.ids.add(producer_id)

    def committing(self, group: str, offset: int) -> None:
        """A group has requested the commit of an offset."""
        self.commits_asked.setdefault(group, []).append(offset)

    def committed_to(self, group: str, offset: int) -> None:
        """The commit was acknowledged; older requests are no longer possible outcomes."""
        self.committed[group] = offset
        self.commits_asked[group] = []

    def transaction_begun(self, transactional_id: str, producer_id: int) -> None:
        """A producer continues with its own transaction."""
        self.transactions.setdefault(transactional_id, []).append(Transaction(producer_id))
        self.transactors.add(producer_id)

    def transaction_sent(self, transactional_id: str, place: Place, base: int, end: int) -> None:
        """A batch of the transaction is about to be appended."""
        self.transactions[transactional_id][-1].sent.append((place, base, end))

    def transaction_commits(self, transactional_id: str, offset: int) -> None:
        """Its group's offset is about to be committed in it."""
        self.transactions[transactional_id][-1].offset = offset
        self.commits_asked.setdefault(group_of(transactional_id), []).append(offset)

    def transaction_ending(self, transactional_id: str, *, is_commit: bool) -> None:
        """Its end was requested."""
        self.transactions[transactional_id][-1].asked = is_commit

    def transaction_ended(self, transactional_id: str) -> None:
        """Its end was acknowledged."""
        ended = self.transactions[transactional_id][-1]
        ended.is_told = ended.is_over = True
        group = group_of(transactional_id)
        if ended.offset is not None and ended.asked:
            self.committed_to(group, ended.offset)
        elif ended.offset is not None:
            self.commits_asked[group].remove(ended.offset)

    def transactions_over(self, transactional_id: str) -> None:
        """Another producer has the id: an open transaction is aborted, unless its end had begun."""
        for each in self.transactions.get(transactional_id, ()):
            each.is_over = True

    def power_cut(self) -> None:
        """What only the page cache had is no longer guaranteed."""
        for log in self.logs.values():
            log.kept_in_kill = log.kept_always
            if not log.is_group_commit:
                log.acked = min(log.acked, log.kept_always)
                log.read = min(log.read, log.kept_always)

    def recovered(self, place: Place, end: int, durable_end: int, start: int) -> None:
        """A start serves a log that ends here: later records are lost for good."""
        log = self.logs[place]
        log.sent = [sent for sent in log.sent if sent.end <= end]
        for found in self.transactions.values():
            for each in found:
                each.sent = [sent for sent in each.sent if sent[0] != place or sent[2] <= end]
        log.kept_in_kill = end
        log.kept_always = max(log.kept_always, durable_end)
        log.start = max(log.start, start)
        log.start_planned = max(log.start_planned, log.start)

    def groups_recovered(self, committed: dict[str, int]) -> None:
        """A start returns these offsets."""
        self.committed = dict(committed)
        self.commits_asked = {}


def group_of(transactional_id: str) -> str:
    """Return the group whose offsets are committed in its transactions."""
    return f"group of {transactional_id}"

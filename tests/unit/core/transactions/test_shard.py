"""The transactional ids of one partition: their limits, epochs, deadlines and open transactions."""

from collections.abc import Iterator

from broker.core.coordination.machine import Moment
from broker.core.transactions.commands import (
    LAST_EPOCH,
    AddRequest,
    EndRequest,
    InitRequest,
    InitResponse,
    Producer,
    SyncData,
    TransactionDecision,
    TransactionSettings,
)
from broker.core.transactions.records import (
    TransactionImage,
    TransactionRecord,
    TransactionState,
)
from broker.core.transactions.shard import TransactionLimits, TransactionShard
from broker.model.errors import ErrorCode

NOW = Moment(0, 0)


class Shard(TransactionShard):
    """The only shard of a broker; counts how often all open transactions were counted."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.counted = 0
        super().__init__(settings, TransactionLimits(settings, self.all), "outside")

    def all(self) -> Iterator[TransactionShard]:
        self.counted += 1
        yield self

    def obey(self, decision: TransactionDecision) -> object:
        for record in decision.records:
            self.replay(record)
        [(_, response)] = decision.replies
        return response

    def start(self, name: str) -> object:
        response = self.obey(self.init(InitRequest(name, 60_000, 1), "init", NOW))
        assert isinstance(response, InitResponse)
        return self.touch(name, 0)

    def touch(self, name: str, partition: int) -> object:
        request = AddRequest(Producer(name, 1, 0), (("t", partition),))
        return self.obey(self.add(request, "add", NOW))


def test_open_transactions_are_counted_only_when_one_begins() -> None:
    shard = Shard(TransactionSettings())
    shard.start("x")
    counted = shard.counted

    for partition in range(1, 4):
        assert shard.touch("x", partition) is ErrorCode.NONE

    assert shard.counted == counted


def test_at_the_limit_of_open_transactions_existing_ones_continue() -> None:
    shard = Shard(TransactionSettings(open_max=1))
    shard.start("x")

    assert shard.start("y") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.touch("x", 1) is ErrorCode.NONE


def init(shard: Shard, producer_id: int = -1, epoch: int = -1) -> tuple[ErrorCode, int, int]:
    """Initialise the id "x", as that previous producer; return error, producer id and epoch."""
    response = shard.obey(shard.init(InitRequest("x", 60_000, 7, producer_id, epoch), "init", NOW))
    assert isinstance(response, InitResponse)
    return response


def test_a_producer_that_reinitialises_gets_the_next_epoch_and_fences_older_instances() -> None:
    """KIP-360: it names its former id and epoch after an error that it can recover from."""
    shard = Shard(TransactionSettings())
    assert init(shard) == (ErrorCode.NONE, 7, 0)

    assert init(shard, 7, 0) == (ErrorCode.NONE, 7, 1)

    late = AddRequest(Producer("x", 7, 0), (("t", 0),))
    assert shard.obey(shard.add(late, "add", NOW)) is ErrorCode.PRODUCER_FENCED
    assert init(shard, 7, 1) == (ErrorCode.NONE, 7, 2)


def test_a_producer_that_repeats_a_lost_init_gets_the_same_epoch() -> None:
    shard = Shard(TransactionSettings())
    init(shard)
    assert init(shard, 7, 0) == (ErrorCode.NONE, 7, 1)

    assert init(shard, 7, 0) == (ErrorCode.NONE, 7, 1)


def test_an_init_that_exhausted_the_epochs_is_repeated_for_the_last_epoch_alone() -> None:
    shard = Shard(TransactionSettings())
    last = TransactionImage(6, LAST_EPOCH, 60_000, TransactionState.EMPTY, 0)
    shard.replay(TransactionRecord("x", last))
    assert init(shard, 6, LAST_EPOCH) == (ErrorCode.NONE, 7, 0)

    assert init(shard, 6, LAST_EPOCH) == (ErrorCode.NONE, 7, 0)
    for producer in ((6, LAST_EPOCH - 1), (6, 0), (5, LAST_EPOCH)):
        assert init(shard, *producer)[0] is ErrorCode.PRODUCER_FENCED


def test_a_producer_two_epochs_behind_is_fenced() -> None:
    shard = Shard(TransactionSettings())
    for epoch in range(-1, 2):
        init(shard, -1 if epoch < 0 else 7, epoch)

    assert init(shard, 7, 0)[0] is ErrorCode.PRODUCER_FENCED


def test_a_transaction_begun_without_a_partition_has_a_deadline() -> None:
    shard = Shard(TransactionSettings())
    init(shard)
    begin = AddRequest(Producer("x", 7, 0), (), begins=True)
    assert shard.obey(shard.add(begin, "begin", Moment(1_000, 1_000))) is ErrorCode.NONE
    assert shard.next_deadline_ms() == 61_000

    assert list(shard.tick(Moment(60_999, 60_999))) == []
    [aborted] = shard.tick(Moment(61_000, 61_000))

    [note] = aborted.notes
    assert note.startswith("transaction abort transactional_id=x ")


def test_a_transaction_is_unfinished_from_its_begin_until_its_markers_are_written() -> None:
    shard = Shard(TransactionSettings())
    producer = Producer("x", 7, 0)
    init(shard)
    transaction = shard.transactions["x"]
    assert not transaction.is_unfinished(producer)

    shard.obey(shard.add(AddRequest(producer, (("t", 0),)), "add", NOW))
    assert transaction.is_unfinished(producer)
    assert not transaction.is_unfinished(producer._replace(producer_epoch=1))

    [(_, sync)] = shard.end(EndRequest(producer, is_commit=True), "end", NOW).replies
    assert isinstance(sync, SyncData)
    for record in shard.synced(producer, sync.attempt, NOW, is_durable=True).records:
        shard.replay(record)
    assert transaction.is_unfinished(producer)
    for record in shard.marked(producer, NOW).records:
        shard.replay(record)
    assert not transaction.is_unfinished(producer)


def test_an_end_whose_decision_was_not_appended_may_be_asked_for_again() -> None:
    shard = Shard(TransactionSettings())
    producer = Producer("x", 7, 0)
    init(shard)
    shard.obey(shard.add(AddRequest(producer, (("t", 0),)), "add", NOW))
    [(_, sync)] = shard.end(EndRequest(producer, is_commit=True), "end", NOW).replies
    assert isinstance(sync, SyncData)
    assert shard.synced(producer, sync.attempt, NOW, is_durable=True).records  # and no replay

    shard.transactions["x"].end_refused(sync.attempt)

    [(_, again)] = shard.end(EndRequest(producer, is_commit=True), "end", NOW).replies
    assert isinstance(again, SyncData)
    shard.transactions["x"].end_refused(sync.attempt)  # the earlier one, late
    assert shard.synced(producer, again.attempt, NOW, is_durable=True).records

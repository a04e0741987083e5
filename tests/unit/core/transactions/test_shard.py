"""The transactional ids of one partition: what all of the broker's have to be counted for."""

from collections.abc import Iterator

from broker.core.machine import Moment
from broker.core.transactions.commands import (
    AddRequest,
    InitRequest,
    InitResponse,
    Producer,
    TransactionDecision,
    TransactionSettings,
)
from broker.core.transactions.shard import Room, TransactionShard
from broker.model.errors import ErrorCode

NOW = Moment(0, 0)


class Shard(TransactionShard):
    """The only one of a broker; knows how often what all have open was counted."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.counted = 0
        room = Room(settings)
        room.count(self.all)
        super().__init__(settings, room, "outside")

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


def test_only_what_begins_a_transaction_has_the_open_ones_counted() -> None:
    shard = Shard(TransactionSettings())
    shard.start("x")
    counted = shard.counted

    for partition in range(1, 4):
        assert shard.touch("x", partition) is ErrorCode.NONE

    assert shard.counted == counted


def test_an_open_transaction_goes_on_when_there_is_no_room_for_another() -> None:
    shard = Shard(TransactionSettings(open_max=1))
    shard.start("x")

    assert shard.start("y") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.touch("x", 1) is ErrorCode.NONE

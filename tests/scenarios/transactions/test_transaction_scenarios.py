"""Runs the transaction scenarios in `*.txt`: a command, `----`, and the expected output.

    add x t-0
    ----
    record x Ongoing id=1 epoch=0 partitions=t-0
    add: NONE

Each file is one shard of transactional ids. Its requests to other logs are printed as `outside`
(sync: the data of a transaction, mark: its markers); `synced` and `marked` report their end.
Producer ids count up from 1; `id=` and `epoch=` name the producer, by default the last one. The
commands `advance`, `reload` and REWRITE_SCENARIOS are those of the group scenarios.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.core.transactions import records
from broker.core.transactions.commands import (
    AddRequest,
    EndRequest,
    EndResponse,
    InitRequest,
    InitResponse,
    Producer,
    Response,
    SyncData,
    TransactionDecision,
    TransactionDescription,
    TransactionSettings,
    VerifyRequest,
    VerifyResponse,
    WriteMarkers,
)
from broker.core.transactions.coordinator import RECORD_FORMAT
from broker.core.transactions.records import TopicPartition
from broker.core.transactions.shard import TransactionLimits, TransactionShard
from broker.model.errors import ErrorCode
from tests.scenarios.scenario import Arguments, Scenario, check_file
from tests.support.subscriptions import place

FOLDER = Path(__file__).parent
VERSION_2 = 2


class TransactionScenario(Scenario[TransactionShard]):
    """The commands for transactions, and the work that they request of other logs."""

    def __init__(self) -> None:
        self.settings = TransactionSettings()
        self.holder: dict[str, tuple[int, int]] = {}
        self.syncing: dict[str, SyncData] = {}
        self.marking: dict[str, WriteMarkers] = {}
        super().__init__(RECORD_FORMAT)

    def make_shard(self) -> TransactionShard:
        limits = TransactionLimits(self.settings, lambda: iter((self.shard,)))
        return TransactionShard(self.settings, limits, "outside")

    def shown_record(self, record: records.TransactionRecord) -> str:
        return _record(record)

    def shown_response(self, response: Response) -> str:
        self.remember(response)
        return _response(response)

    def remember(self, response: Response) -> None:
        if isinstance(response, SyncData):
            self.syncing[response.producer.transactional_id] = response
        elif isinstance(response, WriteMarkers):
            self.marking[response.producer.transactional_id] = response

    def producer(self, words: Arguments) -> Producer:
        name = words.bare[0]
        producer_id, epoch = self.holder.get(name, (0, 0))
        return Producer(name, words.number("id", producer_id), words.number("epoch", epoch))

    # ---- commands: as in commands.py -------------------------------------------------------------

    def do_settings(self, words: Arguments) -> None:
        self.settings = TransactionSettings(
            timeout_ms_max=words.number("timeout_max", 900_000),
            ids_max=words.number("ids_max", 10_000),
            open_max=words.number("open_max", 1_000),
        )
        self.begin_again()

    def fresh_id(self) -> int:
        self.ids += 1
        return self.ids

    def needs_fresh_id(self, name: str, *, at_end: bool) -> bool:
        transaction = self.shard.transactions.get(name)
        return not at_end if transaction is None else transaction.needs_fresh_id

    def do_init(self, words: Arguments) -> None:
        name = words.bare[0]
        needs_id = self.needs_fresh_id(name, at_end=False)
        request = InitRequest(
            name,
            words.number("timeout", 60_000),
            self.fresh_id() if needs_id else -1,
            words.number("id", -1),
            words.number("epoch", -1),
        )
        decision = self.shard.init(request, words.token, self.now())
        for _, response in decision.replies:
            if isinstance(response, InitResponse) and response.error is ErrorCode.NONE:
                self.holder[name] = response[1:]
        self.apply(decision)

    def do_add(self, words: Arguments) -> None:
        version = VERSION_2 if "v2" in words.bare else 0
        places = tuple(place(each) for each in words.bare[1:] if each != "v2")
        request = AddRequest(self.producer(words), places, version)
        self.apply(self.shard.add(request, words.token, self.now()))

    def do_begin(self, words: Arguments) -> None:
        request = AddRequest(self.producer(words), (), begins=True)
        self.apply(self.shard.add(request, words.token, self.now()))

    def do_verify(self, words: Arguments) -> None:
        request = VerifyRequest(self.producer(words), tuple(map(place, words.bare[1:])))
        self.apply(self.shard.verify(request, words.token))

    def do_commit(self, words: Arguments) -> None:
        self.end(words, is_commit=True)

    def do_abort(self, words: Arguments) -> None:
        self.end(words, is_commit=False)

    def end(self, words: Arguments, *, is_commit: bool) -> None:
        name = words.bare[0]
        bumps = "v2" in words.bare
        needs_id = bumps and self.needs_fresh_id(name, at_end=True)
        fresh_id = self.fresh_id() if needs_id else -1
        request = EndRequest(self.producer(words), is_commit, bumps, fresh_id)
        self.apply(self.shard.end(request, words.token, self.now()))

    def do_describe(self, words: Arguments) -> None:
        self.apply(self.shard.describe(words.bare[0], "describe"))

    # ---- work in other logs ---------------------------------------------------------------------

    def do_synced(self, words: Arguments) -> None:
        data = self.syncing[words.bare[0]]
        is_durable = "lost" not in words.bare
        attempt = words.number("attempt", data.attempt)
        decision = self.shard.synced(data.producer, attempt, self.now(), is_durable=is_durable)
        for _, response in decision.replies:
            if isinstance(response, EndResponse) and response.error is ErrorCode.NONE:
                self.holder[words.bare[0]] = response[1:]
        self.apply(decision)

    def do_marked(self, words: Arguments) -> None:
        producer = self.marking[words.bare[0]].producer
        named = producer._replace(producer_epoch=words.number("epoch", producer.producer_epoch))
        self.apply(self.shard.marked(named, self.now()))

    # ---- time and the log ------------------------------------------------------------------------

    def do_expire(self, _words: Arguments) -> None:
        self.apply_all(self.shard.expire(self.now()))

    def do_epochs_used_up(self, words: Arguments) -> None:
        """Log the state that 32,766 transactions leave."""
        name = words.bare[0]
        image = self.shard.transactions[name].image
        assert image is not None
        used_up = image._replace(producer_epoch=words.number("to", 32_766))
        self.holder[name] = used_up[:2]
        self.apply(TransactionDecision([records.TransactionRecord(name, used_up)]))


# ---- how things are shown ------------------------------------------------------------------------


def _places(places: Iterable[TopicPartition]) -> str:
    return ",".join(f"{topic}-{partition}" for topic, partition in sorted(places))


def _record(record: records.TransactionRecord) -> str:
    image = record.image
    if image is None:
        return f"{record.transactional_id} deleted"
    line = f"{record.transactional_id} {image.state.value} id={image.producer_id}"
    line += f" epoch={image.producer_epoch}"
    if image.partitions:
        line += f" partitions={_places(image.partitions)}"
    if image.previous_producer_id >= 0:
        line += f" previous={image.previous_producer_id}"
    return line if image.next_producer_id < 0 else f"{line} next={image.next_producer_id}"


def _response(response: Response) -> str:
    if isinstance(response, ErrorCode):
        return response.name
    if isinstance(response, VerifyResponse):
        return " ".join(each.name for each in response.errors)
    if isinstance(response, SyncData):
        return f"sync {response.producer.transactional_id} {_places(response.partitions)}"
    if isinstance(response, WriteMarkers):
        kind = "commit" if response.is_committed else "abort"
        name, producer_id, epoch = response.producer
        places = _places(response.partitions)
        return f"mark {name} {kind} id={producer_id} epoch={epoch} {places}"
    if response.error is not ErrorCode.NONE:
        return response.error.name
    if isinstance(response, TransactionDescription):
        return f"{response.state.value} {_places(response.partitions)}"
    return f"NONE id={response.producer_id} epoch={response.producer_epoch}"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_a_transaction_scenario_gives_the_written_responses(path: Path) -> None:
    check_file(path, TransactionScenario())

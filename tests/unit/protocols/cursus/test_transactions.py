"""Transactions of a broker that cannot serve: loading coordinators, failed disks, waits."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.core.groups.commands.assigned import AssignedError, AssignedResponse
from broker.core.groups.commands.offsets import FetchOffsetsResponse
from broker.core.groups.records.offsets import CommittedOffset
from broker.core.topics.topic import TRANSACTIONS_TOPIC
from broker.core.transactions import markers, shard
from broker.core.transactions.commands import AddRequest, Producer
from broker.core.writing import Written, write_batches
from broker.model import limits
from broker.model.errors import ErrorCode
from broker.protocols.cursus import dispatch, staged
from broker.protocols.cursus.handlers import offsets, staging, transactions
from broker.protocols.cursus.holders import refusal_of
from broker.protocols.cursus.protocol_state import ProtocolState
from broker.protocols.cursus.staged import Transactions
from tests.support.fakes import FakeBroker

WHO = "transactional_id=x producerId=txn-00000000000003e8 epoch=0"  # the first id of the fakes
PRODUCER = Producer("polylog-cursus:x", 1, 0)


class CursusClient:
    """One broker, and the commands sent to it."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.broker.create("t", 2)
        self.restart()

    def restart(self) -> None:
        """Forget what the dialect remembers."""
        self.state = ProtocolState()
        self.protocol = dispatch.Cursus(self.state)

    async def answer(self, command: str) -> str:
        """Send a command; the text of its answer."""
        answer = self.protocol.handle(0, 0, None, command.encode(), self.broker.session)
        assert isinstance(answer, Awaitable)
        body = await answer
        assert isinstance(body, bytes)
        return body.decode()

    def ask(self, *commands: str) -> list[str]:
        """Send some at once, as of different connections, to a slow disk; their answers."""
        log = self.broker.state_log

        async def answered() -> list[str]:
            log.syncs = False
            asked = [asyncio.create_task(self.answer(each)) for each in commands]
            while not all(each.done() for each in asked):
                await asyncio.sleep(0)
                log.sync()
            return [each.result() for each in asked]

        return asyncio.run(answered())

    def say(self, command: str) -> str:
        """Send one; return its response."""
        [answer] = self.ask(command)
        return answer


@pytest.fixture
def client() -> CursusClient:
    """Return the arguments of an initialised id whose transaction has begun."""
    client = CursusClient()
    assert client.say("INIT_PRODUCER_ID transactional_id=x") == f"OK {WHO}"
    assert client.say(f"BEGIN_TXN {WHO}").startswith("OK ")
    return client


@pytest.mark.parametrize(
    "command",
    [
        "INIT_PRODUCER_ID transactional_id=x",
        f"BEGIN_TXN {WHO}",
        f"TXN_PUBLISH {WHO} topic=t seqNum=1 message=m",
        f"SEND_OFFSETS_TO_TXN {WHO} topic=t group=g member=m generation=1 P0:1",
        f"END_TXN {WHO}",
        "TXN_STATUS transactional_id=x",
    ],
)
def test_a_loading_or_failed_coordinator_is_not_available(
    client: CursusClient, command: str
) -> None:
    client.broker.transactions.expect([0])
    loading = client.say(command)
    client.broker.transactions.close()
    closed = client.say(command)

    assert loading == closed == "ERROR: coordinator_not_available"


def test_without_the_transaction_topic_there_is_no_coordinator() -> None:
    client = CursusClient()
    client.broker.broken_partition = 0

    assert client.say("INIT_PRODUCER_ID transactional_id=x") == "ERROR: coordinator_not_available"


def test_a_request_does_not_create_the_transaction_topic() -> None:
    client = CursusClient()

    assert client.say("TXN_STATUS transactional_id=x") == (
        'ERROR: transaction_not_found reason="transaction x not found"'
    )
    assert client.say(f"END_TXN {WHO}").startswith("ERROR: transaction_not_found ")
    assert client.broker.topics.get(TRANSACTIONS_TOPIC) is None


def test_producer_ids_that_cannot_be_reserved_are_a_storage_error() -> None:
    client = CursusClient()
    client.broker.producer_ids.is_broken = True

    assert client.say("INIT_PRODUCER_ID transactional_id=x") == (
        'ERROR: command_failed reason="kafka storage error"'
    )


def test_a_loading_partition_names_this_broker_as_leader(client: CursusClient) -> None:
    client.broker.log("t").is_loading = True

    assert client.say(f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=1 message=m") == (
        "ERROR: NOT_LEADER LEADER_IS broker.example:9092"
    )


def test_a_partition_with_a_failed_disk_refuses_messages(client: CursusClient) -> None:
    client.broker.log("t").is_offline = True

    assert client.say(f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=1 message=m") == (
        'ERROR: transaction_publish_failed reason="kafka storage error"'
    )


def test_a_commit_whose_data_cannot_be_synced_is_refused(client: CursusClient) -> None:
    client.say(f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=1 message=m")
    client.broker.log("t").is_loading = True

    assert client.say(f"END_TXN {WHO}") == "ERROR: coordinator_not_available"
    assert client.say("TXN_STATUS transactional_id=x").endswith(" state=open messages=1 offsets=0")


def test_a_command_repeated_on_another_connection_waits_for_the_first(client: CursusClient) -> None:
    publish = f"TXN_PUBLISH {WHO} topic=t seqNum=1 message=m"

    published = set(client.ask(publish, publish, publish))
    ended = client.ask(f"END_TXN {WHO}", f"END_TXN {WHO}")

    assert len(published) == 1
    assert ended == ["OK transactional_id=x state=committed messages=1 offsets=0"] * 2
    assert sum(len(client.broker.log("t", partition).batches) for partition in (0, 1)) == 1


@pytest.fixture
def slow_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a record take a few turns to be appended, as when it is recompressed."""

    async def slowly(*arguments: Any) -> Written:
        for _ in range(10):
            await asyncio.sleep(0)
        return await write_batches(*arguments)

    monkeypatch.setattr(staging, "write_batches", slowly)


@pytest.mark.usefixtures("slow_writes")
def test_a_message_being_written_is_not_written_twice_and_is_in_its_transaction(
    client: CursusClient,
) -> None:
    publish = f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=1 message=m"

    *published, ended = client.ask(publish, publish, f"END_TXN {WHO}")

    assert published == ["OK transactional_id=x staged_messages=1 topic=t partition=0"] * 2
    assert ended == "OK transactional_id=x state=committed messages=1 offsets=0"
    assert len(client.broker.log("t").batches) == 1


def test_an_end_repeated_while_the_first_is_in_progress_waits_for_it(
    client: CursusClient,
) -> None:
    log = client.broker.log("t")
    log.is_held = True
    client.say(f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=1 message=m")

    async def ended() -> str:
        first, second = (asyncio.create_task(client.answer(f"END_TXN {WHO}")) for _ in range(2))
        for _ in range(10):
            await asyncio.sleep(0)
        first.cancel()  # its client has disconnected
        for _ in range(10):
            await asyncio.sleep(0)
        assert not second.done()
        log.sync()
        client.broker.state_log.syncs = True
        client.broker.state_log.sync()
        return await second

    assert asyncio.run(ended()) == "OK transactional_id=x state=committed messages=1 offsets=0"


def test_two_concurrent_initialisations_get_an_epoch_each(client: CursusClient) -> None:
    command = "INIT_PRODUCER_ID transactional_id=x"

    answers = client.ask(command, command)

    assert [each.rpartition("=")[2] for each in answers] == ["2", "3"], (
        "one of them fenced what was"
    )


def test_a_transaction_begun_before_a_restart_is_ended(client: CursusClient) -> None:
    client.say(f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=1 message=m")
    client.restart()  # and its coordinator has not aborted it yet

    aborted = "ERROR: transaction_aborted transactional_id=x"
    assert client.say(f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=2 message=m") == aborted
    assert client.say(f"END_TXN {WHO} result=commit") == aborted
    assert client.say("TXN_STATUS transactional_id=x") == (
        "OK transactional_id=x state=aborted messages=0 offsets=0"
    )
    assert client.say(f"BEGIN_TXN {WHO}") == (
        "ERROR: producer_reinitialization_required transactional_id=x epoch=0"
    )
    assert client.say(f"END_TXN {WHO} result=abort") == "OK transactional_id=x state=aborted"


def test_an_offset_fetch_waits_for_an_allowed_commit(client: CursusClient) -> None:
    async def is_fetched() -> list[bool]:
        fetch = client.answer("FETCH_OFFSET topic=t partition=0 group=g")
        with client.state.transactions.committing("g"):
            asked = asyncio.create_task(fetch)
            for _ in range(10):
                await asyncio.sleep(0)
            before = asked.done()
        assert await asked == "OK offset=0"
        return [before, asked.done()]

    assert asyncio.run(is_fetched()) == [False, True]


def begin_to_commit_offsets(client: CursusClient) -> None:
    """Have offsets of a group in the transaction, and its commit on a disk that is slow."""
    transactions = client.broker.transactions
    producer = Producer("polylog-cursus:x", 1000, 0)
    place = transactions.offsets_partition("g")

    async def begin() -> None:
        assert await transactions.add(AddRequest(producer, (place,))) is ErrorCode.NONE
        client.broker.state_log.syncs = False
        asked = asyncio.create_task(client.answer(f"END_TXN {WHO}"))
        for _ in range(10):
            await asyncio.sleep(0)
        asked.cancel()  # its client has disconnected

    client.broker.state_log.syncs = True
    asyncio.run(begin())
    before, after = ({"t": {0: CommittedOffset(offset, -1, "", 0)}} for offset in (0, 5))
    unstable = FetchOffsetsResponse(ErrorCode.NONE, before, frozenset({("t", 0)}))
    committed = FetchOffsetsResponse(ErrorCode.NONE, after)
    client.broker.groups.answers = [unstable, committed]


def test_an_offset_fetch_waits_for_an_allowed_commit_of_a_disconnected_client(
    client: CursusClient,
) -> None:
    begin_to_commit_offsets(client)

    async def fetched() -> str:
        asked = asyncio.create_task(client.answer("FETCH_OFFSET topic=t partition=0 group=g"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asked.done()
        client.broker.state_log.syncs = True
        client.broker.state_log.sync()
        return await asked

    assert asyncio.run(fetched()) == "OK offset=5"


@pytest.mark.parametrize(
    "command",
    [
        "FETCH_OFFSET topic=t partition=0 group=g",
        "CONSUME topic=t partition=0 offset=0 group=g",
        "STREAM topic=t partition=0 group=g",
    ],
)
def test_a_read_from_committed_offsets_does_not_begin_before_a_commit_in_progress_ends(
    client: CursusClient, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "CURSUS_TRANSACTION_END_WAIT_MS", 0)
    begin_to_commit_offsets(client)

    assert asyncio.run(client.answer(command)) == "ERROR: coordinator_not_available"


def test_an_end_whose_markers_cannot_be_written_is_answered_and_completed_later(
    client: CursusClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "CURSUS_TRANSACTION_END_WAIT_MS", 0)
    client.say(f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=1 message=m")
    monkeypatch.setattr(markers.Markers, "write_here", lambda *_: None)

    committed = "OK transactional_id=x state=committed messages=1 offsets=0"
    assert client.say(f"END_TXN {WHO}") == committed
    assert client.say("TXN_STATUS transactional_id=x") == committed.replace(
        "committed", "committing"
    )
    assert client.say(f"END_TXN {WHO}") == committed, "again"
    assert client.say(f"END_TXN {WHO} result=abort") == (
        "ERROR: transaction_not_abortable transactional_id=x state=committing"
    )
    waits = 'ERROR: transaction_sync_failed reason="transaction x still ends, or too many are open"'
    assert client.say(f"BEGIN_TXN {WHO}") == waits
    assert client.say("INIT_PRODUCER_ID transactional_id=x") == waits


def test_limits_on_transactional_ids_and_open_transactions_are_reported(
    client: CursusClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = client.say("INIT_PRODUCER_ID transactional_id=y").removeprefix("OK ")
    monkeypatch.setattr(shard.TransactionLimits, "has_ids", False)
    monkeypatch.setattr(shard.TransactionLimits, "has_open", False)

    assert client.say("INIT_PRODUCER_ID transactional_id=z") == (
        'ERROR: init_producer_failed reason="there are as many transactional ids as there may be"'
    )
    assert client.say(f"BEGIN_TXN {other}") == (
        'ERROR: transaction_sync_failed reason="transaction y still ends, or too many are open"'
    )
    assert client.say(f"TXN_PUBLISH {WHO} topic=t seqNum=1 message=m").startswith("OK "), (
        "as it was"
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ErrorCode.PRODUCER_FENCED, "producer_fenced transactional_id=x"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, "producer_fenced transactional_id=x"),
        (ErrorCode.POLICY_VIOLATION, 'c reason="policy violation"'),
    ],
)
def test_every_refusal_of_the_coordinator_has_a_cursus_code(error: ErrorCode, text: str) -> None:
    assert str(refusal_of(error, "x", "c")) == f"ERROR: {text}"


def test_the_next_owner_of_the_partitions_fetches_offsets_after_an_allowed_commit() -> None:
    known = Transactions()

    async def order() -> list[str]:
        events = []

        async def fetch(group: str) -> None:
            await known.wait_for_commit_requests(group)
            events.append(f"fetch {group}")

        with known.committing("g"):
            waiting = asyncio.create_task(fetch("g"))
            await fetch("other")
            await asyncio.sleep(0)
            events.append("committed")
        await waiting
        await fetch("g")
        return events

    assert asyncio.run(order()) == ["fetch other", "committed", "fetch g", "fetch g"]


@pytest.mark.parametrize(
    ("answer", "is_bound"),
    [(AssignedError.UNAVAILABLE, True), (AssignedError.NOT_ASSIGNED, False)],
)
def test_offsets_that_may_have_been_written_bind_the_commit_to_their_member(
    client: CursusClient, answer: AssignedError, is_bound: bool
) -> None:
    allowed, stale = map(AssignedResponse, (AssignedError.NONE, AssignedError.STALE_GENERATION))
    client.broker.groups.answers = [allowed, AssignedResponse(answer, partition=0), stale]
    send = f"SEND_OFFSETS_TO_TXN {WHO} topic=t group=g member=m generation=1 P0:1"
    client.broker.state_log.syncs = True

    assert asyncio.run(client.answer(send)).startswith("ERROR: ")
    ended = asyncio.run(client.answer(f"END_TXN {WHO}"))

    assert ended.startswith("ERROR: GEN_MISMATCH " if is_bound else "OK ")


def test_an_open_transaction_is_remembered_however_many_others_begin_and_end(
    client: CursusClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "CURSUS_TRANSACTIONS_REMEMBERED", 2)
    client.say(f"TXN_PUBLISH {WHO} topic=t partition=0 seqNum=1 message=m")

    for name in "abc":
        who = client.say(f"INIT_PRODUCER_ID transactional_id={name}").removeprefix("OK ")
        client.say(f"BEGIN_TXN {who}")
        client.say(f"END_TXN {who}")

    assert (
        client.say(f"END_TXN {WHO}") == "OK transactional_id=x state=committed messages=1 offsets=0"
    )


def test_only_the_latest_messages_are_checked_for_repeats() -> None:
    staged = Transactions().begin("x", PRODUCER, lambda _: False)
    count = limits.CURSUS_TRANSACTION_MESSAGES_REMEMBERED + 1
    for sequence in range(1, count + 1):
        staged.add("t", sequence, (b"", b"m"), 1)

    assert staged.partition_of("t", 1, (b"", b"m"), None) is None
    assert staged.partition_of("t", 2, (b"", b"m"), None) == 1
    assert staged.partition_of("t", count, (b"", b"m"), 1) == 1
    assert staged.partition_of("t", count, (b"", b"m"), 0) is None, "it goes to another partition"
    assert staged.partition_of("t", count, (b"", b"n"), None) is None
    assert staged.partition_of("u", count, (b"", b"m"), None) is None
    assert staged.messages == count


def test_the_number_of_remembered_transactions_is_limited_even_if_all_are_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged, "CURSUS_TRANSACTIONS_REMEMBERED", 1)
    known = Transactions()
    for name in "ab":
        known.begin(name, PRODUCER, lambda _: True)

    assert known.of("a", PRODUCER) is None
    assert known.of("b", PRODUCER) is not None


def test_only_the_latest_transactions_are_remembered() -> None:
    known = Transactions()
    for number in range(limits.CURSUS_TRANSACTIONS_REMEMBERED + 1):
        known.begin(str(number), PRODUCER, lambda _: False)
        known.begin("1", PRODUCER, lambda _: False)

    assert known.of("0", PRODUCER) is None
    assert known.of("1", PRODUCER) is not None, "it began again"
    assert known.of("2", PRODUCER) is not None
    assert known.of("2", PRODUCER._replace(producer_epoch=1)) is None

"""kill -9 and timeouts: the outcome of Cursus's open and completed transactions."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread

import pytest

from tests.compatibility.committed import committed_values
from tests.compatibility.cursus.transactional import (
    GoTransactions,
    JavaTransactions,
    PythonTransactions,
    TransactionalProducer,
)
from tests.compatibility.cursus.transactions import begun, joined, seen
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient

TIMEOUT_S = 30.0
KILLS = 3
MANY_PARTITIONS = 1_000
RUN_TIMEOUT_S = 120.0
StartBroker = Callable[..., BrokerProcess]


def test_a_transaction_left_open_is_aborted_by_its_timeout(
    start_broker: StartBroker,
) -> None:
    broker = start_broker("transaction.max.timeout.ms=300")
    with CursusClient(broker.address) as cursus:
        cursus.ask("CREATE topic=t partitions=1")
        old = begun(cursus, "tx")
        cursus.ask(f"TXN_PUBLISH {old} topic=t partition=0 seqNum=1 message=lost")
        wait_until(
            lambda: "state=aborted" in cursus.ask("TXN_STATUS transactional_id=tx"), "it is over"
        )

        aborted = "ERROR: transaction_aborted transactional_id=tx"
        assert cursus.ask(f"END_TXN {old} result=commit") == aborted
        publish = f"TXN_PUBLISH {old} topic=t seqNum=2 message=late"
        assert cursus.ask(publish) == aborted
        assert cursus.ask(f"END_TXN {old} result=abort") == "OK transactional_id=tx state=aborted"
        assert cursus.ask(f"BEGIN_TXN {old}") == (
            "ERROR: producer_reinitialization_required transactional_id=tx epoch=0"
        )
        who = begun(cursus, "tx")
        assert "staged" in cursus.ask(f"TXN_PUBLISH {who} topic=t seqNum=1 message=next")
        cursus.ask(f"END_TXN {who}")
        assert cursus.ask(f"BEGIN_TXN {old}").startswith("ERROR: producer_fenced ")


def test_transactional_messages_to_an_idempotent_topic_may_have_any_sequence_numbers(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    plain = "PUBLISH topic=t producerId=p seqNum={0} message=plain{0}"
    with CursusClient(broker.address) as cursus:
        cursus.ask("CREATE topic=t partitions=1 idempotent=true")
        who = begun(cursus, "tx")
        for number in (9, 3, 700, 20_000):
            message = f"topic=t seqNum={number} message={number}"
            assert cursus.ask(f"TXN_PUBLISH {who} {message}").startswith("OK ")
        cursus.ask(f"END_TXN {who}")
        assert '"status":"OK"' in cursus.ask(plain.format(1))
    broker.kill()
    broker.start()

    with CursusClient(broker.address) as cursus:
        for number in (1, 2):
            assert '"status":"OK"' in cursus.ask(plain.format(number))
        assert seen(cursus, "t") == ["9", "3", "700", "20000", "plain1", "plain2"]


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_kill_9_leaves_committed_transactions_whole_and_aborts_open_ones(
    start_broker: StartBroker, durability: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    with CursusClient(broker.address) as cursus:
        cursus.ask("CREATE topic=t partitions=2")
        member = joined(cursus, "t", "g")
        who = {name: begun(cursus, name) for name in ("open", "done", "sure")}
        for name, each in who.items():
            cursus.ask(f"TXN_PUBLISH {each} topic=t partition=0 seqNum=1 message={name}")
        there = f"topic=t group=g member={member} generation=1"
        cursus.ask(f"SEND_OFFSETS_TO_TXN {who['open']} {there} P1:9")
        cursus.ask(f"SEND_OFFSETS_TO_TXN {who['done']} {there} P0:5")
        cursus.ask(f"END_TXN {who['done']} result=commit")
        cursus.send(f"END_TXN {who['sure']} result=commit")  # in flight at the kill
        broker.kill()
    broker.start()

    with CursusClient(broker.address) as cursus:
        again = f"END_TXN {who['done']} result=commit"
        wait_until(lambda: "coordinator_not_available" not in cursus.ask(again), "it has loaded")
        assert cursus.ask(again) == "OK transactional_id=done state=committed"
        wait_until(
            lambda: "state=open" not in cursus.ask("TXN_STATUS transactional_id=open"), "it is over"
        )
        aborted = "ERROR: transaction_aborted transactional_id=open"
        assert cursus.ask(f"TXN_PUBLISH {who['open']} topic=t seqNum=2 message=x") == aborted
        assert cursus.ask(f"END_TXN {who['open']} result=commit") == aborted
        sure = cursus.ask(f"END_TXN {who['sure']} result=commit")
        expected = ["done", "sure"] if sure.startswith("OK ") else ["done"]
        wait_until(lambda: sorted(seen(cursus, "t")) == expected, f"{expected} can be read")
        assert cursus.ask("FETCH_OFFSET topic=t group=g partition=0") == "OK offset=5"
        assert cursus.ask("FETCH_OFFSET topic=t group=g partition=1") == "OK offset=0"
        assert cursus.ask(f"BEGIN_TXN {who['open']}") == (
            "ERROR: producer_reinitialization_required transactional_id=open epoch=0"
        )
        begun(cursus, "open")
    assert sorted(committed_values(broker.address, "t", at_least=len(expected), partitions=2)) == (
        expected
    )


def test_after_kill_9_no_transaction_begins_before_a_decided_commit_is_completed(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with CursusClient(broker.address) as cursus, CursusClient(broker.address) as other:
        cursus.ask(f"CREATE topic=T partitions={MANY_PARTITIONS}")  # before the offsets topic
        member = joined(cursus, "T", "g")
        who = begun(cursus, "tx")
        for partition in range(MANY_PARTITIONS):
            publish = f"TXN_PUBLISH {who} topic=T partition={partition} seqNum=1 message=m"
            assert cursus.ask(publish).startswith("OK ")
        there = f"topic=T group=g member={member} generation=1"
        assert cursus.ask(f"SEND_OFFSETS_TO_TXN {who} {there} P0:5").startswith("OK ")
        cursus.send(f"END_TXN {who}")
        status = "TXN_STATUS transactional_id=tx"
        while "state=commit" not in other.ask(status):  # Its markers are written a little later.
            pass
        broker.kill()
    broker.start_loading()

    answers = set()
    with CursusClient(broker.address) as cursus:

        def is_over() -> bool:
            answers.add(cursus.ask("FETCH_OFFSET topic=T group=g partition=0"))
            return "state=committed" in cursus.ask(status)

        wait_until(is_over, "its markers are written")
        answers.add(cursus.ask("FETCH_OFFSET topic=T group=g partition=0"))

    assert answers - {"ERROR: coordinator_not_available"} == {"OK offset=5"}


class Load(Thread):
    """Copies numbers: each with the next offset in one transaction, until its broker dies."""

    def __init__(self, client: type[TransactionalProducer], address: str, name: str) -> None:
        super().__init__(daemon=True)
        self.producer = client(address, name)
        self.name = name
        self.outcomes: dict[int, str] = {}
        self.group = f"group-{name}"
        with CursusClient(address) as cursus:
            self.member = joined(cursus, "t", self.group)
        self.here = f"group={self.group} member={self.member} generation=1"

    def run(self) -> None:
        """Run one transaction after another; every third is aborted."""
        number = 0
        with suppress(OSError, AssertionError, IndexError):  # It was killed.
            while True:
                self.outcomes[number] = "unknown"
                self.producer.command(f"HEARTBEAT topic=t {self.here}")
                self.producer.begin()
                for partition in (0, 1):
                    self.producer.publish("t", f"{self.name}:{number}", partition)
                self.producer.send_offsets("t", self.group, self.member, 1, {0: number + 1})
                if number % 3 == 2:
                    self.producer.abort()
                    self.outcomes[number] = "aborted"
                else:
                    self.producer.commit()
                    self.outcomes[number] = "committed"
                number += 1


def have_done(workers: list[Load], count: int) -> bool:
    """Return whether each has completed that many transactions."""
    return all(len(each.outcomes) > count for each in workers)


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_responses_given_before_kill_9_remain_true(
    start_broker: StartBroker, durability: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    with CursusClient(broker.address) as cursus:
        cursus.ask("CREATE topic=t partitions=2")
    kinds = [JavaTransactions, PythonTransactions, GoTransactions]
    workers: list[Load] = []
    for run in range(KILLS):
        living = [Load(kind, broker.address, f"{kind.__name__}-{run}") for kind in kinds]
        for each in living:
            each.start()
        wait_until(partial(have_done, living, 5 + 7 * run), "work is done", RUN_TIMEOUT_S)
        broker.kill()
        for each in living:
            each.join(TIMEOUT_S)
            assert not each.is_alive()
        workers += living
        broker.start()

    outcomes = {
        f"{each.name}:{number}": how for each in workers for number, how in each.outcomes.items()
    }
    surely = sorted(value for value, how in outcomes.items() if how == "committed")
    values = committed_values(broker.address, "t", at_least=2 * len(surely), partitions=2)
    assert all(values.count(value) == 2 for value in set(values)), "each is whole"
    assert not [value for value in values if outcomes[value] == "aborted"]
    assert set(surely) <= set(values)
    with CursusClient(broker.address) as cursus:
        for each in workers:
            last = max((n for n in each.outcomes if f"{each.name}:{n}" in values), default=-1)
            fetch = f"FETCH_OFFSET topic=t group={each.group} partition=0"
            assert cursus.ask(fetch) == f"OK offset={last + 1}"

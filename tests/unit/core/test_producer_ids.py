"""Producer ids: each is returned once, whatever happens to the broker."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from broker.core.metadata import OwnMetadata
from broker.core.producer_ids import ProducerIds
from broker.core.scheduling.io_thread import IoThread
from broker.model.errors import StorageError
from broker.model.limits import PRODUCER_ID_BLOCK
from broker.storage.metadata import PRODUCER_ID_BLOCK as KEY
from broker.storage.metadata import Guard, Operation, Put
from broker.storage.metadata.sqlite import SqliteMetaStore


class Ids:
    """Producer ids of a broker with this store."""

    def __init__(self, store: SqliteMetaStore) -> None:
        self._ids = ProducerIds(OwnMetadata(store, IoThread()))

    def next_id(self) -> int:
        return asyncio.run(self._ids.next_id())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteMetaStore]:
    opened = SqliteMetaStore(tmp_path / "metadata.db")
    yield opened
    opened.close()


def test_ids_increase_by_one_across_blocks(store: SqliteMetaStore) -> None:
    producer_ids = ProducerIds(OwnMetadata(store, IoThread()))

    async def take() -> list[int]:
        return [await producer_ids.next_id() for _ in range(PRODUCER_ID_BLOCK + 2)]

    given = asyncio.run(take())

    assert given == list(range(PRODUCER_ID_BLOCK + 2))


def test_a_block_costs_one_write(store: SqliteMetaStore) -> None:
    producer_ids = Ids(store)

    for _ in range(PRODUCER_ID_BLOCK):
        producer_ids.next_id()

    assert store.scan(b"")[1] == 1


def test_nothing_is_reserved_before_the_first_request(store: SqliteMetaStore) -> None:
    Ids(store)

    assert store.get(KEY) is None


def test_the_rest_of_a_block_is_not_used_after_a_restart(store: SqliteMetaStore) -> None:
    before = Ids(store).next_id()
    after = Ids(store).next_id()

    assert (before, after) == (0, PRODUCER_ID_BLOCK)


def test_two_brokers_on_one_store_never_return_the_same_id(store: SqliteMetaStore) -> None:
    one, other = Ids(store), Ids(store)

    given = [who.next_id() for _ in range(PRODUCER_ID_BLOCK + 5) for who in (one, other)]

    assert len(set(given)) == len(given)


def test_a_block_taken_by_another_broker_is_not_taken_again(tmp_path: Path) -> None:
    others: list[Ids] = []

    class Overtaken(SqliteMetaStore):
        """A store on which another broker reserves between our read and our write, once."""

        def transact(self, guards: Sequence[Guard], operations: Sequence[Operation]) -> int | None:
            if others:
                assert others.pop().next_id() == 0
            return super().transact(guards, operations)

    overtaken = Overtaken(tmp_path / "metadata.db")
    others.append(Ids(overtaken))
    assert Ids(overtaken).next_id() == PRODUCER_ID_BLOCK
    overtaken.close()


def test_no_id_is_returned_twice_after_kill_9(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, signal, sys, pathlib\n"
        "from broker.core.metadata import OwnMetadata\n"
        "from broker.core.producer_ids import ProducerIds\n"
        "from broker.core.scheduling.io_thread import IoThread\n"
        "from broker.storage.metadata.sqlite import SqliteMetaStore\n"
        "store = SqliteMetaStore(pathlib.Path(sys.argv[1]))\n"
        "ids = ProducerIds(OwnMetadata(store, IoThread()))\n"
        "async def take():\n"
        "    for _ in range(int(sys.argv[2])): print(await ids.next_id(), flush=True)\n"
        "asyncio.run(take())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    given: list[str] = []
    for count in (3, 1001, 1):
        ended = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "metadata.db"), str(count)],
            check=False,
            capture_output=True,
            text=True,
        )
        given += ended.stdout.split()

    assert len(given) == 1005
    assert len(set(given)) == len(given)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version": 2, "next_producer_id": 0}',
        b'{"version": 1, "next_producer_id": -1}',
        b'{"version": 1, "next_producer_id": "7"}',
    ],
)
def test_a_damaged_block_record_is_an_error(store: SqliteMetaStore, value: bytes) -> None:
    store.transact([], [Put(KEY, value)])

    with pytest.raises(StorageError, match="damaged pid_block"):
        Ids(store).next_id()

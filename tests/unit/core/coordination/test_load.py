"""Loading undecodable records: they are counted, and no other record is lost."""

from typing import Any

import pytest

from broker.codec.control_records import Marker, encode_marker
from broker.core.coordination.load import CoordinatorLoad
from broker.core.coordination.machine import RecordFormat
from broker.model import limits
from broker.model.errors import Corrupt, StorageError
from tests.support.batches import batch_of
from tests.support.memory_log import MemoryLog

RECORDS_START = 61  # of a batch


class Machine:
    """Records what is replayed as text; it is also its own store of pending records."""

    def __init__(self, *, has_pending: bool = True) -> None:
        self.calls: list[str] = []
        self.pending = self if has_pending else None

    def replay(self, record: str) -> None:
        if record == "riddle":
            raise Corrupt("what stands inside cannot be")
        self.calls.append(record)

    def replay_pending(self, producer_id: int, record: str) -> None:
        self.calls.append(f"{record} of {producer_id}")

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        self.calls.append(f"{'commit' if is_committed else 'abort'} of {producer_id}")

    def waiting(self) -> list[Any]:
        return []


def decode(key: bytes, value: bytes | None) -> str | None:
    if value == b"bad":
        raise Corrupt("a value that cannot be")
    return None if key == b"other" else key.decode()


PLAIN = RecordFormat(lambda record: (record.encode(), b""), decode)
FORGETTING = RecordFormat(PLAIN.encode, decode, lambda key: f"without {key.decode()}")


def batch(*keys: str | None, **options: Any) -> bytes:
    """Return a batch with a record per key; `!x` has an undecodable value, None no key."""
    entries = []
    for key in keys:
        name = None if key is None else key.removeprefix("!").encode()
        entries.append((name, b"bad" if key and key.startswith("!") else b"", ()))
    return batch_of(entries, 0, **options)


def flipped(data: bytes, position: int = RECORDS_START) -> bytes:
    """Return the batch with a flipped bit: its CRC is wrong."""
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


def load(
    log: MemoryLog, machine: Machine, record_format: RecordFormat[str] = PLAIN
) -> CoordinatorLoad[str]:
    """Load to the end."""
    running = CoordinatorLoad(log, machine, record_format, set())
    while not running.is_done:
        assert running.step()
    return running


def logged(*batches: bytes) -> MemoryLog:
    log = MemoryLog()
    for each in batches:
        log.append_internal(each)
    return log


def test_a_record_that_cannot_be_decoded_is_counted_and_all_others_are_replayed() -> None:
    machine = Machine()

    lost = load(logged(batch("a", "!b", "c"), batch("d")), machine).lost

    assert machine.calls == ["a", "c", "d"]
    assert lost.total == 1
    assert lost.offsets == (1,)
    assert lost.reason == "a value that cannot be"


def test_a_record_without_a_key_is_counted() -> None:
    machine = Machine()

    lost = load(logged(batch("a", None, "c")), machine).lost

    assert machine.calls == ["a", "c"]
    assert (lost.total, lost.offsets) == (1, (1,))


def test_a_record_whose_replay_fails_is_counted_and_tried_once() -> None:
    machine = Machine()

    lost = load(logged(batch("a", "riddle", "c"), batch("d")), machine).lost

    assert machine.calls == ["a", "c", "d"]
    assert (lost.total, lost.offsets) == (1, (1,))


def test_a_record_of_an_unknown_kind_is_skipped_and_not_counted() -> None:
    machine = Machine()

    assert load(logged(batch("other", "a")), machine).lost.total == 0
    assert machine.calls == ["a"]


def test_a_format_may_replay_a_substitute_for_a_key_with_an_undecodable_value() -> None:
    machine = Machine()

    load(logged(batch("a", "!a", None)), machine, FORGETTING)

    assert machine.calls == ["a", "without a"]


@pytest.mark.parametrize("has_pending", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_batch_that_cannot_be_read_counts_all_its_records_and_others_are_replayed_once(
    place: int, has_pending: bool
) -> None:
    machine = Machine(has_pending=has_pending)
    batches = [batch("a", "b"), batch("c", "d"), batch("e", "f")]
    batches[place] = flipped(batches[place])

    lost = load(logged(*batches), machine).lost

    assert machine.calls == [each for each in "abcdef" if each not in ("ab", "cd", "ef")[place]]
    assert (lost.total, lost.offsets) == (2, (2 * place,))


def test_records_replayed_before_an_unreadable_batch_are_not_replayed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chunks are decompressed one after the other, each when the one before it is replayed."""
    machine = Machine()
    names = [f"{number:05}" for number in range(20_000)]
    large = batch(*names)
    monkeypatch.setattr(limits, "LOAD_BYTES_PER_STEP", 1 << 30)

    lost = load(logged(batch("a"), large, flipped(batch("b")), batch("c")), machine).lost

    assert machine.calls == ["a", *names, "c"]
    assert (lost.total, lost.offsets) == (1, (20_001,))


def test_an_undecodable_record_of_a_transaction_does_not_affect_its_other_records() -> None:
    machine = Machine()
    options = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    log = logged(
        batch("a", "!b", **options),
        flipped(batch("c", **options)),
        batch("d", **options),
        encode_marker(Marker(7, 0, is_committed=True, coordinator_epoch=1)),
    )

    lost = load(log, machine).lost

    assert machine.calls == ["a of 7", "d of 7", "commit of 7"]
    assert (lost.total, lost.offsets) == (2, (1, 2))


def test_an_undecodable_marker_aborts_its_transaction() -> None:
    machine = Machine()
    options = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    marker = batch_of([(b"\0\0", b"", ())], 0, is_control=True, **options)

    lost = load(logged(batch("a", **options), marker), machine).lost

    assert machine.calls == ["a of 7", "abort of 7"]
    assert (lost.total, lost.offsets) == (1, (1,))


def test_only_the_first_lost_offsets_are_kept_and_all_are_counted() -> None:
    count = limits.LOST_OFFSETS_SHOWN + 5

    lost = load(logged(batch(*["!x"] * count)), Machine()).lost

    assert lost.total == count
    assert lost.offsets == tuple(range(limits.LOST_OFFSETS_SHOWN))


@pytest.mark.parametrize(("is_offline", "damage"), [(False, (5, 6)), (True, (0, 1))])
def test_a_read_error_other_than_damage_fails_the_load(
    is_offline: bool, damage: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logged(batch("a"))
    log.is_offline, log.damaged_ranges = is_offline, [damage]

    def failing(offset: int, _size: int) -> bytes:
        raise StorageError(f"no bytes at {offset}")

    monkeypatch.setattr(log, "read", failing)

    with pytest.raises(StorageError):
        CoordinatorLoad(log, Machine(), PLAIN, {damage}).step()


def test_damage_is_counted_up_to_the_log_end_at_the_start_of_the_load() -> None:
    log = logged(batch("a"), batch("b"))
    log.damaged_ranges = [(1, 9)]
    running = CoordinatorLoad(log, Machine(), PLAIN, {(1, 9)})

    while not running.is_done:
        running.step()

    assert running.lost.total == 1
    assert running.next_offset == 2

"""A start on the state left by a crash, by the product's own code, and what must hold then."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from broker._native.log.partition_log import PartitionLog
from broker.codec import records
from broker.core.groups.commands.offsets import FetchOffsetsRequest
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.model.errors import ErrorCode, PolylogError, StorageError
from broker.segments.text_files import read_partition_metadata
from broker.storage.files.deletion import STRAY_SUFFIX
from tests.crash_states.bit_flips import Flip
from tests.crash_states.broker_run import BrokerRun, place_of
from tests.crash_states.expected_state import (
    ABORT,
    COMMIT,
    TRANSACTIONAL,
    ExpectedLog,
    ExpectedState,
    Sent,
    body_of,
)
from tests.crash_states.finding import TRANSACTION, Finding, Outcome
from tests.crash_states.transaction_checks import check_transactions
from tests.support.batches import batch_of, header

NOT_STARTED = "the start has failed"
OFFLINE = "a log cannot be used"
LOST_ACK = "an acknowledged record is lost"
LOST_READ = "a record that somebody has read is lost"
LOST_SYNCED = "a record that was synced is lost"
NEVER_SENT = "a record that nobody has sent, or that was gone"
GAP = "a gap between offsets"
BACK = "deleted records are back"
START_LOST = "a log begins behind what was deleted"
KEY_LOST = "the newest record of a key is lost"
SEQUENCE = "a producer cannot go on"
REPEATED = "a repeated batch is taken for new"
ID_TWICE = "a producer id is given twice"
COMMIT_LOST = "a committed offset is lost"
TOPIC_LOST = "a topic is lost"
TOPIC_BACK = "a deleted topic is back, or what it left on the disk"
SET_ASIDE = "a folder is set aside that is nobody's"
OLD_RECORDS = "a new log has records already"
EPOCH = "a leader epoch is used twice"


def start_and_check(
    path: Path,
    expected: ExpectedState,
    loop: asyncio.AbstractEventLoop,
    *,
    is_power_cut: bool,
    flip: Flip | None = None,
) -> Outcome:
    """Start on a folder, check everything, and let the producers continue.

    `flip` names the records that the disk has damaged: those, and no others, may be refused.
    """
    try:
        broker = BrokerRun(path, loop)
    except (PolylogError, OSError) as error:
        return Outcome([Finding(NOT_STARTED, repr(error))], lost_as_stated=False)
    try:
        lost = [
            known.name
            for _, log in broker.logs()
            if (known := expected.logs.get(place_of(log))) is not None
            and is_power_cut
            and not known.is_group_commit
            and log.log_end_offset < known.acked
        ]
        found = list(_check(broker, expected, is_power_cut=is_power_cut, flip=flip))
    finally:
        broker.kill()
    return Outcome(found, bool(lost))


def _check(
    broker: BrokerRun, expected: ExpectedState, *, is_power_cut: bool, flip: Flip | None
) -> Iterator[Finding]:
    yield from _check_topics(broker, expected)
    yield from _check_folders(broker)
    yield from _check_logs(broker, expected, is_power_cut=is_power_cut, flip=flip)
    found = {place_of(log): log.log_end_offset for _, log in broker.logs()}
    if broker.topics.get(TRANSACTIONS_TOPIC) is not None:
        broker.finish_transactions()
        yield from check_transactions(broker, expected, found)
    if expected.ids and (again := broker.run(broker.ids.next_id())) in expected.ids:
        yield Finding(ID_TWICE, str(again))
    yield from _check_groups(broker, expected)
    for topic, log in broker.logs():
        known = expected.logs.get(place_of(log))
        if known is not None and log.is_in_service:
            for what, detail in _go_on(log, known, found[place_of(log)], expected.transactors):
                yield Finding(what, f"{topic.name}-{log.partition}: {detail}")
    broker.end_turn()


def _check_logs(
    broker: BrokerRun, expected: ExpectedState, *, is_power_cut: bool, flip: Flip | None
) -> Iterator[Finding]:
    for topic, log in broker.logs():
        known = expected.logs.get(place_of(log))
        where = f"{topic.name}-{log.partition}"
        if not log.is_in_service:
            yield Finding(OFFLINE, where)
        elif known is not None:
            checks = _LogChecks(log, known, is_power_cut=is_power_cut, flip=flip)
            is_unclean = not broker.partitions.is_clean
            for what, detail in checks.run(is_unclean=is_unclean):
                yield Finding(what, f"{where}: {detail}")
        elif not topic.is_internal and log.log_end_offset > 0:
            yield Finding(OLD_RECORDS, f"{where}: {log.log_end_offset}")


def _check_topics(broker: BrokerRun, expected: ExpectedState) -> Iterator[Finding]:
    """Check that the store agrees with the responses given."""
    for name, (topic_id, partitions) in expected.created.items():
        topic = broker.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            yield Finding(TOPIC_LOST, name)
        elif len(topic.logs) < partitions:
            yield Finding(TOPIC_LOST, f"{name}: {len(topic.logs)} partitions of {partitions}")
    for topic in broker.topics:
        if topic.topic_id in expected.gone:
            yield Finding(TOPIC_BACK, topic.name)


def _check_folders(broker: BrokerRun) -> Iterator[Finding]:
    """Check that the folders agree with the store."""
    owners = {Path(log.folder): log.topic_id for _, log in broker.logs()}
    for folder, topic_id in owners.items():
        if read_partition_metadata(folder) != topic_id:
            yield Finding(TOPIC_LOST, f"{folder.name} is another topic's, or none's")
    for folder in (each for path in broker.directories for each in path.iterdir()):
        if folder.name.endswith(STRAY_SUFFIX):
            yield Finding(SET_ASIDE, folder.name)
        elif folder.is_dir() and folder not in {*owners, *broker.directories}:
            yield Finding(TOPIC_BACK, folder.name)


def _check_groups(broker: BrokerRun, expected: ExpectedState) -> Iterator[Finding]:
    wanted = {*expected.committed, *expected.commits_asked}
    if not wanted:
        return
    topic = broker.topics.get(OFFSETS_TOPIC)
    if topic is None:
        if expected.committed:
            yield Finding(COMMIT_LOST, "no topic of offsets")
        return
    if not broker.log(OFFSETS_TOPIC).is_in_service:
        return  # found before
    for group, offset in committed(broker, wanted).items():
        allowed = [expected.committed.get(group), *expected.commits_asked.get(group, ())]
        if offset not in allowed:
            yield Finding(COMMIT_LOST, f"{group}: {offset}, not one of {allowed}")


def committed(broker: BrokerRun, groups: Iterable[str]) -> dict[str, int | None]:
    """Return the offsets that each group gets as committed."""
    found: dict[str, int | None] = {}
    for group in sorted(groups):
        answer = broker.groups.fetch_offsets(FetchOffsetsRequest(group, None))
        broker.end_turn()
        broker.until_synced(broker.log(OFFSETS_TOPIC))
        broker.run(asyncio.sleep(0))
        response = answer.result()
        assert response.error == ErrorCode.NONE, response
        place = response.topics.get("one", {}).get(0)
        found[group] = None if place is None else place.offset
    return found


class _LogChecks:
    """One log after a start, compared with what was acknowledged."""

    def __init__(
        self, log: PartitionLog, known: ExpectedLog, *, is_power_cut: bool, flip: Flip | None
    ) -> None:
        self.log = log
        self.known = known
        self.end = log.log_end_offset
        self.is_power_cut = is_power_cut
        self.sent = {sent.base: sent for sent in known.sent}
        self.damaged = (-1, -1)  # offsets of the first record and after the last
        if flip is not None and flip.log == f"{log.topic}-{log.partition}":
            self.damaged = flip.offset, flip.end_offset

    def run(self, *, is_unclean: bool) -> Any:
        """Yield what is wrong with it."""
        log = self.log
        if is_unclean and self.end > log.log_start_offset and log.leader_epoch <= self.known.epoch:
            yield EPOCH, f"{log.leader_epoch}"
        yield from self._ends()
        try:
            found = _batches(self.log, self.damaged)
        except (PolylogError, IndexError) as error:
            yield OFFLINE, repr(error)
            return
        if self.known.is_compacted:
            try:
                yield from self._compacted(found)
            except PolylogError as error:
                yield NEVER_SENT, repr(error)
        else:
            yield from self._whole(found)
            yield from self._transactions()

    def _ends(self) -> Any:
        known, end = self.known, self.end
        if known.is_group_commit or not self.is_power_cut:
            if end < known.acked:
                yield LOST_ACK, f"ends at {end}, acknowledged up to {known.acked}"
            if end < known.read:
                yield LOST_READ, f"ends at {end}, read up to {known.read}"
        if end < (known.kept_always if self.is_power_cut else known.kept_in_kill):
            yield LOST_SYNCED, f"ends at {end}, {known.kept_always} {known.kept_in_kill}"
        if self.log.log_start_offset < known.start:
            yield BACK, f"begins at {self.log.log_start_offset}, deleted up to {known.start}"
        # (The first segments of a compacted log may be empty.)
        if self.log.log_start_offset > known.start_planned and not known.is_compacted:
            yield START_LOST, f"{self.log.log_start_offset} instead of {known.start_planned}"
        if self.log.high_watermark != end:
            yield LOST_READ, f"high watermark {self.log.high_watermark}, end {end}"

    def _whole(self, found: list[tuple[int, bytes]]) -> Any:
        next_offset = self.log.log_start_offset
        for base, batch in found:
            sent = self.sent.get(base)
            end = _end_of(base, batch, self.damaged)
            if base > next_offset and not self._is_damaged(next_offset, base):
                yield GAP, f"{base} follows {next_offset}"
            # (Below the recovery point a start reads nothing: consumers and the scrub check CRCs.)
            is_same = sent is not None and body_of(sent.batch) == body_of(batch)
            if not is_same and (base, end) != self.damaged:
                yield NEVER_SENT, f"at {base}"
            next_offset = end
        if next_offset != self.end and not self._is_damaged(next_offset, self.end):
            yield GAP, f"the log ends at {self.end}, its batches at {next_offset}"

    def _is_damaged(self, offset: int, end: int) -> bool:
        """Return whether these are the readable offsets of the damaged batch."""
        first, after = self.damaged
        return end == after and offset == max(first, self.log.log_start_offset)

    def _compacted(self, found: list[tuple[int, bytes]]) -> Any:
        there = {}
        for _, batch in found:
            for row in records(batch):
                there[row.offset] = (row.key, row.value)
        newest = {}
        for sent in self.known.sent:
            for row in records(sent.batch):
                offset = sent.base + row.offset
                if offset in there and there[offset] != (row.key, row.value):
                    yield NEVER_SENT, f"at {offset}"
                if sent.end <= self.end:
                    newest[row.key] = offset
        yield from ((KEY_LOST, f"{key!r}") for key, at in newest.items() if at not in there)

    def _transactions(self) -> Any:
        """Return the differences; a later batch may be the first if the log starts within it."""
        start = self.log.log_start_offset
        begun: dict[int, list[int]] = {}
        aborted: dict[tuple[int, int], list[int]] = {}
        for sent in self.known.sent:
            if sent.end > self.end:
                break
            if sent.kind == TRANSACTIONAL:
                begun.setdefault(sent.producer_id, []).append(sent.base)
            elif sent.kind in (COMMIT, ABORT):
                bases = begun.pop(sent.producer_id, [])
                if sent.kind == ABORT and bases:
                    aborted[sent.producer_id, sent.base] = bases
        found = self.log.open_transactions
        yield from _differences("open", found, begun, start)
        listed = {
            (producer_id, last): first
            for producer_id, first, last in self.log.aborted_transactions(start, self.end)
        }
        yield from _differences("aborted", listed, aborted, start)
        stable = min([self.end, *found.values()])
        if self.log.last_stable_offset != stable:
            yield TRANSACTION, f"last stable offset {self.log.last_stable_offset}, not {stable}"


def _differences(word: str, found: dict[Any, int], begun: dict[Any, list[int]], start: int) -> Any:
    for key in {*found, *begun}:
        bases = begun.get(key, [])
        readable = [base for base in bases if base >= start]
        if key in found:
            if found[key] not in bases or (readable and found[key] > readable[0]):
                yield TRANSACTION, f"{word} {key} since {found[key]}, not {bases}"
        elif readable:
            yield TRANSACTION, f"{word} {key}: {bases} is not known"


def _batches(log: PartitionLog, damaged: tuple[int, int]) -> list[tuple[int, bytes]]:
    """Yield every batch that a consumer gets and its base offset; the damaged one is skipped."""
    found = []
    offset = log.log_start_offset
    while offset < log.high_watermark:
        try:
            data = log.read(offset, 1 << 20)
        except StorageError:
            if not damaged[0] <= offset < damaged[1]:  # (a log may start within the batch)
                raise
            offset = damaged[1]
            continue
        if not data:
            break
        place = 0
        while place < len(data):
            facts = header(data, place)
            found.append((facts.base_offset, data[place : place + facts.size]))
            place += facts.size
            offset = _end_of(*found[-1], damaged)
    return found


def _end_of(base: int, batch: bytes, damaged: tuple[int, int]) -> int:
    """Where the next batch begins; the lost bit may be one of the field that says so."""
    return damaged[1] if base == damaged[0] else header(batch).last_offset + 1


def _go_on(log: PartitionLog, known: ExpectedLog, end: int, others: set[int]) -> Any:
    """Each producer but for these repeats its last batch, and sends the next one."""
    last: dict[int, Sent] = {}
    for sent in known.sent:
        if sent.producer_id in others:
            continue
        if sent.producer_id >= 0 and sent.end <= end and sent.sequence >= 0:
            last[sent.producer_id] = sent
    for producer_id, sent in last.items():
        if sent.base < log.log_start_offset:
            continue
        if not log.has_batch(sent.batch):
            yield REPEATED, f"producer {producer_id}, sequence {sent.sequence}"
        if sent.kind == TRANSACTIONAL:
            log.admit_transaction(producer_id, sent.epoch)
        following = _next_of(sent)
        status, *_ = log.append(following)
        if status != 0:
            yield SEQUENCE, f"producer {producer_id}, {sent.sequence}: {status}"


def _next_of(sent: Sent) -> bytes:
    return batch_of(
        [(b"key 0", b"what follows", [])],
        0,
        producer_id=sent.producer_id,
        producer_epoch=sent.epoch,
        base_sequence=sent.sequence + sent.end - sent.base,
        is_transactional=sent.kind == TRANSACTIONAL,
    )

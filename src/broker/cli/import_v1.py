"""`broker import v1`: brings what V1's original server has kept into a running broker.

    directory → records → Produce, with their times, partition by partition
              → offsets.json → OffsetCommit, as the records' offsets are here

It is a client of the broker like any other. Topics are made for it, or must be empty: so a second
import cannot double what the first has brought, and offsets come out as they were wherever the
original's log begins at 0 and nothing is missing in it. Elsewhere records move together, committed
offsets move with them, and the report says so. Memberships are not brought: members join again.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from broker import codec
from broker.cli.offset_map import OffsetMap
from broker.cli.reaching import check_reachable
from broker.cli.v1_directory import (
    Damage,
    Found,
    Partition,
    StoredRecord,
    find_segments,
    read_records,
)
from broker.client.connection import Client
from broker.core.topic import INTERNAL_TOPICS
from broker.core.topic_rules import check_name
from broker.model import limits
from broker.model.address import Address, parse_address
from broker.model.clock import Clock, SystemClock
from broker.model.errors import ConfigError, ErrorCode, ImportFailed, RequestError
from broker.storage import v1_files
from broker.storage.v1_files import Offsets

_AnswerT = TypeVar("_AnswerT")
_PROGRESS_RECORDS = 100_000
_LATEST, _ALL_ACKS, _TIMEOUT_MS = -1, -1, 30_000
_TOPIC = 2  # of DescribeConfigs' kinds of resources
_TRIES = int(limits.CLIENT_TIMEOUT_SECONDS / limits.CLIENT_RETRY_SECONDS)


class Options(NamedTuple):
    """What the command line says."""

    folder: Path
    broker: Address
    partition_count: int  # of topics that are made
    prints_json: bool


def options(folder: Path, broker: str, partition_count: int, output: str) -> Options:
    """What a command line asks for; ConfigError says what is wrong with it."""
    if not 0 < partition_count <= limits.PARTITIONS_PER_TOPIC_MAX:
        raise ConfigError(f"--partitions is 1 .. {limits.PARTITIONS_PER_TOPIC_MAX}")
    return Options(folder, parse_address(broker), partition_count, output == "json")


class Report:
    """What has come of it; `problems` is what could not be brought as it was."""

    def __init__(self, mirror_count: int) -> None:
        """Begin with nothing."""
        self.mirror_count = mirror_count
        self.maps: dict[Partition, OffsetMap] = {}
        self.offsets: dict[str, dict[str, dict[int, int]]] = {}
        self.damage_count = self.problem_count = 0
        self.damages: list[Damage] = []  # the first of them
        self.problems: list[str] = []  # likewise

    def add_damage(self, damage: Damage) -> None:
        """Say it now, count it, keep it for the report if there is room."""
        _say(f"{damage.file}:{damage.line}: {damage.reason}")
        self.damage_count += 1
        if len(self.damages) < limits.IMPORT_DAMAGES_REPORTED:
            self.damages.append(damage)

    def add_problem(self, problem: str) -> None:
        """Likewise."""
        _say(problem)
        self.problem_count += 1
        if len(self.problems) < limits.IMPORT_DAMAGES_REPORTED:
            self.problems.append(problem)

    @property
    def is_complete(self) -> bool:
        """Whether everything was brought."""
        return not (self.damage_count or self.problem_count)

    def as_json(self) -> dict[str, Any]:
        """The report for programs."""
        topics: dict[str, dict[str, object]] = {}
        for partition, offset_map in self.maps.items():
            topics.setdefault(partition.topic, {})[str(partition.number)] = {
                "records": offset_map.count,
                "first_offset_there": offset_map.first_source,
                "offsets_are_the_same": offset_map.is_same,
            }
        return {
            "is_complete": self.is_complete,
            "topics": topics,
            "committed_offsets": self.offsets,
            "damaged_lines": self.damage_count,
            "damages": [damage._asdict() for damage in self.damages],
            "other_problems": self.problem_count,
            "problems": self.problems,
            "mirror_segments_skipped": self.mirror_count,
        }

    def as_text(self) -> Iterator[str]:
        """The report for people."""
        for (topic, number), offset_map in self.maps.items():
            where = "" if offset_map.is_same else f", first there {offset_map.first_source}: moved"
            yield f"{topic}-{number}: {offset_map.count} records{where}"
        for group_id, topics in self.offsets.items():
            yield f"group {group_id}: {sum(map(len, topics.values()))} committed offsets"
        if self.mirror_count:
            yield f"skipped {self.mirror_count} segments that are copies (-replica-)"
        yield f"damaged lines: {self.damage_count}; problems: {self.problem_count}"


def run(asked: Options) -> int:
    """Import, print the report on stdout, and say on stderr what is done and what is wrong.

    Returns 0 when everything is there now.

    Raises:
        ConfigError: the directory has nothing of V1's.
        Unreachable, PeerError: the broker.
        ImportFailed: a topic cannot take the records, or the broker refuses them.
    """
    try:
        found = find_segments(asked.folder)
        offsets = v1_files.read_offsets(asked.folder)
        has_unread = offsets is None and (asked.folder / v1_files.OFFSETS_FILE).exists()
        if not found.segments and offsets is None:
            raise ConfigError(
                f"{asked.folder} has no TOPIC-PARTITION-segment-NNNNNN.log and no offsets.json"
                " that can be read: give the data directory of V1's server"
            )
        report = Report(found.mirror_count)
        if has_unread:
            report.add_problem(f"{v1_files.OFFSETS_FILE} cannot be read: no offset is brought")
        check_reachable(str(asked.broker))
        with Client(asked.broker) as client:
            importing = _Import(client, report, asked.partition_count, SystemClock())
            importing.run(found, offsets or {})
    except OSError as error:
        raise ImportFailed(f"{asked.folder} cannot be read: {error}") from error
    _print(report, asked)
    return 0 if report.is_complete else _say_what_next(report)


def _print(report: Report, options: Options) -> None:
    if options.prints_json:
        print(json.dumps(report.as_json()))
    else:
        print(*report.as_text(), sep="\n")


def _say_what_next(report: Report) -> int:
    _say(
        f"broker: {report.damage_count} damaged lines and {report.problem_count} other problems,"
        " see above; everything else is there. Go on with it, or mend the files, delete the topics"
        " and import again"
    )
    return 1


class _Import:
    """One import, from the segments to the last offset."""

    def __init__(self, client: Client, report: Report, partition_count: int, clock: Clock) -> None:
        self._client = client
        self._report = report
        self._partition_count = partition_count
        self._clock = clock
        self._oldest_ms: dict[str, int] = {}  # of the records of each topic

    def run(self, found: Found, offsets: Mapping[str, Offsets]) -> None:
        named = [each for each in found.segments if self._is_named(each)]
        sizes: dict[str, int] = {}
        for each in named:
            sizes[each.topic] = max(sizes.get(each.topic, 0), each.number + 1)
        for topic, size in sizes.items():  # All are ready before the first record is written.
            self._prepare(topic, size)
        for each in named:
            self._import_partition(each, found.segments[each])
        for topic, oldest_ms in self._oldest_ms.items():
            self._check_retention(topic, oldest_ms)
        for group_id, topics in offsets.items():
            self._commit(group_id, topics)

    def _is_named(self, partition: Partition) -> bool:
        """Whether a topic may be called so and be so large; if not, its files are told."""
        topic, number = partition
        try:
            check_name(topic)
        except RequestError as error:
            reason = str(error)
        else:
            if topic in INTERNAL_TOPICS:
                reason = "the broker has a topic of its own of that name"
            elif number < limits.PARTITIONS_PER_TOPIC_MAX:
                return True
            else:
                reason = f"a topic has at most {limits.PARTITIONS_PER_TOPIC_MAX} partitions"
        self._report.add_problem(
            f"{topic!a}-{number} is not brought: {reason}; rename its files and import again"
        )
        return False

    # ---- topics ----------------------------------------------------------------------------------

    def _prepare(self, topic: str, partitions_needed: int) -> None:
        """Make the topic, or see that it is large enough and empty."""
        body = {
            "name": topic,
            "num_partitions": max(partitions_needed, self._partition_count),
            "replication_factor": -1,
        }
        answer = self._client.request(
            "CreateTopics", 5, {"topics": [body], "timeout_ms": _TIMEOUT_MS}
        )
        error = codec.error_of(answer["topics"][0]["error_code"])
        if error.name not in (ErrorCode.NONE.name, ErrorCode.TOPIC_ALREADY_EXISTS.name):
            raise ImportFailed(f"topic {topic} cannot be made: {error.name}: {error.message}")
        for number in range(partitions_needed):
            end = self._end_offset(Partition(topic, number))
            if end is None:
                raise ImportFailed(
                    f"topic {topic} has less than the {partitions_needed} partitions of the files:"
                    " make it larger (kafka-topics.sh --alter) and import again"
                )
            if end > 0:
                raise ImportFailed(
                    f"topic {topic} has records already: delete it (kafka-topics.sh --delete"
                    f" --topic {topic}) and import again, or import into another broker"
                )

    def _end_offset(self, partition: Partition) -> int | None:
        """Where a partition ends; None when there is none."""
        asked = {"partition_index": partition.number, "timestamp": _LATEST}
        body = {
            "replica_id": -1,
            "topics": [{"name": partition.topic, "partitions": [asked]}],
        }

        def ask() -> tuple[int, int]:
            found = self._client.request("ListOffsets", 5, body)["topics"][0]["partitions"][0]
            return found["error_code"], found["offset"]

        error, end = _with_retries(ask)
        if error.name == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name:
            return None
        if error.code:
            raise ImportFailed(f"{partition.topic}-{partition.number}: {error.message}")
        return end

    # ---- records ---------------------------------------------------------------------------------

    def _import_partition(self, partition: Partition, files: list[Path]) -> None:
        """Write its records in their order; each batch must come to stand behind the last."""
        offset_map = self._report.maps[partition] = OffsetMap()
        batch: list[StoredRecord] = []
        size = 0
        for each in read_records(files):
            if isinstance(each, Damage):
                self._report.add_damage(each)
                continue
            batch.append(each)
            size += len(each.value)
            if size >= limits.IMPORT_BATCH_BYTES or len(batch) >= limits.IMPORT_BATCH_RECORDS:
                self._write(partition, batch, offset_map)
                batch, size = [], 0
        if batch:
            self._write(partition, batch, offset_map)
        _say(f"{partition.topic}-{partition.number}: {offset_map.count} records")

    def _check_retention(self, topic: str, oldest_ms: int) -> None:
        """Records keep their times, and what is too old goes soon: before anybody has read it."""
        configs = self._configs(topic, "cleanup.policy", "retention.ms")
        retention_ms = int(configs["retention.ms"])
        if "delete" not in configs["cleanup.policy"] or retention_ms < 0:
            return
        age_ms = self._clock.wall_ms() - oldest_ms
        if age_ms > retention_ms:
            self._report.add_problem(
                f"topic {topic} lets go of records after {retention_ms} ms (retention.ms), and has"
                f" some of {age_ms} ms now, which go within minutes. To keep them: kafka-configs.sh"
                f" --alter --entity-type topics --entity-name {topic} --add-config retention.ms=-1;"
                f" where they have gone, delete topic {topic}, create it so and import again"
            )

    def _configs(self, topic: str, *names: str) -> dict[str, str]:
        resource = {
            "resource_type": _TOPIC,
            "resource_name": topic,
            "configuration_keys": list(names),
        }
        body = {"resources": [resource], "include_synonyms": False}
        [found] = self._client.request("DescribeConfigs", 1, body)["results"]
        error = codec.error_of(found["error_code"])
        if error.code:
            raise ImportFailed(f"topic {topic} has no configuration: {error.message}")
        return {each["name"]: each["value"] for each in found["configs"]}

    def _write(
        self, partition: Partition, batch: list[StoredRecord], offset_map: OffsetMap
    ) -> None:
        rows = [(None, each.value, (), each.timestamp_ms) for each in batch]
        [encoded] = codec.encode(rows, batch_bytes_max=2 * limits.IMPORT_BATCH_BYTES)
        base_offset = self._produce(partition, encoded, batch[0].offset)
        oldest_ms = min(each.timestamp_ms for each in batch)
        known_ms = self._oldest_ms.get(partition.topic, oldest_ms)
        self._oldest_ms[partition.topic] = min(known_ms, oldest_ms)
        if base_offset != offset_map.count:
            raise ImportFailed(
                f"{partition.topic}-{partition.number}: somebody else writes to it. Stop that,"
                f" delete topic {partition.topic} and import again"
            )
        for each in batch:
            if not offset_map.add(each.offset):
                self._report.add_problem(
                    f"{partition.topic}-{partition.number}: offset {each.offset} comes again;"
                    f" its record is offset {offset_map.count - 1} here"
                )
            if offset_map.count % _PROGRESS_RECORDS == 0:
                _say(f"{partition.topic}-{partition.number}: {offset_map.count} records so far")

    def _produce(self, partition: Partition, batch: bytes, first_offset: int) -> int:
        """Write a batch; the offset of its first record here."""
        data = {"index": partition.number, "records": batch}
        topic = {"name": partition.topic, "partition_data": [data]}
        body = {"acks": _ALL_ACKS, "timeout_ms": _TIMEOUT_MS, "topic_data": [topic]}
        answer = self._client.request("Produce", 9, body)
        [found] = answer["responses"][0]["partition_responses"]
        error = codec.error_of(found["error_code"])
        if error.code:
            raise ImportFailed(
                f"{partition.topic}-{partition.number} from offset {first_offset} on is refused:"
                f" {error.name}: {error.message}. Mend that, delete topic {partition.topic} and"
                " import again"
            )
        base_offset: int = found["base_offset"]
        return base_offset

    # ---- offsets ---------------------------------------------------------------------------------

    def _commit(self, group_id: str, topics: Offsets) -> None:
        """Have a group go on where it was."""
        wanted = list(self._translated(group_id, topics))
        for first in range(0, len(wanted), limits.IMPORT_OFFSETS_PER_REQUEST):
            part = wanted[first : first + limits.IMPORT_OFFSETS_PER_REQUEST]
            for (topic, number, offset), error_code in self._commit_some(group_id, part):
                error = codec.error_of(error_code)
                if error.code:
                    self._report.add_problem(
                        f"offset of group {group_id!a} in {topic}-{number} is refused:"
                        f" {error.name}: {error.message}"
                    )
                else:
                    group = self._report.offsets.setdefault(group_id, {})
                    group.setdefault(topic, {})[number] = offset

    def _translated(self, group_id: str, topics: Offsets) -> Iterator[tuple[str, int, int]]:
        """The offsets as they are here: of the same records."""
        for topic, partitions in topics.items():
            for number, offset in partitions.items():
                offset_map = self._report.maps.get(Partition(topic, number), OffsetMap())
                if offset < 0 or (offset > 0 and not offset_map.count):
                    self._report.add_problem(
                        f"offset {offset} of group {group_id!a} in {topic!a}-{number} is not"
                        " brought: the partition has no record"
                    )
                else:
                    yield topic, number, offset_map.translate(offset)

    def _commit_some(
        self, group_id: str, part: list[tuple[str, int, int]]
    ) -> Iterator[tuple[tuple[str, int, int], int]]:
        by_topic: dict[str, list[codec.Fields]] = {}
        for topic, number, offset in part:
            asked = {"partition_index": number, "committed_offset": offset}
            by_topic.setdefault(topic, []).append({**asked, "committed_metadata": ""})
        named = [{"name": name, "partitions": each} for name, each in by_topic.items()]
        body = {"group_id": group_id, "member_id": "", "topics": named}

        def ask() -> tuple[int, dict[tuple[str, int], int]]:
            codes = {
                (topic["name"], each["partition_index"]): each["error_code"]
                for topic in self._client.request("OffsetCommit", 8, body)["topics"]
                for each in topic["partitions"]
            }
            return next(iter(codes.values())), codes

        _, codes = _with_retries(ask)
        return ((each, codes[each[0], each[1]]) for each in part)


def _with_retries(ask: Callable[[], tuple[int, _AnswerT]]) -> tuple[codec.KafkaError, _AnswerT]:
    """Ask again as long as the broker is getting ready; what a topic lacks is no such case."""
    tries_left = _TRIES
    while True:
        code, answer = ask()
        error = codec.error_of(code)
        tries_left -= 1
        is_final = error.name == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
        if is_final or not error.is_retriable or not tries_left:
            return error, answer
        time.sleep(limits.CLIENT_RETRY_SECONDS)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

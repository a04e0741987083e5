"""The broker that an import writes to: topics and records.

Topics are created, or must be empty, so that a second import cannot write records twice. Offsets
are unchanged if the original log begins at 0 and has no gaps; otherwise records get consecutive
offsets, committed offsets are translated, and the report says so. A dry run creates and writes
nothing, but looks at the broker as the import would.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from broker import codec
from broker.client.connection import Client
from broker.core.topics.rules import check_name
from broker.core.topics.topic import INTERNAL_TOPICS
from broker.model import limits
from broker.model.clock import Clock
from broker.model.errors import ErrorCode, ImportFailed, RequestError
from broker.protocols.importing.offset_map import OffsetMap
from broker.protocols.importing.options import Wanted, retention_configs
from broker.protocols.importing.report import Damage, Partition, Report

_AnswerT = TypeVar("_AnswerT")
_PROGRESS_RECORDS: Final = 100_000
_LATEST, _ALL_ACKS, _TIMEOUT_MS = -1, -1, 30_000
_TOPIC: Final = 2  # a resource type of DescribeConfigs
_SET: Final = 0  # an operation of IncrementalAlterConfigs
_TRIES: Final = int(limits.CLIENT_TIMEOUT_SECONDS / limits.CLIENT_RETRY_SECONDS)
_BATCH_OVERHEAD_BYTES: Final = 64 * limits.KIB


class ImportedRecord(NamedTuple):
    """A record and its original offset."""

    offset: int
    timestamp_ms: int
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes it takes in a batch."""
        texts = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.value) + len(self.key or b"") + texts


class Target:
    """The broker, as one import sees it.

    Attributes:
        client: a connection to it.
        is_dry_run: whether nothing is changed.
    """

    def __init__(self, client: Client, report: Report, wanted: Wanted, clock: Clock) -> None:
        """Begin without topics."""
        self.client = client
        self.is_dry_run = wanted.is_dry_run
        self._report = report
        self._configs_of_topics = retention_configs(wanted.retention_ms)
        self._clock = clock
        self._oldest_ms: dict[str, int] = {}  # of the records of each topic

    def may_have(self, partition: Partition) -> bool:
        """Return whether a topic's name and number of partitions are allowed; else report it."""
        topic, number = partition
        try:
            # Kafka's door creates no topic with such a name, Cursus's does.
            check_name(topic, allows_equals="=" in topic and self._exists(topic))
        except RequestError as error:
            reason = str(error)
        else:
            if topic in INTERNAL_TOPICS:
                reason = "it is the name of an internal topic"
            elif number < limits.PARTITIONS_PER_TOPIC_MAX:
                return True
            else:
                reason = f"a topic has at most {limits.PARTITIONS_PER_TOPIC_MAX} partitions"
        self._report.add_problem(
            f"{topic!a}-{number} is not imported: {reason}; rename its files and import again"
        )
        return False

    # ---- topics ----------------------------------------------------------------------------------

    def prepare(
        self,
        topic: str,
        partitions_needed: int,
        partitions: int,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic with so many partitions, or check that one has enough and is empty.

        `configs` are settings besides those of the retention.

        Raises:
            ImportFailed: neither is possible.
        """
        settings = {**self._configs_of_topics, **(configs or {})}
        body = {
            "name": topic,
            "num_partitions": max(partitions_needed, partitions),
            "replication_factor": -1,
            "configs": [{"name": name, "value": value} for name, value in settings.items()],
        }
        answer = self.client.request(
            "CreateTopics",
            5,
            {"topics": [body], "timeout_ms": _TIMEOUT_MS, "validate_only": self.is_dry_run},
        )
        error = codec.error_of(answer["topics"][0]["error_code"])
        exists = error.name == ErrorCode.TOPIC_ALREADY_EXISTS.name or "=" in topic
        if error.code and not exists:
            raise ImportFailed(
                f"topic {topic} cannot be created: {error.name}: {error.message}. Correct that and"
                " import again"
            )
        if exists or not self.is_dry_run:
            self._check_empty(topic, partitions_needed)

    def _exists(self, topic: str) -> bool:
        return self._end_offset(Partition(topic, 0)) is not None

    def _check_empty(self, topic: str, partitions_needed: int) -> None:
        for number in range(partitions_needed):
            end = self._end_offset(Partition(topic, number))
            if end is None:
                raise ImportFailed(
                    f"topic {topic} has fewer partitions than the files, {partitions_needed}: add"
                    " partitions (kafka-topics.sh --alter) and import again"
                )
            if end > 0:
                raise ImportFailed(
                    f"topic {topic} has records already: delete it (kafka-topics.sh --delete"
                    f" --topic {topic}) and import again, or import into another broker"
                )

    def _end_offset(self, partition: Partition) -> int | None:
        """Return the end offset of a partition, None if the partition does not exist."""
        asked = {"partition_index": partition.number, "timestamp": _LATEST}
        body = {
            "replica_id": -1,
            "topics": [{"name": partition.topic, "partitions": [asked]}],
        }

        def ask() -> tuple[int, int]:
            found = self.client.request("ListOffsets", 5, body)["topics"][0]["partitions"][0]
            return found["error_code"], found["offset"]

        error, end = with_retries(ask)
        if error.name in _ABSENT:
            return None
        if error.code:
            raise ImportFailed(
                f"{partition.topic}-{partition.number}: its end offset cannot be read:"
                f" {error.message}. Correct that and import again"
            )
        return end

    def alter(self, topic: str, name: str, value: str) -> None:
        """Change a setting of a topic; report it if the broker refuses that."""
        if self.is_dry_run:
            return
        change = {"name": name, "config_operation": _SET, "value": value}
        resource = {"resource_type": _TOPIC, "resource_name": topic, "configs": [change]}
        body = {"resources": [resource], "validate_only": False}
        [answer] = self.client.request("IncrementalAlterConfigs", 1, body)["responses"]
        if answer["error_code"]:
            self._report.add_problem(
                f"topic {topic} cannot have {name}={value}: {answer['error_message']}. Correct that"
                " and set it with kafka-configs.sh"
            )

    # ---- records ---------------------------------------------------------------------------------

    def write_all(
        self, partition: Partition, records: Iterable[ImportedRecord | Damage]
    ) -> OffsetMap:
        """Write the records of a partition, in order and without records of others in between."""
        offset_map = self._report.maps[partition] = OffsetMap()
        batch: list[ImportedRecord] = []
        size = 0
        for each in records:
            if isinstance(each, Damage):
                self._report.add_damage(each)
                continue
            batch.append(each)
            size += each.size
            if size >= limits.IMPORT_BATCH_BYTES or len(batch) >= limits.IMPORT_BATCH_RECORDS:
                self._write(partition, batch, size, offset_map)
                batch, size = [], 0
        if batch:
            self._write(partition, batch, size, offset_map)
        self.tell_end(partition)
        return offset_map

    def tell_end(self, partition: Partition) -> None:
        """Print how many records a partition has got."""
        count = self._report.maps[partition].count
        self._report.progress(f"{partition.topic}-{partition.number}: {count} records")

    def check_retention(self) -> None:
        """Report records that retention will delete soon, because they keep their timestamps."""
        for topic, oldest_ms in self._oldest_ms.items():
            self._check_retention(topic, oldest_ms)

    def _check_retention(self, topic: str, oldest_ms: int) -> None:
        configs = self._configs(topic, "cleanup.policy", "retention.ms")
        retention_ms = int(configs["retention.ms"])
        if "delete" not in configs["cleanup.policy"] or retention_ms < 0:
            return
        age_ms = self._clock.wall_ms() - oldest_ms
        if age_ms > retention_ms:
            self._report.add_problem(
                f"topic {topic} deletes records after {retention_ms} ms (retention.ms); its oldest"
                f" are {age_ms} ms old and will be deleted within minutes. To keep them run"
                f" kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config"
                f" retention.ms=-1; if they are deleted already, delete topic {topic}, create it"
                " with that setting and import again"
            )

    def _configs(self, topic: str, *names: str) -> dict[str, str]:
        resource = {
            "resource_type": _TOPIC,
            "resource_name": topic,
            "configuration_keys": list(names),
        }
        body = {"resources": [resource], "include_synonyms": False}
        [found] = self.client.request("DescribeConfigs", 1, body)["results"]
        error = codec.error_of(found["error_code"])
        if error.code:
            raise ImportFailed(
                f"the settings of topic {topic} cannot be read: {error.message}. Correct that,"
                f" delete topic {topic} and import again"
            )
        return {each["name"]: each["value"] for each in found["configs"]}

    def _write(
        self, partition: Partition, batch: list[ImportedRecord], size: int, offset_map: OffsetMap
    ) -> None:
        if not self.is_dry_run:
            self._produce_all(partition, batch, size, offset_map)
        for each in batch:
            self.note(partition, offset_map, each.offset)

    def _produce_all(
        self, partition: Partition, batch: list[ImportedRecord], size: int, offset_map: OffsetMap
    ) -> None:
        rows = [(each.key, each.value, each.headers, each.timestamp_ms) for each in batch]
        bytes_max = 2 * size + _BATCH_OVERHEAD_BYTES + _ROW_BYTES_MAX * len(batch)
        [encoded] = codec.encode(rows, batch_bytes_max=bytes_max)
        base_offset = self._produce(partition, encoded, batch[0].offset)
        oldest_ms = min(each.timestamp_ms for each in batch)
        known_ms = self._oldest_ms.get(partition.topic, oldest_ms)
        self._oldest_ms[partition.topic] = min(known_ms, oldest_ms)
        if base_offset != offset_map.count:
            raise another_writer(partition)

    def note(self, partition: Partition, offset_map: OffsetMap, offset: int) -> None:
        """Note the original offset of the next record."""
        if not offset_map.add(offset):
            self._report.add_problem(
                f"{partition.topic}-{partition.number}: offset {offset} occurs again or"
                f" out of order; its record has offset {offset_map.count - 1} here"
            )
        if offset_map.count % _PROGRESS_RECORDS == 0:
            self._report.progress(
                f"{partition.topic}-{partition.number}: {offset_map.count} records so far"
            )

    def _produce(self, partition: Partition, batch: bytes, first_offset: int) -> int:
        """Write a batch and return the offset of its first record."""
        data = {"index": partition.number, "records": batch}
        topic = {"name": partition.topic, "partition_data": [data]}
        body = {"acks": _ALL_ACKS, "timeout_ms": _TIMEOUT_MS, "topic_data": [topic]}
        answer = self.client.request("Produce", 9, body)
        [found] = answer["responses"][0]["partition_responses"]
        error = codec.error_of(found["error_code"])
        if error.code:
            raise ImportFailed(
                f"{partition.topic}-{partition.number}: the broker refuses the records from offset"
                f" {first_offset}: {error.name}: {error.message}. Correct that, delete topic"
                f" {partition.topic} and import again"
            )
        base_offset: int = found["base_offset"]
        return base_offset


def another_writer(partition: Partition) -> ImportFailed:
    """Return the error of records that do not get the next offsets."""
    return ImportFailed(
        f"{partition.topic}-{partition.number}: another client writes to it. Stop that"
        f" client, delete topic {partition.topic} and import again"
    )


def with_retries(ask: Callable[[], tuple[int, _AnswerT]]) -> tuple[codec.KafkaError, _AnswerT]:
    """Call `ask` again after retriable errors, except for a partition that does not exist."""
    tries_left = _TRIES
    while True:
        code, answer = ask()
        error = codec.error_of(code)
        tries_left -= 1
        if error.name in _ABSENT or not error.is_retriable or not tries_left:
            return error, answer
        time.sleep(limits.CLIENT_RETRY_SECONDS)


_ABSENT: Final = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, ErrorCode.INVALID_TOPIC_EXCEPTION.name)
)
_ROW_BYTES_MAX: Final = 64  # of a record beside its key, value and headers

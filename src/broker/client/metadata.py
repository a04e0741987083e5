"""Topics, their ids and partitions, and the leaders of partitions."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from broker.client.connection import CLIENT_ID
from broker.client.pool import POOL, Pool
from broker.client.retry import check, with_retries
from broker.codec import Fields
from broker.model.address import Address
from broker.model.errors import ErrorCode, RequestError, Unreachable
from broker.model.limits import CLIENT_GIVE_UP_SECONDS

_METADATA_VERSIONS = range(4, 14)  # since 4 a client can prevent that topics are created
_NO_ID = bytes(16)


class Topic(NamedTuple):
    """The metadata of a topic.

    topic_id is 32 hexadecimal digits, empty if the broker has no ids (before Kafka 2.8).
    partitions are their numbers, ascending.
    """

    name: str
    topic_id: str
    partitions: tuple[int, ...]
    is_internal: bool


class Cluster:
    """A Kafka cluster, found by any of its bootstrap addresses.

    The leaders of partitions are cached until `forget_leaders`.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str = CLIENT_ID,
        give_up_seconds: float = CLIENT_GIVE_UP_SECONDS,
        pool: Pool = POOL,
    ) -> None:
        """Keep the addresses without connecting."""
        self.bootstrap = tuple(bootstrap)
        self.client_id = client_id
        self.give_up_seconds = give_up_seconds
        self._pool = pool
        self._leaders: dict[tuple[str, int], Address] = {}

    def __str__(self) -> str:
        """Return the addresses in the format of bootstrap.servers."""
        return ",".join(map(str, self.bootstrap))

    def ask(
        self, address: Address, api: str, known: range, body: Fields, *, as_views: bool = False
    ) -> Fields:
        """Send a request to one broker, in the newest version that it and the caller support.

        Raises:
            PeerError, Unreachable: see Client.version, Client.request and Pool.lease.
        """
        with self._pool.lease(address, self.client_id) as client:
            return client.request(api, client.version(api, known), body, as_views=as_views)

    def topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Describe topics by name.

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, whose message names all unknown topics; or
                another error of the broker.
            Unreachable: none of the addresses responds.
        """
        found = self._metadata(sorted(names))
        unknown = [each["name"] for each in found if each["error_code"] == _UNKNOWN_TOPIC]
        if unknown:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{self}: there is no topic named {', '.join(map(repr, sorted(unknown)))}",
            )
        return {each["name"]: _topic(each) for each in found}

    def existing_topics(self, names: Collection[str] | None = None) -> dict[str, Topic]:
        """Describe all topics, or those of `names` that exist.

        Raises:
            RequestError, Unreachable: as `topics`.
        """
        found = self._metadata(None if names is None else sorted(names))
        return {each["name"]: _topic(each) for each in found if not each["error_code"]}

    def leader(self, topic: str, partition: int) -> Address:
        """Return the address of the broker that leads a partition.

        Raises:
            RequestError: the partition does not exist, or it has no leader.
            Unreachable: none of the addresses responds.
        """
        found = self._leaders.get((topic, partition))
        if found is None:
            self.topics([topic])
            found = self._leaders.get((topic, partition))
        if found is None:
            raise RequestError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"{self}: no broker leads partition {partition} of {topic!r}",
            )
        return found

    def forget_leaders(self, topic: str) -> None:
        """Drop the cached leaders of a topic, and idle connections to them.

        Called after an error: leaders may have moved or stopped.
        """
        for key in [each for each in self._leaders if each[0] == topic]:
            self._pool.close(self._leaders.pop(key))

    def ask_any(self, api: str, known: range, body: Fields) -> tuple[Address, Fields]:
        """Send a request to the first broker that responds; return its address, too.

        Raises:
            Unreachable: none of the addresses responds.
        """
        failures: list[Unreachable] = []
        for address in self.bootstrap:
            try:
                return address, self.ask(address, api, known, body)
            except Unreachable as error:
                self._pool.close(address)
                failures.append(error)
        raise _of_all(failures)

    def _metadata(self, names: list[str] | None) -> list[Fields]:
        def ask() -> list[Fields]:
            wanted = None if names is None else [{"name": each} for each in names]
            body: Fields = {"topics": wanted, "allow_auto_topic_creation": False}
            address, answer = self.ask_any("Metadata", _METADATA_VERSIONS, body)
            check(answer["error_code"], f"Metadata of {address}")
            for each in answer["topics"]:
                if each["error_code"] != _UNKNOWN_TOPIC:
                    check(each["error_code"], f"{address}: topic {each['name']!r}")
            self._cache_leaders(answer)
            found: list[Fields] = answer["topics"]
            return found

        return with_retries(ask, give_up_seconds=self.give_up_seconds)

    def _cache_leaders(self, answer: Fields) -> None:
        brokers = {
            each["node_id"]: Address(each["host"], each["port"]) for each in answer["brokers"]
        }
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                key = topic["name"], each["partition_index"]
                if each["leader_id"] in brokers:
                    self._leaders[key] = brokers[each["leader_id"]]
                else:
                    self._leaders.pop(key, None)


def by_leader(
    cluster: Cluster, partitions: Collection[tuple[str, int]]
) -> Iterator[tuple[Address, list[tuple[str, int]]]]:
    """Group partitions by the address of their leader."""
    groups: dict[Address, list[tuple[str, int]]] = {}
    for topic, partition in partitions:
        groups.setdefault(cluster.leader(topic, partition), []).append((topic, partition))
    yield from groups.items()


_UNKNOWN_TOPIC = 3


def _topic(found: Fields) -> Topic:
    topic_id: bytes = found["topic_id"]
    return Topic(
        found["name"],
        "" if topic_id == _NO_ID else topic_id.hex(),
        tuple(sorted(each["partition_index"] for each in found["partitions"])),
        found["is_internal"],
    )


def _of_all(failures: list[Unreachable]) -> Unreachable:
    if len(failures) == 1:
        return failures[0]
    return Unreachable("; ".join(map(str, failures)) or "no broker address given: name one")

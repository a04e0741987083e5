"""Topics, their ids and partitions, and requests to brokers and to the leaders of partitions."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from broker.client.connection import CLIENT_ID, Api, RequestT, ResponseT
from broker.client.pool import POOL, Pool
from broker.client.retry import check, with_retries
from broker.model.address import Address
from broker.model.errors import ErrorCode, RequestError, Unreachable
from broker.model.limits import CLIENT_GIVE_UP_SECONDS

if TYPE_CHECKING:
    from ssl import SSLContext

    from broker.client.security import SecuritySettings
    from broker.codec import bodies

Partition = tuple[str, int]  # topic and number
_AnswerT = TypeVar("_AnswerT")

# Since version 4 a client can prevent that topics are created.
_METADATA: "Api[bodies.MetadataRequest, bodies.MetadataResponse]" = Api("Metadata", range(4, 14))
_API_VERSIONS: "Api[bodies.ApiVersionsRequest, bodies.ApiVersionsResponse]" = Api(
    "ApiVersions", range(1)
)
_NO_ID = bytes(16)
_UNKNOWN_TOPIC = 3
# A leader answers with these if a topic was deleted, and if it does not know a new topic yet.
GONE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


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

    The leaders of partitions are cached until a request to one of them fails.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str = CLIENT_ID,
        give_up_seconds: float = CLIENT_GIVE_UP_SECONDS,
        answer_seconds: float | None = None,
        pool: Pool = POOL,
        security: "SecuritySettings | None" = None,
    ) -> None:
        """Keep the addresses; nothing is connected yet.

        Args:
            bootstrap: the addresses.
            client_id: as of Client.
            give_up_seconds: after this time a request that fails is not repeated.
            answer_seconds: how long an answer is waited for; CLIENT_TIMEOUT_SECONDS if None.
            pool: where idle connections are kept.
            security: TLS and the login of all connections; None: neither.
        """
        self.bootstrap = tuple(bootstrap)
        self.client_id = client_id
        self.give_up_seconds = give_up_seconds
        self._security = security
        self._answer_seconds = answer_seconds
        self._pool = pool
        self._leaders: dict[tuple[str, int], Address] = {}

    def __str__(self) -> str:
        """Return the addresses in the format of bootstrap.servers."""
        return ",".join(map(str, self.bootstrap))

    def close(self) -> None:
        """Close its idle connections, and those of others with the same pool."""
        self._pool.close()

    @property
    def tls(self) -> "SSLContext | None":
        """The context of its connections with TLS; None: they are without."""
        return None if self._security is None else self._security.secured().tls

    @property
    def password(self) -> tuple[str, str] | None:
        """The name and password that its connections send as they are (PLAIN); None: they do not.

        Other mechanisms send no password, so nobody else may be given it either.
        """
        found = None if self._security is None else self._security.secured().credentials
        if found is None or found.mechanism != "PLAIN":
            return None
        return found.user, found.password

    def check_reachable(self) -> Address:
        """Return the first of the addresses that answers, without retries.

        Raises:
            Unreachable: none does.
            AccessDenied: the login is refused.
        """
        body: bodies.ApiVersionsRequest = {}
        address, _ = self.ask_any(_API_VERSIONS, body)
        return address

    def topics(
        self, names: Collection[str], ids: Mapping[str, str] | None = None
    ) -> dict[str, Topic]:
        """Describe topics by name; those in `ids` must have these ids, if both are known.

        Raises:
            RequestError: UNKNOWN_TOPIC_OR_PARTITION, whose message names all unknown topics;
                UNKNOWN_TOPIC_ID, a topic was created again; or another error of the broker.
            Unreachable: none of the addresses responds.
        """
        found = self.metadata(names)["topics"]
        unknown = [repr(each["name"]) for each in found if each["error_code"] == _UNKNOWN_TOPIC]
        if unknown:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{self}: there is no topic named {', '.join(sorted(unknown))}",
            )
        topics = {each.name: each for each in map(_topic, found)}
        for name, topic_id in (ids or {}).items():
            now = topics[name].topic_id
            if topic_id and now and now != topic_id:
                raise RequestError(
                    ErrorCode.UNKNOWN_TOPIC_ID,
                    f"{self}: topic {name!r} was deleted and created again: its id was {topic_id},"
                    f" now it is {now}",
                )
        return topics

    def existing_topics(self, names: Collection[str] | None = None) -> dict[str, Topic]:
        """Describe all topics, or those of `names` that exist.

        Raises:
            RequestError, Unreachable: as `topics`.
        """
        found = [each for each in self.metadata(names)["topics"] if not each["error_code"]]
        return {each.name: each for each in map(_topic, found)}

    def metadata(self, names: Collection[str] | None) -> "bodies.MetadataResponse":
        """Return the brokers, and all topics or those of `names`; keep the leaders.

        Raises:
            RequestError: an error of the broker or of a topic, except that it is unknown.
            Unreachable: none of the addresses responds.
        """
        body: bodies.MetadataRequest = {
            "topics": None if names is None else [{"name": each} for each in sorted(names)],
            "allow_auto_topic_creation": False,
        }

        def ask() -> "bodies.MetadataResponse":
            address, answer = self.ask_any(_METADATA, body)
            check(answer["error_code"], f"Metadata of {address}")
            for each in answer["topics"]:
                if each["error_code"] != _UNKNOWN_TOPIC:
                    check(each["error_code"], f"{address}: topic {each['name']!r}")
            return answer

        answer = self.retried(ask)
        brokers = {
            each["node_id"]: Address(each["host"], each["port"]) for each in answer["brokers"]
        }
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                key = topic["name"] or "", each["partition_index"]
                if each["leader_id"] in brokers:
                    self._leaders[key] = brokers[each["leader_id"]]
                else:
                    self._leaders.pop(key, None)
        return answer

    def ask_leaders(
        self,
        partitions: Collection[Partition],
        api: Api[RequestT, ResponseT],
        body: Callable[[list[Partition]], RequestT],
        read: Callable[[Address, ResponseT], _AnswerT],
        *,
        topic_ids: Mapping[str, str] | None = None,
    ) -> list[_AnswerT]:
        """Send a request to each leader of partitions; retry after errors.

        Before each retry the leaders are looked up again, because they may have moved or stopped.

        Args:
            partitions: all partitions; read again for each retry.
            api: the request.
            body: returns the request to the leader of the given partitions.
            read: returns the result of a response; raises RequestError if it has an error.
            topic_ids: the ids of the topics, as in Topic. With them, the error for a topic that
                was deleted, or deleted and created again, is raised without retries; without them,
                the topic may be created yet.

        Raises:
            RequestError: of `read`; or a partition does not exist, or has no leader; or, with
                `topic_ids`, UNKNOWN_TOPIC_OR_PARTITION or UNKNOWN_TOPIC_ID.
            Unreachable: a leader does not respond; or none of the addresses does.
        """

        def once() -> list[_AnswerT]:
            groups = self._by_leader(partitions, topic_ids)
            try:
                return [
                    read(address, self.ask(address, api, body(each)))
                    for address, each in groups.items()
                ]
            except (RequestError, Unreachable) as error:
                topics = {topic for topic, _ in partitions}
                for key in [each for each in self._leaders if each[0] in topics]:
                    self._pool.close(self._leaders.pop(key))
                if not topic_ids or not isinstance(error, RequestError) or error.code not in GONE:
                    raise
                self.topics(topic_ids, topic_ids)
                raise RequestError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{error}, although the topic exists"
                ) from error

        return self.retried(once, final=GONE if topic_ids else frozenset())

    def _by_leader(
        self, partitions: Collection[Partition], topic_ids: Mapping[str, str] | None
    ) -> dict[Address, list[Partition]]:
        """Group partitions by the address of their leader."""
        if not self._leaders.keys() >= set(partitions):
            self.topics({topic for topic, _ in partitions}, topic_ids)
        groups: dict[Address, list[Partition]] = {}
        for topic, partition in partitions:
            address = self._leaders.get((topic, partition))
            if address is None:
                raise RequestError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"{self}: no broker leads partition {partition} of {topic!r}",
                )
            groups.setdefault(address, []).append((topic, partition))
        return groups

    def retried(
        self, ask: Callable[[], _AnswerT], *, final: frozenset[ErrorCode] = frozenset()
    ) -> _AnswerT:
        """Return the result of `ask`, repeated for `give_up_seconds`; see with_retries."""
        return with_retries(ask, give_up_seconds=self.give_up_seconds, final=final)

    def ask_any(self, api: Api[RequestT, ResponseT], body: RequestT) -> tuple[Address, ResponseT]:
        """Send a request to the first broker that responds; return its address, too.

        Raises:
            Unreachable: none of the addresses responds.
        """
        failures: list[Unreachable] = []
        for address in self.bootstrap:
            try:
                return address, self.ask(address, api, body)
            except Unreachable as error:
                self._pool.close(address)
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise Unreachable("; ".join(map(str, failures)) or "no broker address given: name one")

    def ask(self, address: Address, api: Api[RequestT, ResponseT], body: RequestT) -> ResponseT:
        """Send a request to one broker, in the newest version that it and the caller support.

        Raises:
            PeerError, Unreachable: see Client.version, Client.request and Pool.lease.
        """
        with self._pool.lease(
            address, self.client_id, self._security, self._answer_seconds
        ) as client:
            version = client.version(api.name, api.versions)
            answer = client.request(api.name, version, body, as_views=api.as_views)
        return cast("ResponseT", answer)


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Group the numbers of partitions by topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def _topic(found: "bodies.MetadataResponseTopic") -> Topic:
    topic_id = found["topic_id"]
    return Topic(
        found["name"] or "",
        "" if topic_id == _NO_ID else topic_id.hex(),
        tuple(sorted(each["partition_index"] for each in found["partitions"])),
        found["is_internal"],
    )

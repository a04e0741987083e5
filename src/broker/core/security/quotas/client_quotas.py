"""The quotas of clients: from the metadata store to native code and the handlers.

    Alter ──> metadata store ──> image, on every broker ──> table ──> epoch + 1
                                                                          │
    a connection's next request ──> `find` ──> ClientQuota, with its buckets

Native code asks `find` when a connection has another client id than before, or the epoch is another
one; in between it only compares. While there are no quotas of clients, it does not even do that.
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from broker._native.wire.quota import ClientQuota, QuotaBucket
from broker.core.cluster import security_entries
from broker.core.cluster.security_entries import Kind
from broker.core.metadata import Metadata, change
from broker.core.scheduling.tasks import Tasks
from broker.core.security.quotas.buckets import Buckets
from broker.core.security.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Changes,
    Entity,
    Values,
    from_json,
    parse_entity,
    to_json,
)
from broker.core.security.quotas.mutations import MutationBucket
from broker.core.security.quotas.table import Match, QuotaTable, matches
from broker.core.security.quotas.windows import Windows
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CHANGE_ATTEMPTS
from broker.model.listener import ListenerConfig
from broker.model.principal import ANONYMOUS, Principal
from broker.model.security_limits import QUOTA_NAME_BYTES_KEPT

_log = logging.getLogger(__name__)

_BucketT = TypeVar("_BucketT", QuotaBucket, MutationBucket)
_NEVER_CURRENT = 0  # an epoch that the quotas never have


class Limited(Protocol):
    """What quotas need of a session."""

    principal: Principal
    listener: ListenerConfig
    is_forwarded: bool
    quota: ClientQuota | None


Find: TypeAlias = Callable[[Limited, bytes | None], ClientQuota]
# Has native code call `find` for each new client id, from an epoch on; None: there is no quota.
LimitClients: TypeAlias = Callable[[Find | None, int], None]


class ClientQuotas:
    """The quotas in force, and what the clients have used of them."""

    def __init__(
        self,
        known: Metadata,
        windows: Windows,
        mutation_windows: Windows,
        now_ms: Callable[[], int],
    ) -> None:
        """Read what is stored; from here on, the image tells each change."""
        self._metadata = known
        self._now_ms = now_ms
        self._tasks = Tasks()
        self._table = QuotaTable()
        self._epoch = _NEVER_CURRENT
        self._limit_clients: LimitClients | None = None
        of_rates = windows.buckets_max, windows.total_ms
        self._writes = Buckets(windows.bucket, *of_rates)
        self._reads = Buckets(windows.bucket, *of_rates)
        self._time = Buckets(windows.forgiving_bucket, *of_rates)  # as in Kafka
        self._mutations = Buckets(
            partial(MutationBucket, mutation_windows),
            mutation_windows.buckets_max,
            mutation_windows.total_ms,
        )
        self._clients = 0  # entities that are no addresses
        entries = known.image.security
        for name, stored in entries.entries(Kind.QUOTA).items():
            self._take(name, stored)
        entries.watch(Kind.QUOTA, self._changed)
        self._apply()

    def limit(self, limit_clients: LimitClients) -> None:
        """Have native code ask this object from now on."""
        self._limit_clients = limit_clients
        self._apply()

    # ---- for each request -----------------------------------------------------------------------

    @property
    def is_limiting(self) -> bool:
        """Whether any client has a quota."""
        return self._clients > 0

    def find(self, session: Limited, client_id: bytes | None) -> ClientQuota:
        """Return what limits the requests of a session with a client id."""
        epoch = self._epoch
        if session.principal == ANONYMOUS and session.listener.security.has_sasl:
            epoch = _NEVER_CURRENT  # it has not logged in yet
        name = (client_id or b"").decode("utf-8", "replace")
        if session.is_forwarded:  # its requests are of other brokers, on behalf of their clients
            found = ClientQuota(client_id, epoch)
        else:
            found = self._quota(session.principal.name, name, client_id, epoch)
        session.quota = found
        return found

    def _quota(self, user: str, name: str, client_id: bytes | None, epoch: int) -> ClientQuota:
        return ClientQuota(
            client_id,
            epoch,
            writes=self._bucket(self._writes, PRODUCER_BYTE_RATE, user, name),
            reads=self._bucket(self._reads, CONSUMER_BYTE_RATE, user, name),
            time=self._bucket(self._time, REQUEST_PERCENTAGE, user, name),
            mutations=self._bucket(self._mutations, CONTROLLER_MUTATION_RATE, user, name),
        )

    def _bucket(
        self, buckets: Buckets[_BucketT], key: str, user: str, client_id: str
    ) -> _BucketT | None:
        limit = self._table.limit_of_client(key, user, client_id)
        if limit is None:
            return None
        owner = _kept(limit.user), _kept(limit.client_id)
        return buckets.of(owner, limit.bound, self._now_ms())

    def connection_rate(self, address: str) -> float | None:
        """Return how many connections an address may make per second; None: any number."""
        return self._table.limit_of_address(CONNECTION_CREATION_RATE, address)

    # ---- describing and altering ----------------------------------------------------------------

    def described(
        self, wanted: list[Match], *, is_strict: bool
    ) -> Iterator[tuple[Entity, Values] | None]:
        """Return each entity that a filter matches; None for each one that it does not."""
        for entity, values in list(self._table):
            yield (entity, values) if matches(entity, wanted, is_strict=is_strict) else None

    async def alter(self, alterations: Mapping[Entity, Changes]) -> None:
        """Alter the quotas of some entities, all or none: durable and in force at return.

        The changes have been checked (`check_changes`). Raises RequestError.
        """
        await self._tasks.run_to_completion(self._alter(alterations))

    async def _alter(self, alterations: Mapping[Entity, Changes]) -> None:
        for _ in range(CHANGE_ATTEMPTS):
            if await self._try(alterations):
                return
        text = "another broker has changed them meanwhile: try again"
        raise RequestError(ErrorCode.REQUEST_TIMED_OUT, text)

    async def _try(self, alterations: Mapping[Entity, Changes]) -> bool:
        """Change what is stored; return whether nobody else has meanwhile."""
        entries = self._metadata.image.security
        altered = {
            str(entity): after
            for entity, changes in alterations.items()
            if (after := self._after(entity, changes)) != self._table.of(entity)
        }
        if not altered:
            return True
        stored = entries.entries(Kind.QUOTA)
        added = [name for name, after in altered.items() if after and name not in stored]
        entries.check_room(Kind.QUOTA, len(added))
        operations = [
            security_entries.put(Kind.QUOTA, name, to_json(after))
            if after
            else security_entries.delete(Kind.QUOTA, name)
            for name, after in altered.items()
        ]
        guards = [entries.guard(Kind.QUOTA, name) for name in altered]
        if await change(self._metadata, guards, operations) is None:
            return False
        for name, after in altered.items():
            _log.info("quotas altered: entity=%.200s values=%s", name, after)
        return True

    def _after(self, entity: Entity, changes: Changes) -> dict[str, float]:
        merged = {**self._table.of(entity), **changes}
        return {key: value for key, value in merged.items() if value is not None}

    # ---- from the metadata store ----------------------------------------------------------------

    def _changed(self, _kind: Kind, name: str, stored: bytes | None) -> None:
        self._take(name, stored)
        self._apply()

    def _take(self, name: str, stored: bytes | None) -> None:
        try:
            entity = parse_entity(name)
            values = {} if stored is None else from_json(stored)
        except (RequestError, ValueError) as error:
            _log.error("a stored quota is not in force: entity=%.200s error=%s", name, error)
            return
        self._clients += _is_of_clients(entity) * (bool(values) - bool(self._table.of(entity)))
        self._table.set(entity, values)

    def _apply(self) -> None:
        self._epoch += 1
        if self._limit_clients is not None:
            self._limit_clients(self.find if self.is_limiting else None, self._epoch)


def _is_of_clients(entity: Entity) -> bool:
    return entity.ip is None


def _kept(name: str | None) -> Hashable:
    """Return a name as the key of a bucket: the digest of one that takes much memory."""
    encoded = (name or "").encode("utf-8", "replace")
    if len(encoded) <= QUOTA_NAME_BYTES_KEPT:
        return name
    from hashlib import blake2b  # noqa: PLC0415 - loads OpenSSL, rarely needed

    return blake2b(encoded).digest()

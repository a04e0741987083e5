"""Keys, transactions and watches of etcd, as the metadata store's interface has them.

A broker's keys begin with the prefix of its cluster, which callers do not see. A watch is gap-free:
it goes on at the revision after the last change that it has yielded, at whatever endpoint.

An etcd that was restored from a backup, or has lost its data, goes on at a lower revision, and a
watch from a revision that it has not reached waits without an error. So the revision of each answer
that has to be the newest is compared with those seen before.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

from broker.model.clock import monotonic
from broker.model.identifiers import random_id
from broker.model.limits import METADATA_CALL_SECONDS
from broker.storage.metadata import (
    Absent,
    Changes,
    Compacted,
    CreatedAt,
    Event,
    Guard,
    KeyValue,
    Operation,
    OutcomeUnknown,
    Put,
    StoreReplaced,
    Unavailable,
    Unchanged,
    check_operations,
    prefix_end,
    store_limits,
)
from broker.storage.metadata.etcd.gateway import EtcdError, Gateway
from broker.storage.metadata.renewed_lease import RenewedLease

# Codes of gRPC.
_UNKNOWN = 2
_NOT_FOUND = 5
_PERMISSION_DENIED = 7
_RESOURCE_EXHAUSTED = 8
_OUT_OF_RANGE = 11  # the revision of a read is compacted
_HOW_TO_GET_SPACE = (
    "its quota is reached; compact and defragment it, or raise --quota-backend-bytes, and disarm"
    " the alarm (etcdctl alarm disarm)"
)


class EtcdMetaStore:
    """The keys below one prefix."""

    def __init__(self, gateway: Gateway, prefix: bytes) -> None:
        """Use a gateway, which `close` closes."""
        self._gateway = gateway
        self._prefix = prefix
        self._leases: list[RenewedLease] = []
        self._seen = 0  # the highest revision of an answer or an event

    async def get(self, key: bytes) -> KeyValue | None:
        """Return the key, or None; the read is linearizable."""
        answer, _ = await self._newest("kv/range", {"key": _base64(self._prefix + key)})
        with _parsing():
            found = answer.get("kvs", [])
            return self._key_value(found[0]) if found else None

    async def scan(self, prefix: bytes) -> tuple[list[KeyValue], int]:
        """Return all keys that begin with prefix, in order, and the revision of the read.

        It is read in pages at the revision of the first, so that no answer exceeds etcd's limits.
        """
        while True:
            try:
                return await self._scan(self._prefix + prefix)
            except EtcdError as error:
                if error.code != _OUT_OF_RANGE:  # compacted between two pages: read anew
                    raise

    async def _scan(self, first: bytes) -> tuple[list[KeyValue], int]:
        end = _base64(prefix_end(first) or b"\0")  # to etcd, a zero byte is the end of all keys
        found: list[KeyValue] = []
        revision = 0
        while True:
            body = {
                "key": _base64(first),
                "range_end": end,
                "limit": str(store_limits.ETCD_KEYS_PER_PAGE),
                "revision": str(revision),
            }
            answer, newest = await self._newest("kv/range", body)
            revision = revision or newest
            with _parsing():
                page = answer.get("kvs", [])
                found += map(self._key_value, page)
                if not answer.get("more"):
                    return found, revision
                first = base64.b64decode(page[-1]["key"]) + b"\0"

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        """Apply the operations if every guard holds; return the new revision, or None.

        Raises:
            OutcomeUnknown: the answer was lost; the caller reads what is there now.
            ValueError: check_operations refuses the operations.
        """
        check_operations(operations)
        body = {
            "compare": [self._comparison(guard) for guard in guards],
            "success": [self._operation(operation) for operation in operations],
        }
        answer, revision = await self._newest("kv/txn", body, changes=True)
        return revision if answer.get("succeeded") else None

    async def watch(self, prefix: bytes, from_revision: int) -> AsyncGenerator[Changes, None]:
        """Yield all changes of keys that begin with prefix, from a revision on, in order.

        One answer of etcd is one Changes, so its revisions are complete. It may have many after the
        watch was away.

        Raises:
            Compacted: changes from that revision on are no longer all known; scan again.
            EtcdError: this user may not read those keys.
            StoreReplaced: the store has not reached the revision before.
        """
        first = self._prefix + prefix
        keys = {"key": _base64(first), "range_end": _base64(prefix_end(first) or b"\0")}
        revision = from_revision
        refusals = 0
        while not self._gateway.is_closed:
            # etcd accepts a watch from the revision of a compaction, although it has removed the
            # deletions of that revision (seen with 3.4): so it is asked for one revision more.
            start = {"start_revision": str(max(1, revision - 1))}
            if not await self._has_reached(revision - 1, first):
                await asyncio.sleep(store_limits.ETCD_ATTEMPT_SECONDS / 10)
                continue
            stream = self._gateway.stream(
                "watch",
                {"create_request": {**keys, **start}},
                silence_seconds=store_limits.ETCD_WATCH_SILENCE_SECONDS,
            )
            is_answered = False
            async with aclosing(stream):
                async for result in stream:
                    if result.get("canceled"):
                        refusals += 1
                        self._check_cancellation(result, refusals)
                        break
                    is_answered, refusals = True, 0
                    events = self._events(result, revision)
                    if events:
                        revision = events[-1].revision + 1
                        self._seen = max(self._seen, revision - 1)
                        yield Changes(events[-1].revision, events)
            if not is_answered and not self._gateway.is_closed:
                await asyncio.sleep(store_limits.ETCD_ATTEMPT_SECONDS / 10)

    async def lease(self, seconds: int) -> RenewedLease:
        """Return a new lease, which is renewed until it is revoked or lost.

        etcd may expire it later: the shortest time to live depends on its election timeout.
        """
        lease_id = int.from_bytes(random_id()[:8], "big") >> 1 or 1
        begun = monotonic()
        # With an id of ours a repeated request cannot make a second lease.
        body = {"TTL": str(seconds), "ID": str(lease_id)}
        try:
            answer = await self._call("lease/grant", body)
        except EtcdError as error:
            if "already exists" not in str(error):
                raise
            answer = {"TTL": seconds}
        with _parsing():
            granted = min(int(answer["TTL"]), seconds)

        async def renew(within: float) -> float:
            body = {"ID": str(lease_id)}
            # Repeating a renewal harms nothing.
            answer = await self._gateway.call(
                "lease/keepalive", body, seconds=within, changes=False
            )
            with _parsing():
                return float(answer["result"].get("TTL", 0))

        async def end() -> None:
            try:
                await self._call("lease/revoke", {"ID": str(lease_id)})
            except EtcdError as error:
                if error.code != _NOT_FOUND:  # an earlier attempt's answer was lost
                    raise

        lease = RenewedLease(lease_id, granted, begun + granted, renew=renew, end=end)
        self._leases = [each for each in self._leases if not each.lost.is_set()]
        self._leases.append(lease)
        return lease

    async def close(self) -> None:
        """Stop renewing leases and close all connections; watches end."""
        for lease in self._leases:
            await lease.abandon()
        await self._gateway.close()

    async def _has_reached(self, revision: int, key: bytes) -> bool:
        """Ask the store for its revision; return whether it has answered.

        StoreReplaced when that is below one that the caller has seen.
        """
        self._seen = max(self._seen, revision)
        try:
            await self._newest("kv/range", {"key": _base64(key), "count_only": True})
        except Unavailable:
            return False
        except EtcdError as error:
            raise EtcdError(f"cannot watch: {error}", error.code) from error
        return True

    def _events(self, result: dict[str, Any], revision: int) -> list[Event]:
        """Return the events of an answer from a revision on."""
        with _parsing():
            events = map(self._event, result.get("events", []))
            return [each for each in events if each.revision >= revision]

    def _check_cancellation(self, result: dict[str, Any], refusals: int) -> None:
        """Raise why etcd has ended a watch, unless it may accept the next one."""
        with _parsing():
            if (first_left := int(result.get("compact_revision", 0))) > 0:
                raise Compacted(first_left)
        # A token that etcd does not know is refused with the same text as one without the right.
        self._gateway.forget_token()
        if refusals > 1:
            reason = result.get("cancel_reason") or "etcd has ended the watch"
            raise EtcdError(f"cannot watch: {reason}", _PERMISSION_DENIED)

    async def _newest(
        self, path: str, body: dict[str, Any], *, changes: bool = False
    ) -> tuple[dict[str, Any], int]:
        """Return the answer to a linearizable request, and the store's revision.

        That is at least what was seen before the request was sent, or StoreReplaced is raised.
        """
        seen = self._seen
        answer = await self._call(path, body, changes=changes)
        try:
            revision = int(answer["header"]["revision"])
        except (KeyError, TypeError, ValueError) as error:
            text = f"not an answer of etcd: {error!r}"
            raise (OutcomeUnknown(text) if changes else EtcdError(text, _UNKNOWN)) from error
        if revision < seen:
            raise StoreReplaced(f"etcd is at revision {revision} and was at {seen} before")
        self._seen = max(self._seen, revision)
        return answer, revision

    async def _call(
        self, path: str, body: dict[str, Any], *, changes: bool = False
    ) -> dict[str, Any]:
        seconds = METADATA_CALL_SECONDS
        try:
            return await self._gateway.call(path, body, seconds=seconds, changes=changes)
        except EtcdError as error:
            if error.code == _RESOURCE_EXHAUSTED and "space" in str(error):
                raise EtcdError(f"{error}: {_HOW_TO_GET_SPACE}", error.code) from error
            raise

    def _key_value(self, fields: dict[str, Any]) -> KeyValue:
        return KeyValue(
            base64.b64decode(fields["key"])[len(self._prefix) :],
            base64.b64decode(fields.get("value", "")),
            int(fields.get("create_revision", 0)),
            int(fields["mod_revision"]),
        )

    def _event(self, fields: dict[str, Any]) -> Event:
        entry = self._key_value(fields["kv"])
        is_deletion = fields.get("type") == "DELETE"
        return Event(entry.key, None if is_deletion else entry, entry.mod_revision)

    def _comparison(self, guard: Guard) -> dict[str, str]:
        key = _base64(self._prefix + guard.key)
        match guard:
            case Absent():
                return {"key": key, "target": "CREATE", "create_revision": "0"}
            case Unchanged(_, revision):
                return {"key": key, "target": "MOD", "mod_revision": str(revision)}
            case CreatedAt(_, revision):
                return {"key": key, "target": "CREATE", "create_revision": str(revision)}

    def _operation(self, operation: Operation) -> dict[str, Any]:
        key = _base64(self._prefix + operation.key)
        if isinstance(operation, Put):
            put = {"key": key, "value": _base64(operation.value), "lease": str(operation.lease_id)}
            return {"request_put": put}
        return {"request_delete_range": {"key": key}}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@contextmanager
def _parsing() -> Iterator[None]:
    """Turn what is wrong with an answer into an error of the store."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise EtcdError(f"not an answer of etcd: {error!r}", _UNKNOWN) from error

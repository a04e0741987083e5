"""Keys, transactions and watches of etcd, as the metadata store's interface has them.

A broker's keys begin with the prefix of its cluster, which callers do not see. A watch is gap-free:
it goes on at the revision after the last change that it has yielded, at whatever endpoint.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from broker.model import limits
from broker.model.identifiers import random_id
from broker.storage.metadata import (
    Absent,
    Changes,
    Compacted,
    CreatedAt,
    Event,
    Guard,
    KeyValue,
    Operation,
    Put,
    Unchanged,
)
from broker.storage.metadata.etcd.gateway import EtcdError, Gateway
from broker.storage.metadata.etcd.lease import Lease

_OUT_OF_RANGE = 11  # gRPC: the revision of a read is compacted


class EtcdMetaStore:
    """The keys below one prefix."""

    def __init__(self, gateway: Gateway, prefix: bytes) -> None:
        """Use a gateway, which `close` closes."""
        self._gateway = gateway
        self._prefix = prefix
        self._leases: list[Lease] = []

    async def get(self, key: bytes) -> KeyValue | None:
        """Return the key, or None; the read is linearizable."""
        answer = await self._call("kv/range", {"key": _base64(self._prefix + key)})
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
        end = _end_of(first)
        found: list[KeyValue] = []
        revision = 0
        while True:
            body = {
                "key": _base64(first),
                "range_end": _base64(end),
                "limit": str(limits.ETCD_KEYS_PER_PAGE),
                "revision": str(revision),
            }
            answer = await self._call("kv/range", body)
            revision = revision or int(answer["header"]["revision"])
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
        """
        body = {
            "compare": [self._comparison(guard) for guard in guards],
            "success": [self._operation(operation) for operation in operations],
        }
        answer = await self._call("kv/txn", body, changes=True)
        return int(answer["header"]["revision"]) if answer.get("succeeded") else None

    async def watch(self, prefix: bytes, from_revision: int) -> AsyncGenerator[Changes, None]:
        """Yield all changes of keys that begin with prefix, from a revision on, in order.

        Raises:
            Compacted: changes from that revision on are no longer all known; scan again.
        """
        first = self._prefix + prefix
        creation = {"key": _base64(first), "range_end": _base64(_end_of(first))}
        revision = from_revision
        while True:
            body = {"create_request": {**creation, "start_revision": str(revision)}}
            silence = limits.ETCD_WATCH_SILENCE_SECONDS
            async for result in self._gateway.stream("watch", body, silence_seconds=silence):
                if int(result.get("compact_revision", 0)) > 0:
                    raise Compacted(int(result["compact_revision"]))
                if result.get("canceled"):
                    break
                if events := list(map(self._event, result.get("events", []))):
                    revision = events[-1].revision + 1
                    yield Changes(events[-1].revision, events)

    async def lease(self, seconds: int) -> Lease:
        """Return a new lease, which is renewed until it is revoked or lost."""
        clock = asyncio.get_running_loop().time
        lease_id = int.from_bytes(random_id()[:8], "big") >> 1 or 1
        begun = clock()
        # With an id of ours a repeated request cannot make a second lease.
        body = {"TTL": str(seconds), "ID": str(lease_id)}
        try:
            answer = await self._call("lease/grant", body)
        except EtcdError as error:
            if "already exists" not in str(error):
                raise
            answer = {"TTL": seconds}
        granted = min(int(answer["TTL"]), max(seconds, 0) or 1)
        lease = Lease(self._gateway, lease_id, granted, begun + granted)
        self._leases.append(lease)
        return lease

    async def close(self) -> None:
        """Stop renewing leases and close all connections; watches end."""
        for lease in self._leases:
            await lease.abandon()
        await self._gateway.close()

    async def _call(
        self, path: str, body: dict[str, Any], *, changes: bool = False
    ) -> dict[str, Any]:
        seconds = limits.METADATA_CALL_SECONDS
        return await self._gateway.call(path, body, seconds=seconds, changes=changes)

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


def _end_of(prefix: bytes) -> bytes:
    """Return the least key that is greater than all keys with this prefix."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b"\0"

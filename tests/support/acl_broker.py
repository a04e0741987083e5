"""A real broker with an authorizer, and clients that are known by the listener they connect to.

Each principal has a listener of its own, with `listener.name.<name>.polylog.principal`. ADMIN is a
super user; ACLs are created and deleted by its connection, as tools do it.
"""

import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.broker_process import BrokerProcess, held_port
from tests.support.wire_client import WireClient

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# Numbers of Kafka's protocol.
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
OPERATIONS = {
    "All": 2,
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
    "CreateTokens": 13,
    "DescribeTokens": 14,
}
NAMES = {CLUSTER: "kafka-cluster"}


def acl(
    operation: str,
    resource: int,
    name: str = "",
    *,
    principal: str = "User:alice",
    host: str = "*",
    is_prefixed: bool = False,
    is_denial: bool = False,
) -> dict[str, Any]:
    """Return the fields of an ACL in CreateAcls."""
    return {
        "resource_type": resource,
        "resource_name": name or NAMES[resource],
        "resource_pattern_type": PREFIXED if is_prefixed else LITERAL,
        "principal": principal,
        "host": host,
        "operation": OPERATIONS[operation],
        "permission_type": DENY if is_denial else ALLOW,
    }


def exact_filter(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the filter that finds one ACL."""
    return {
        "resource_type_filter": entry["resource_type"],
        "resource_name_filter": entry["resource_name"],
        "pattern_type_filter": entry["resource_pattern_type"],
        "principal_filter": entry["principal"],
        "host_filter": entry["host"],
        "operation": entry["operation"],
        "permission_type": entry["permission_type"],
    }


ANY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def create_acls(client: WireClient, *entries: dict[str, Any]) -> list[int]:
    """Create ACLs; return the error of each."""
    answer = client.request("CreateAcls", 3, {"creations": list(entries)})
    return [each["error_code"] for each in answer["results"]]


def delete_acls(client: WireClient, *filters: dict[str, Any]) -> int:
    """Delete the ACLs that filters match; return how many they were."""
    answer = client.request("DeleteAcls", 3, {"filters": list(filters)})
    assert all(each["error_code"] == 0 for each in answer["filter_results"]), answer
    return sum(len(each["matching_acls"]) for each in answer["filter_results"])


class AclBroker(BrokerProcess):
    """`broker start` with an authorizer and a listener for each principal."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Sequence[str] = (),
        listen: str | None = None,
        principals: Sequence[str] = ("alice", "bob"),
    ) -> None:
        """Prepare it; `principals` are the names of users, besides ADMIN."""
        assert listen is None, "it has listeners of its own"
        self.addresses: dict[str, str] = {}
        for name in ("admin", *principals):
            holder, port = held_port()
            weakref.finalize(self, os.close, holder)
            self.addresses[name] = f"127.0.0.1:{port}"
        own = [
            "listener.security.protocol.map="
            + ",".join(f"{name.upper()}:PLAINTEXT" for name in self.addresses),
            *(f"listener.name.{name}.polylog.principal=User:{name}" for name in self.addresses),
            f"authorizer.class.name={STANDARD_AUTHORIZER}",
            "super.users=User:admin",
        ]
        super().__init__(folder, settings=(*own, *settings), listen=self.addresses["admin"])

    def command(self) -> list[str]:
        """Return the command line, with all listeners by their names."""
        first, *others = (f"{name.upper()}://{at}" for name, at in self.addresses.items())
        command = [first if each == self.listen else each for each in super().command()]
        return [*command, *(part for each in others for part in ("--listen", each))]

    def client(self, name: str = "alice", *, client_id: str = "wire") -> WireClient:
        """Connect as a principal."""
        return WireClient(self.addresses[name], client_id=client_id)

    @contextmanager
    def acls(self, *entries: dict[str, Any]) -> Iterator[None]:
        """Have ACLs for a while."""
        with self.client("admin") as admin:
            assert create_acls(admin, *entries) == [0] * len(entries)
            try:
                yield
            finally:
                delete_acls(admin, *map(exact_filter, entries))

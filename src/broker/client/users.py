"""The users of a running broker: their SCRAM credentials (KIP-554)."""

import os
from collections.abc import Sequence
from typing import Any, Final

from broker.client.connection import Api
from broker.client.metadata import Cluster
from broker.client.retry import check
from broker.model.scram import MECHANISMS, SALT_BYTES, ScramMechanism, salted_password

_DESCRIBE: Final[Api[Any, Any]] = Api("DescribeUserScramCredentials", range(1))
_ALTER: Final[Api[Any, Any]] = Api("AlterUserScramCredentials", range(1))
_BY_NUMBER = {each.number: each for each in MECHANISMS.values()}


def credentials(cluster: Cluster) -> dict[str, list[tuple[ScramMechanism, int]]]:
    """Return the mechanisms of all users with their iterations; RequestError if it is refused."""
    address, answer = cluster.ask_any(_DESCRIBE, {"users": None})
    check(answer["error_code"], f"{address}: {answer['error_message']}")
    return {
        each["user"]: [
            (_BY_NUMBER[info["mechanism"]], info["iterations"])
            for info in each["credential_infos"]
            if info["mechanism"] in _BY_NUMBER
        ]
        for each in answer["results"]
    }


def set_password(
    cluster: Cluster,
    user: str,
    password: str,
    mechanisms: Sequence[ScramMechanism],
    iterations: int,
) -> None:
    """Set a user's password for these mechanisms; RequestError if it is refused.

    The broker is told only keys that are derived from it.
    """
    upsertions = []
    for each in mechanisms:
        salt = os.urandom(SALT_BYTES)
        upsertions.append(
            {
                "name": user,
                "mechanism": each.number,
                "iterations": iterations,
                "salt": salt,
                "salted_password": salted_password(each, password, salt, iterations),
            }
        )
    _alter(cluster, {"deletions": [], "upsertions": upsertions})


def delete(cluster: Cluster, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
    """Delete a user's credentials for these mechanisms; RequestError if it is refused."""
    deletions = [{"name": user, "mechanism": each.number} for each in mechanisms]
    _alter(cluster, {"deletions": deletions, "upsertions": []})


def _alter(cluster: Cluster, body: dict[str, object]) -> None:
    address, answer = cluster.ask_any(_ALTER, body)
    for each in answer["results"]:
        check(each["error_code"], f"{address}: user {each['user']}: {each['error_message']}")

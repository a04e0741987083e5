"""The users of a running broker: their SCRAM credentials (KIP-554)."""

import os
from collections.abc import Sequence

from broker.client.connection import Client
from broker.client.retry import check
from broker.model.scram import MECHANISMS, SALT_BYTES, ScramMechanism, salted_password

_BY_NUMBER = {each.number: each for each in MECHANISMS.values()}


def credentials(client: Client) -> dict[str, list[tuple[ScramMechanism, int]]]:
    """Return the mechanisms of all users with their iterations; RequestError if it is refused."""
    answer = client.request("DescribeUserScramCredentials", 0, {"users": None})
    check(answer["error_code"], f"{client.address}: {answer['error_message']}")
    return {
        each["user"]: [
            (_BY_NUMBER[info["mechanism"]], info["iterations"])
            for info in each["credential_infos"]
            if info["mechanism"] in _BY_NUMBER
        ]
        for each in answer["results"]
    }


def set_password(
    client: Client, user: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
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
    _alter(client, {"deletions": [], "upsertions": upsertions})


def delete(client: Client, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
    """Delete a user's credentials for these mechanisms; RequestError if it is refused."""
    deletions = [{"name": user, "mechanism": each.number} for each in mechanisms]
    _alter(client, {"deletions": deletions, "upsertions": []})


def _alter(client: Client, body: dict[str, object]) -> None:
    answer = client.request("AlterUserScramCredentials", 0, body)
    for each in answer["results"]:
        check(each["error_code"], f"{client.address}: user {each['user']}: {each['error_message']}")

"""Fixtures of the client tests; everything in this folder is marked `client`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compatibility.group_member import GroupMember

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lives in this folder, so that `-m "not client"` leaves it out."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.client)


@pytest.fixture
def doomed_member(tmp_path: Path) -> Iterator[Callable[[str, str, str, str], GroupMember]]:
    """Start group members that are certainly dead after the test."""
    members: list[GroupMember] = []

    def start(name: str, address: str, group: str, topic: str) -> GroupMember:
        members.append(GroupMember(tmp_path, name, address, group, topic))
        return members[-1]

    yield start
    for member in members:
        member.kill()

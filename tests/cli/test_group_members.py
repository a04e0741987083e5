"""`broker group` while a group has members: they are shown, and their offsets are left alone."""

from collections.abc import Iterator

import pytest

from tests.cli.group_member import Member
from tests.support.broker_process import Broker
from tests.support.command_line import CommandLine
from tests.support.wire_client import WireClient

CONFLICT, UNHEALTHY = 7, 8


@pytest.fixture
def member(broker: Broker, cli: CommandLine, topic: str) -> Iterator[Member]:
    """A member of the group that has the name of the topic."""
    cli("topic", "produce", topic, stdin=b"record\n")
    cli("group", "seek", topic, topic, "--to-latest")
    with WireClient(broker.address, client_id="app") as client:
        joined = Member(client, topic, topic)
        yield joined
        joined.leave()
    cli("group", "delete", topic, "--yes")


def test_a_member_is_shown_with_its_partitions(
    cli: CommandLine, member: Member, topic: str
) -> None:
    member.assign(2)

    [row] = cli("group", "members", topic).rows
    [described] = cli("group", "describe", topic).rows
    lags = cli("group", "lag", topic).rows

    assert (row["client_id"], row["host"]) == ("app", "127.0.0.1")
    assert (row["subscribed"], row["assigned"]) == ([topic], [f"{topic}-2"])
    assert described["state"] == "Stable"
    assert [each["client_id"] for each in lags] == [None, None, "app"]


def test_offsets_of_a_group_with_members_are_left_alone(
    cli: CommandLine, member: Member, topic: str
) -> None:
    member.assign(0)
    before = [each["committed"] for each in cli("group", "lag", topic).rows]

    refused = cli("group", "seek", topic, "--to-earliest", code=CONFLICT)
    also = cli("group", "delete", topic, "--yes", code=CONFLICT)

    assert "is Stable with 1 members (app)" in refused.err
    assert "stop them first" in also.err
    assert [each["committed"] for each in cli("group", "lag", topic).rows] == before


def test_a_group_that_goes_on_rebalancing_is_explained(
    cli: CommandLine, member: Member, topic: str
) -> None:
    explained = cli("group", "explain", topic, "--wait", "0.2", code=UNHEALTHY).rows

    [rebalancing] = [each for each in explained if "it is rebalancing" in each["reason"]]
    assert rebalancing["severity"] == "problem"
    assert "CompletingRebalance" in rebalancing["reason"]
    member.assign(0)
    stable = cli("group", "explain", topic, "--wait", "0.2", code=UNHEALTHY).rows
    assert not any("it is rebalancing" in each["reason"] for each in stable)
    assert any("none has the partition" in each["reason"] for each in stable)

"""`broker group describe`."""

from typing import NamedTuple

import click

from broker.cli.completion import groups
from broker.cli.frame import Session, verb
from broker.cli.group.partitions import member_row, partition_lags
from broker.client.groups import describe_group


class DescribedMember(NamedTuple):
    """A member, with the fields of `group members`."""

    member_id: str
    client_id: str
    host: str
    assigned: list[str]


class DescribedPartition(NamedTuple):
    """A partition, with the fields of `group lag`."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
    lag_seconds: float | None


class Described(NamedTuple):
    """A group.

    Attributes:
        group: its name.
        kind: classic or consumer.
        state: as in `group list`.
        protocol_type: what its members are.
        assignor: the assignor that its members have chosen.
        epoch: of a consumer group.
        coordinator: the address of the broker that coordinates it.
        member_count: how many members it has.
        lag: records that are not read yet, in all partitions.
        lag_seconds: the largest time lag.
        members: who has which partitions; `group members` tells more.
        partitions: the lag of each; `group lag` tells more.
    """

    group: str
    kind: str
    state: str
    protocol_type: str
    assignor: str
    epoch: int | None
    coordinator: str
    member_count: int
    lag: int
    lag_seconds: float | None
    members: list[DescribedMember]
    partitions: list[DescribedPartition]


@verb(
    Described,
    is_single=True,
    examples=("broker group describe billing", "broker group describe billing -o yaml"),
)
@click.argument("group", shell_complete=groups)
def command(session: Session, group: str) -> None:
    """Describe GROUP: its state, members, and the lag in each partition."""
    found = describe_group(session.cluster, group)
    lags = list(partition_lags(session.cluster, found))
    members = [
        DescribedMember(each.member_id, each.client_id, each.host, each.assigned)
        for each in map(member_row, found.members)
    ]
    seconds = [each.lag_seconds for each in lags if each.lag_seconds is not None]
    session.write(
        Described(
            found.group,
            found.kind,
            found.state,
            found.protocol_type,
            found.assignor,
            found.epoch,
            str(found.coordinator),
            len(members),
            sum(each.lag for each in lags),
            max(seconds, default=None),
            members,
            [
                DescribedPartition(
                    each.topic,
                    each.partition,
                    each.committed,
                    each.end,
                    each.lag,
                    each.lag_seconds,
                )
                for each in lags
            ],
        )
    )

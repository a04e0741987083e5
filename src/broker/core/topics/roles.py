"""What this broker is for a partition, and what follows from a change of that. Pure.

    the image says of this broker           its role
    its leader, elected and not fenced      leads
    its leader, which hands over            follows, as soon as the successor has everything
    its leader, fenced                      follows
    another one of several replicas         follows
    the only replica, and not serving it    none; the files stay
    no replica                              none; the files are removed

    the log is here as    the role now      step
    leader's              leads             GIVE: epoch, replicas and ISR may have changed
    leader's              follows           END: it follows, in place
    leader's              none              END: it is closed
    follower's            leads             BEGIN: it leads, in place
    follower's            follows           GIVE: the epoch may have changed
    follower's            none              END: it is closed
    -                     leads, follows    BEGIN: it is opened
    -                     none              NOTHING

In place means that the log stays the same object with the same files; only its waiting requests are
refused. Brokers that share one data directory have one replica of each partition: the leader's.
"""

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from broker.core.cluster.records import NO_LEADER, PartitionState, Replicas, committed

ANY_EPOCH = -1


class Role(NamedTuple):
    """What a broker is for a partition of which it has a replica that is open."""

    leads: bool
    epoch: int  # of the leader's election; ANY_EPOCH: the log's own
    broker_id: int = NO_LEADER  # this broker
    replicas: Replicas = ()
    isr: Replicas = ()  # with members whose addition is being written
    committed: int = 1  # members of the ISR as it is stored, as far as min.insync.replicas goes
    hands_over: bool = False  # it leads until its successor has everything


class Step(Enum):
    """What has to be done with a log."""

    NOTHING = 0
    GIVE = 1
    BEGIN = 2
    END = 3


class Here(Enum):
    """What a broker has of a partition."""

    NOTHING = 0
    LED = 1
    FOLLOWED = 2


def role_of(
    state: PartitionState,
    broker: tuple[int, int],
    pending: Collection[int],
    *,
    may_serve: bool,
) -> Role | None:
    """Return the role of a broker; None: it has nothing open of the partition.

    Args:
        state: of the partition, as the image has it.
        broker: its id and epoch.
        pending: replicas whose addition to the ISR this broker is writing.
        may_serve: whether the broker is not fenced.
    """
    broker_id, epoch = broker
    is_leader = may_serve and state.leader == broker_id and state.broker_epoch == epoch
    leads = is_leader and state.successor == NO_LEADER
    if not leads and (broker_id not in state.replicas or len(state.replicas) == 1):
        return None
    joining = [each for each in pending if each in state.replicas and each not in state.isr]
    return Role(
        leads,
        state.leader_epoch,
        broker_id,
        state.replicas,
        (*state.isr, *joining),
        committed(state),
        hands_over=is_leader and not leads,
    )


def next_step(here: Here, role: Role | None) -> Step:
    """Return what has to be done with what a broker has of a partition."""
    if role is None:
        return Step.NOTHING if here is Here.NOTHING else Step.END
    if here is Here.NOTHING:
        return Step.BEGIN
    if role.leads == (here is Here.LED):
        return Step.GIVE
    return Step.BEGIN if role.leads else Step.END

"""What is not well in a cluster: what its metadata, settings and data directories tell."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from broker.cli.checks import OK, PROBLEM, WARNING, Check, disk_check, sorted_checks
from broker.cli.health_pages import page_checks
from broker.client.brokers import Broker, LogDir, describe, log_dirs
from broker.client.configs import Kind, Resource, describe_configs
from broker.client.topics import PartitionState, partition_states
from broker.model.errors import PeerError, RequestError, Unreachable

if TYPE_CHECKING:
    from broker.client.metadata import Cluster

_MIN_ISR: Final = "min.insync.replicas"


def checks(cluster: "Cluster") -> list[Check]:
    """Look at the cluster; problems first.

    Raises:
        RequestError: a broker refuses.
        Unreachable: none of the addresses responds.
    """
    found = describe(cluster)
    states = partition_states(cluster)
    degraded = {each.topic for each in states if len(each.isr) < len(each.replicas)}
    results = [
        *([] if found.controller_id is not None else [_no_controller()]),
        *_brokers(found.brokers, states),
        *_partitions(states, {each: _min_isr(cluster, each) for each in sorted(degraded)}),
    ]
    for each in found.brokers:
        if not each.is_fenced:
            results += _directories(cluster, each)
            said = page_checks(cluster, f"broker {each.broker_id}", each)
            results += [found for found in said if found.severity == PROBLEM]
    if all(each.severity == OK for each in results):
        brokers = f"{len(found.brokers)} broker{'s' * (len(found.brokers) != 1)}"
        text = f"{brokers}, {len(states)} partitions: all are in sync"
        results.append(Check("cluster", OK, "", text, ""))
    return sorted_checks(results)


def _no_controller() -> Check:
    return Check(
        "controller",
        PROBLEM,
        "",
        "there is no controller: nothing can be created or changed, and no leader elected",
        "start the controllers, and read their logs",
    )


def _brokers(brokers: Sequence[Broker], states: Sequence[PartitionState]) -> Iterator[Check]:
    live = {each.broker_id for each in brokers if not each.is_fenced}
    for number in sorted({each for state in states for each in state.replicas} - live):
        count = sum(number in state.replicas for state in states)
        yield Check(
            "broker",
            PROBLEM,
            f"broker {number}",
            f"it does not serve, and has {count} replicas",
            "start it; if its disk is lost, move its replicas to other brokers",
        )


def _partitions(
    states: Sequence[PartitionState], min_isr: Mapping[str, int | None]
) -> Iterator[Check]:
    for each in states:
        name = f"{each.topic}-{each.partition}"
        missing = sorted(set(each.replicas) - set(each.isr))
        least = min_isr.get(each.topic)
        if each.leader is None:
            yield Check(
                "offline",
                PROBLEM,
                name,
                f"it has no leader: nobody can write or read it (replicas {_ids(each.replicas)})",
                f"start one of the brokers that were in sync last: {_ids(each.isr)}",
            )
        elif least is not None and len(each.isr) < least:
            yield Check(
                "under-min-isr",
                PROBLEM,
                name,
                f"{len(each.isr)} replicas are in sync, {_MIN_ISR} is {least}: writes with acks=all"
                " are refused",
                f"start brokers {_ids(missing)}, or wait until they have caught up",
            )
        elif missing:
            yield Check(
                "under-replicated",
                PROBLEM,
                name,
                f"replicas {_ids(missing)} are not in sync",
                "start these brokers, or look for slow disks and networks there",
            )


def _directories(cluster: "Cluster", broker: Broker) -> Iterator[Check]:
    name = f"broker {broker.broker_id}"
    try:
        found = log_dirs(cluster, broker.address)
    except (Unreachable, PeerError, RequestError) as error:
        yield Check("broker", WARNING, name, f"its directories are not known: {error}", "")
        return
    for each in found:
        yield from _directory(name, each)


def _directory(broker: str, found: LogDir) -> Iterator[Check]:
    place = f"{broker} {found.path}"
    if found.error:
        yield Check(
            "directory",
            PROBLEM,
            place,
            f"the directory is offline ({found.error}): the broker cannot use it",
            "look for the disk's errors in the broker's log and the kernel's, repair it, restart",
        )
    elif found.total_bytes and found.usable_bytes is not None:
        yield disk_check(place, found.usable_bytes, found.total_bytes)


def _min_isr(cluster: "Cluster", topic: str) -> int | None:
    try:
        found = describe_configs(cluster, Resource(Kind.TOPIC, topic), [_MIN_ISR])
    except RequestError:
        return None  # not for this user, or deleted by now
    value = found[_MIN_ISR].value if _MIN_ISR in found else None
    return int(value) if value else None


def _ids(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"

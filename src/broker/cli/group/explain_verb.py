"""`broker group explain`."""

import time

import click

from broker.cli.completion import groups
from broker.cli.exit_codes import Exit
from broker.cli.frame import Session, verb
from broker.cli.group.explanation import Facts, Finding, findings
from broker.cli.times import Seconds
from broker.client.groups import describe_group
from broker.client.lag import existing, lags
from broker.client.offsets import LATEST, committed_offsets, list_offsets
from broker.model.clock import SystemClock


@verb(
    Finding,
    columns=("severity", "subject", "reason", "fix"),
    examples=("broker group explain billing", "broker group explain billing --wait 30 -o json"),
)
@click.argument("group", shell_complete=groups)
@click.option(
    "--wait",
    type=Seconds(0, 3600),
    default=3.0,
    metavar="SECONDS",
    help="Look twice, with this time between (default: 3): what does not move, is stuck.",
)
def command(session: Session, group: str, wait: float) -> None:
    """Say why GROUP does not consume, and what to do; exit code 8 if something is wrong."""
    earlier = _facts(session, group)
    if wait:
        time.sleep(wait)
    found = findings(earlier, _facts(session, group) if wait else earlier, wait)
    for each in found:
        session.write(each)
    if any(each.severity == "problem" for each in found):
        session.exit_code = Exit.UNHEALTHY


def _facts(session: Session, name: str) -> Facts:
    cluster = session.cluster
    group = describe_group(cluster, name)
    committed = committed_offsets(cluster, name)
    assigned = {partition for each in group.members for partition in each.assigned}
    names = {topic for each in group.members for topic in each.subscribed if topic[:1] != "/"}
    names |= {topic for topic, _ in {*committed, *assigned}}
    topics = cluster.existing_topics(names) if names else {}
    leaders = {
        (topic["name"] or "", each["partition_index"])
        for topic in (cluster.metadata(topics)["topics"] if topics else ())
        for each in topic["partitions"]
        if each["leader_id"] >= 0
    }
    offsets: dict[tuple[str, int], int | None] = {**dict.fromkeys(assigned, None), **committed}
    known = {key: offset for key, offset in existing(offsets, topics).items() if key in leaders}
    stable = list_offsets(cluster, dict.fromkeys(known, LATEST), is_committed=True)
    return Facts(
        group,
        committed,
        lags(cluster, known, topics, SystemClock().wall_ms()),
        {key: each.offset for key, each in stable.items()},
        {(each.name, number) for each in topics.values() for number in each.partitions},
        leaders,
        names - topics.keys(),
    )

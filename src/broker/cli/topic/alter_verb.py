"""`broker topic alter`."""

import shlex
from typing import NamedTuple

import click

from broker.cli.completion import topic_settings as setting_names
from broker.cli.completion import topics
from broker.cli.confirmation import print_undo
from broker.cli.frame import Session, dry_run, pairs, verb
from broker.cli.topic.selection import one
from broker.client.configs import Kind, Resource, alter_configs, own_configs
from broker.client.topics import create_partitions


class AlteredTopic(NamedTuple):
    """A change of a topic.

    Attributes:
        topic: its name.
        setting: the name of the setting, or `partitions`.
        before: its value before; null: it was not set.
        after: its value now; null: it is not set, so the broker's default holds.
        is_dry_run: whether nothing was changed.
    """

    topic: str
    setting: str
    before: str | None
    after: str | None
    is_dry_run: bool


@verb(
    AlteredTopic,
    examples=(
        "broker topic alter orders --config retention.ms=86400000",
        "broker topic alter orders --unset retention.ms --dry-run",
        "broker topic alter orders --partitions 24",
    ),
)
@click.argument("name", shell_complete=topics)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=setting_names,
    help="Set a setting; may be repeated.",
)
@click.option("--unset", multiple=True, metavar="NAME", help="Return to the broker's default.")
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Raise the number of partitions; keys go to other partitions from then on.",
)
@dry_run
def command(
    session: Session,
    name: str,
    configs: tuple[str, ...],
    unset: tuple[str, ...],
    partitions: int | None,
    dry_run: bool,
) -> None:
    """Change settings of a topic, or the number of its partitions."""
    new = dict(pairs(configs, "--config"))
    if not new and not unset and partitions is None:
        raise click.UsageError("nothing to change: add --config, --unset or --partitions")
    if both := new.keys() & set(unset):
        raise click.UsageError(f"--config and --unset of {', '.join(sorted(both))}: name one")
    cluster = session.cluster
    count = len(one(cluster, name).partitions)
    changes: dict[str, str | None] = {**new, **dict.fromkeys(unset)}
    resource = Resource(Kind.TOPIC, name)
    own = own_configs(cluster, resource)
    before = {each: own.get(each) for each in changes}
    if changes:
        alter_configs(cluster, resource, changes, is_only_checked=dry_run)
    if partitions is not None:
        create_partitions(cluster, name, partitions, is_dry_run=dry_run)
    for each, value in before.items():
        session.write(AlteredTopic(name, each, value, new.get(each), dry_run))
    if partitions is not None:
        session.write(AlteredTopic(name, "partitions", str(count), str(partitions), dry_run))
    if before and not dry_run:
        words = ["broker", "topic", "alter", name]
        for each, value in before.items():
            words += ["--unset", each] if value is None else ["--config", f"{each}={value}"]
        print_undo(shlex.join(words))

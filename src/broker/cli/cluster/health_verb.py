"""`broker cluster health`."""

import click

from broker.cli.checks import Check, has_problem
from broker.cli.cluster.health import checks
from broker.cli.exit_codes import Exit
from broker.cli.frame import Session, verb
from broker.cli.watching import watch_option, watched


@verb(
    Check,
    columns=("check", "severity", "subject", "reason", "fix"),
    examples=(
        "broker cluster health",
        "broker cluster health --watch 2 --exit-when-healthy",
    ),
)
@watch_option
@click.option(
    "--exit-when-healthy", is_flag=True, help="With --watch: end when there are no problems."
)
def command(session: Session, watch: float | None, exit_when_healthy: bool) -> None:
    """Say whether the cluster is well; exit code 8 if it is not.

    It looks for partitions without a leader or with too few replicas in sync, brokers that are
    missing, and directories that are offline or nearly full. Brokers of this kind are asked for
    problems that only they know, such as a full disk that makes them refuse records.
    """
    for _ in watched(session, watch):
        found = checks(session.cluster)
        for each in found:
            session.write(each)
        is_well = not has_problem(found)
        session.exit_code = Exit.OK if is_well else Exit.UNHEALTHY
        if exit_when_healthy and is_well:
            return

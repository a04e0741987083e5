"""What happens to the brokers of a cluster under load; a fault ends when all of them are back."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess

Fault: TypeAlias = Callable[[ClusterProcess, Random], None]


def drain(cluster: ClusterProcess, choices: Random) -> None:
    """Stop a broker by SIGTERM and start it again."""
    cluster.restart(any_of(cluster, choices))


def kill(cluster: ClusterProcess, choices: Random) -> None:
    """Kill -9 a broker and start it again."""
    broker_id = any_of(cluster, choices)
    cluster.kill(broker_id)
    cluster.restart(broker_id)


def lose(cluster: ClusterProcess, choices: Random) -> None:
    """Kill -9 a broker and start it again when the others have seen that it is gone."""
    broker_id = any_of(cluster, choices)
    cluster.kill(broker_id)
    cluster.wait_for_brokers()
    cluster.restart(broker_id)


def kill_controller(cluster: ClusterProcess, choices: Random) -> None:
    """Kill -9 the controller and start it again."""
    broker_id = cluster.controller() or any_of(cluster, choices)
    cluster.kill(broker_id)
    cluster.restart(broker_id)


def kill_all(cluster: ClusterProcess, _: Random) -> None:
    """Kill -9 all brokers and start them again."""
    for each in cluster.brokers:
        cluster.kill(each)
    cluster.restart(*cluster.brokers)


def roll(cluster: ClusterProcess, choices: Random) -> None:
    """Stop and start each broker in turn, as an upgrade does."""
    for each in choices.sample(list(cluster.brokers), len(cluster.brokers)):
        cluster.restart(each)


def pause(cluster: ClusterProcess, choices: Random) -> None:
    """Pause a broker until its lease has ended and the others have noticed."""
    broker_id = any_of(cluster, choices)
    others = [each for each in cluster.brokers if each != broker_id]
    before = cluster.registration(broker_id)
    cluster.pause(broker_id)
    wait_until(
        lambda: all(cluster.seen_by(each) == others for each in others),
        f"{others} see that {broker_id} is gone",
    )
    cluster.resume(broker_id)
    cluster.wait_for_registration(broker_id, before)
    cluster.wait_for_brokers()


FAULTS: tuple[Fault, ...] = (drain, kill, lose, kill_controller, kill_all, roll, pause)


def any_of(cluster: ClusterProcess, choices: Random) -> int:
    """Return the id of one broker."""
    return choices.choice(list(cluster.brokers))


def faults_of_run(choices: Random, first: int, count: int) -> list[Fault]:
    """Return so many faults, different ones as long as there are.

    With the same choices and the first numbers 0, 1, 2 and so on, all faults occur.
    """
    order = choices.sample(FAULTS, len(FAULTS))
    return [order[(first + each) % len(order)] for each in range(count)]

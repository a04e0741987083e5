"""The clients that load a cluster, and what finds them."""

from collections.abc import Callable
from functools import partial

from tests.cluster.loads import aiokafka_load, confluent_load, program_load
from tests.cluster.loads.running import Make
from tests.compatibility.clients.go_clients import compiled
from tests.compatibility.java.tools import find as find_java

CLASSIC_JAVA = ("group.protocol=classic", "session.timeout.ms=6000", "heartbeat.interval.ms=300")


def java(*options: str) -> Callable[[], Make]:
    """Return what finds a Java client; the options are of its consumers."""

    def find() -> Make:
        tools = find_java()

        def command(*arguments: str) -> list[str]:
            return tools.command("Load.java", *arguments, *options)

        return partial(program_load.load, name="java", command=command)

    return find


def go(library: str) -> Callable[[], Make]:
    """Return what finds a client in Go."""

    def find() -> Make:
        program = str(compiled())

        def command(*arguments: str) -> list[str]:
            return [program, library, "load", *arguments]

        return partial(program_load.load, name=library, command=command)

    return find


def python(make: Make) -> Callable[[], Make]:
    """Return what finds a client that is installed with the tests."""
    return lambda: make


# What finds each client; UnavailableError where it cannot be had.
CLIENTS: dict[str, Callable[[], Make]] = {
    "librdkafka": python(partial(confluent_load.load, protocol="classic")),
    "librdkafka-consumer": python(partial(confluent_load.load, protocol="consumer")),
    "aiokafka": python(aiokafka_load.load),
    "java": java(*CLASSIC_JAVA),
    "java-consumer": java("group.protocol=consumer"),
    "franz-go": go("franz-go"),
    "sarama": go("sarama"),
}

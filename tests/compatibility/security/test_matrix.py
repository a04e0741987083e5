"""Every client, over every kind of TLS, with every login, with and without ACLs.

A run tries some of the combinations of each client, which its seed chooses, and each client without
some of the ACLs that it needs: --security-matrix 30 and --removed-rights 3 try them all.
"""

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.compatibility.clients.go_clients import compiled
from tests.compatibility.programs import UnavailableError
from tests.compatibility.security import client_programs
from tests.compatibility.security.client_programs import Program, Task
from tests.compatibility.security.combinations import ALL, Matrix, least_acls
from tests.support.application_acls import removals, without

if TYPE_CHECKING:
    from tests.compatibility.java.tools import JavaTools

pytestmark = [
    pytest.mark.slow("starts a client of each library for each combination"),
    pytest.mark.timeout(1_800),
]

CLIENTS = ["librdkafka", "aiokafka", "kafka-python", "java", "franz-go"]
LEAST_RIGHTS = 3  # of a client that writes, and reads as a group
VALUES = [f"value-{number}" for number in range(10)]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """Start both brokers."""
    made = Matrix(tmp_path_factory.mktemp("matrix") / "brokers")
    yield made
    made.check()


@pytest.fixture
def program_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Program]:
    """Return what runs a client."""

    def find(client: str) -> Program:
        match client:
            case "java":
                tools: JavaTools = request.getfixturevalue("java")
                return partial(client_programs.java, tools, tmp_path)
            case "franz-go":
                try:
                    return partial(client_programs.franz_go, compiled())
                except UnavailableError as error:
                    pytest.skip(str(error))
            case _:
                own: Program = getattr(client_programs, client.replace("-", "_"))
                return own

    return find


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_writes_and_reads_what_it_may_over_every_kind_of_security(
    matrix: Matrix,
    program_of: Callable[[str], Program],
    client: str,
    choices: Random,
    pytestconfig: pytest.Config,
) -> None:
    count = min(len(ALL), pytestconfig.getoption("--security-matrix"))
    run = program_of(client)

    for combination in choices.sample(ALL, count):
        topic = f"{client}-{uuid.uuid4().hex[:8]}"
        forbidden, group = f"{topic}-forbidden", f"{topic}-group"
        acls = least_acls(combination.principal, topic, group)
        matrix.prepare(combination, [topic, forbidden], acls)
        denied = forbidden if combination.has_acls else ""
        try:
            seen = run(Task(matrix.access(combination), topic, denied, group, VALUES))
        except BaseException:
            print(f"{client} over {combination}")
            raise
        assert seen.values == VALUES, combination
        assert seen.is_refused is combination.has_acls, combination


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_stops_without_any_of_the_least_rights(
    matrix: Matrix,
    program_of: Callable[[str], Program],
    client: str,
    choices: Random,
    pytestconfig: pytest.Config,
) -> None:
    run = program_of(client)
    combination = choices.choice([each for each in ALL if each.has_acls])

    for place in removals(LEAST_RIGHTS, choices, pytestconfig):
        topic = f"{client}-{uuid.uuid4().hex[:8]}"
        acls = least_acls(combination.principal, topic, f"{topic}-group")
        assert len(acls) == LEAST_RIGHTS
        removed, left = without(acls, place)
        matrix.prepare(combination, [topic], left)
        print(f"{client} over {combination} without {removed}")
        with pytest.raises(Exception) as stopped:  # noqa: PT011 - each client has classes of its own
            run(Task(matrix.access(combination), topic, "", f"{topic}-group", VALUES))
        assert "authoriz" in " ".join(causes(stopped.value)).lower()


def causes(error: BaseException | None) -> Iterator[str]:
    """Yield an error and those before it: a client that is closed because of one may have more."""
    while error is not None:
        yield repr(error)
        error = error.__cause__ or error.__context__

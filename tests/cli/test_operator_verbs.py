"""`broker group`, `config`, `cluster` and `txn` against a running broker, as a user types them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.operator_verbs import CHECKS, Place, place
from tests.support.broker_process import Broker
from tests.support.command_line import CommandLine


@pytest.mark.parametrize("check", CHECKS, ids=lambda each: each.__name__)
def test_verbs_of_operators(check: Callable[[Place], None], broker: Broker, tmp_path: Path) -> None:
    with place(broker.address, tmp_path) as made:
        check(made)


def test_an_explanation_is_of_one_value(cli: CommandLine) -> None:
    groups = ("--group", "a", "--group", "b")

    assert "name one" in cli("config", "explain", "retention.ms", *groups, code=2).err

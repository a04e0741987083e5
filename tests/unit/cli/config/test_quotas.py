"""Quotas, which commands show and set as settings."""

from typing import Any

import pytest

from broker.cli.config import entities
from broker.cli.config.entities import change, own, parse_entity
from broker.model.errors import ConfigError

CLUSTER: Any = None  # no test here asks one
ALICE = parse_entity("user/alice")


@pytest.mark.parametrize("number", [0.0, 0.1, 12.5, 1048576.0, 12345678901.0, 1e18])
def test_a_quota_is_shown_as_the_number_that_sets_it_again(
    monkeypatch: pytest.MonkeyPatch, number: float
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(entities, "describe_quotas", lambda *_: {"rate": number})
    monkeypatch.setattr(
        entities, "alter_quotas", lambda _, __, changes, **___: sent.append(changes)
    )

    change(CLUSTER, ALICE, own(CLUSTER, ALICE), dry_run=False)

    assert sent == [{"rate": number}]


def test_a_quota_of_whole_bytes_has_no_exponent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entities, "describe_quotas", lambda *_: {"rate": 1048576.0})

    assert own(CLUSTER, ALICE) == {"rate": "1048576"}


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "many", ""])
def test_what_is_no_number_is_refused_before_it_is_sent(text: str) -> None:
    with pytest.raises(ConfigError, match="quotas are numbers"):
        change(CLUSTER, ALICE, {"rate": text}, dry_run=False)

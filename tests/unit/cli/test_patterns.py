"""Names that regular expressions on the command line select."""

import pytest

from broker.cli.patterns import matcher
from broker.model.errors import ConfigError


def test_a_name_matches_itself_or_an_expression_for_all_of_it() -> None:
    matches = matcher(["billing", "orders-.*"])

    assert [
        each for each in ("billing", "billing2", "orders-1", "my-orders-1") if matches(each)
    ] == [
        "billing",
        "orders-1",
    ]
    assert not matcher(["orders.v1"])("orders-v1"), "the dot of a name is a dot"
    assert matcher([])("anything")
    assert matcher(["a+"])("a+"), "a name is itself, whatever it means as an expression"


def test_an_invalid_expression_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        matcher(["a("])

"""The identity by which two records count as duplicates."""

import pytest

from broker.model.errors import ConfigError
from broker.pipeline.jobs.dedupe import identity_of


@pytest.mark.parametrize(
    ("by", "expression"),
    [
        ("key", "key"),
        ("key+value", "struct(key, value)"),
        ("header:id", "try_element_at(filter(headers, each -> each.key = 'id'), 1).value"),
        ("header:it's", "try_element_at(filter(headers, each -> each.key = 'it\\'s'), 1).value"),
    ],
)
def test_an_identity_is_an_sql_expression(by: str, expression: str) -> None:
    assert identity_of(by) == expression


@pytest.mark.parametrize("by", ["", "offset", "header:", "key;drop"])
def test_an_invalid_identity_is_refused(by: str) -> None:
    with pytest.raises(ConfigError, match="header:NAME"):
        identity_of(by)

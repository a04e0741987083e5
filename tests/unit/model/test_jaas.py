"""JAAS lines of Kafka's configuration files."""

import pytest

from broker.model.errors import ConfigError
from broker.model.jaas import PLAIN_MODULE, parse_jaas

LINE = (
    f"{PLAIN_MODULE} required\n"
    '  username="broker" password="p;=\\"q\\\\" user_alice=\'it is\' user_bob=plain\n'
    '  user_empty="" ;'
)


def test_options_are_quoted_escaped_or_plain() -> None:
    jaas = parse_jaas(LINE)

    assert jaas.module == PLAIN_MODULE
    assert jaas.options["password"] == 'p;="q\\'
    assert jaas.users == {"alice": "it is", "bob": "plain", "empty": ""}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "com.sun.security.auth.module.JndiLoginModule required user=secret;",
        f"{PLAIN_MODULE} user_a=secret;",
        f"{PLAIN_MODULE} required user_a=secret",
        f'{PLAIN_MODULE} required user_a="secret;',
        f"{PLAIN_MODULE} required user_a=secret; {PLAIN_MODULE} required user_b=secret;",
        f"{PLAIN_MODULE} required user_a= secret here;",
    ],
)
def test_what_is_no_line_is_refused_without_its_values(line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_jaas(line)

    assert "secret" not in str(refused.value)

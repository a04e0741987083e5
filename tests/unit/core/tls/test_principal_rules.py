"""ssl.principal.mapping.rules (KIP-371); the first three rows are seen with Apache Kafka 4.3.1."""

import pytest

from broker.core.tls.principal_rules import PrincipalRules
from broker.model.errors import ConfigError, PeerError

NAME = "CN=App1,OU=ServiceUsers,O=Acceptance"
RULE = "RULE:^CN=([a-zA-Z0-9]*),OU=ServiceUsers.*$/$1/"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        (f"{RULE}L,DEFAULT", NAME, "app1"),
        (f"{RULE}U,DEFAULT", NAME, "APP1"),
        (f"{RULE}L,DEFAULT", "CN=someone,OU=People,O=Acceptance", None),
        (f"{RULE}", NAME, "App1"),
        ("DEFAULT", NAME, None),
        ("", "", "refused"),
        ("RULE:^(.*)$/$1@$2/", "CN=a", "CN=a@$2"),
        (r"RULE:CN=(a\/b)/$1/", "CN=a/b", "a/b"),
        ("RULE:CN=x/y/,\n RULE:CN=(.)/$1$1/ , DEFAULT", "CN=z", "zz"),
        ("RULE:CN=x/y/", "CN=z", "refused"),
        ("RULE:N=z/y/", "CN=z", "refused"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(
    rules: str, name: str, principal: str | None
) -> None:
    if principal == "refused":
        with pytest.raises(PeerError, match="no rule"):
            PrincipalRules(rules).name(name)
    else:
        assert PrincipalRules(rules).name(name) == (principal or name)


@pytest.mark.parametrize(
    "rules", ["RULE:a", "RULE:a/b", "default", "RULE:(/b/", "DEFAULT DEFAULT", "," * 3]
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


def test_there_are_not_more_rules_than_allowed() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(",".join(["DEFAULT"] * 65))

"""`ssl.principal.mapping.rules`: how the name of a certificate becomes a principal (KIP-371).

    RULE:PATTERN/REPLACEMENT/[LU] , ... , DEFAULT

The first rule whose pattern matches the whole name counts. `$1` in its replacement is the first
group; L and U make the result small or capital letters. DEFAULT is the name as it is. A name that
no rule matches is refused.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from broker.model.errors import ConfigError, PeerError
from broker.model.tls_limits import PRINCIPAL_RULES_MAX

_PART = r"((?:\\.|[^\\/])*)"
_RULE = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:[,\n]|$)")
_REFERENCE = re.compile(r"\\(.)|\$(\d)")
_CASES: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper, "": str}


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: DEFAULT
    replacement: str
    case: Callable[[str], str]

    def apply(self, name: str) -> str | None:
        """Return what a name becomes, None if the rule does not match it."""
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        return self.case(_REFERENCE.sub(lambda each: _referred(each, found), self.replacement))


def _referred(reference: re.Match[str], found: re.Match[str]) -> str:
    literal, number = reference.groups()
    if literal is not None:
        return literal
    # Without such a group it is text, as in Kafka.
    is_group = int(number) <= (found.re.groups or 0)
    return (found.group(int(number)) or "") if is_group else f"${number}"


class PrincipalRules:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Parse rules; ConfigError names the one that is none."""
        self._rules: list[_Rule] = []
        at = 0
        while at < len(text.rstrip()):
            found = _RULE.match(text, at)
            if found is None or len(self._rules) >= PRINCIPAL_RULES_MAX:
                raise ConfigError(
                    f"ssl.principal.mapping.rules: {text[at : at + 100]!r}: expected"
                    " RULE:PATTERN/REPLACEMENT/[LU] or DEFAULT, separated by commas"
                )
            at = found.end()
            self._rules.append(_parsed(*found.groups()))

    def name(self, distinguished_name: str) -> str:
        """Return the name of the principal; PeerError if no rule matches."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise PeerError(f"no rule for the certificate of {distinguished_name!r:.200}")


def _parsed(default: str | None, pattern: str, replacement: str, case: str) -> _Rule:
    if default is not None:
        return _Rule(None, "", str)
    try:
        return _Rule(re.compile(pattern), replacement, _CASES[case])
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {pattern!r:.100}: {error}") from None

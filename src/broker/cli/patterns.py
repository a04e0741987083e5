"""Names that regular expressions on the command line select."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from broker.model.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def is_name(pattern: str) -> bool:
    """Return whether a word is a name as it is, although its dots might be an expression's."""
    return _NAME.fullmatch(pattern) is not None


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a name is one of `patterns`, or a regular expression there matches it whole.

    Without patterns every name matches. Raises ConfigError for an invalid expression.
    """
    if not patterns:
        return lambda _: True
    try:
        compiled = [re.compile(each) for each in patterns if not is_name(each)]
    except re.error as error:
        raise ConfigError(f"{error.pattern!r}: not a regular expression: {error}") from None
    names = set(patterns)
    return lambda name: name in names or any(each.fullmatch(name) for each in compiled)

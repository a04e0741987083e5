"""Names that regular expressions on the command line select."""

import re
from collections.abc import Callable, Sequence

from broker.model.errors import ConfigError


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a name is one of `patterns`, or a regular expression there matches it whole.

    Without patterns every name matches. Raises ConfigError for an invalid expression.
    """
    if not patterns:
        return lambda _: True
    try:
        compiled = [re.compile(each) for each in patterns if not each.isidentifier()]
    except re.error as error:
        raise ConfigError(f"{error.pattern!r}: not a regular expression: {error}") from None
    names = set(patterns)
    return lambda name: name in names or any(each.fullmatch(name) for each in compiled)

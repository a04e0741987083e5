r"""JAAS lines as people have them in files for Kafka: a module's name, and its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="broker" password="..." user_alice="...";

Three modules are known, by their names; nothing is loaded. Values have no quotes, single or double
ones, with `\` before a character that is meant literally. Errors do not show any value.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.model.errors import ConfigError

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
# The package of Kafka's OAUTHBEARER until 3.3, which files still have.
_OLD_OAUTH_MODULE: Final = (
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginModule"
)
_MODULES: Final = frozenset((PLAIN_MODULE, SCRAM_MODULE, OAUTH_MODULE, _OLD_OAUTH_MODULE))
_FLAGS: Final = frozenset(("required", "requisite", "sufficient", "optional"))
_USER: Final = "user_"
_HEAD: Final = re.compile(r"\s*([\w.$]+)\s+(\w+)")
_OPTION: Final = re.compile(
    r"""\s+([\w.\-@+]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL
)
_END: Final = re.compile(r"\s*;\s*")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class Jaas(NamedTuple):
    """A line.

    Attributes:
        module: the full name of the login module.
        options: its options by name.
    """

    module: str
    options: Mapping[str, str]

    @property
    def users(self) -> Mapping[str, str]:
        """The passwords of the users that the options name: user_NAME="..."."""
        return {
            name.removeprefix(_USER): value
            for name, value in self.options.items()
            if name.startswith(_USER)
        }


def parse_jaas(text: str) -> Jaas:
    """Parse a line; raise ConfigError, whose text contains nothing of it but the module's name."""
    head = _HEAD.match(text)
    if head is None:
        raise ConfigError('a JAAS line is MODULE required name="value" ...;')
    module, flag = head.groups()
    if module not in _MODULES:
        known = ", ".join(
            each.rpartition(".")[2] for each in sorted(_MODULES - {_OLD_OAUTH_MODULE})
        )
        raise ConfigError(f"a JAAS line of the module {module[:100]}: Kafka's {known} are known")
    if flag.lower() not in _FLAGS:
        raise ConfigError("a JAAS line has `required` after the name of its module")
    options: dict[str, str] = {}
    at = head.end()
    while (option := _OPTION.match(text, at)) is not None:
        name, *values = option.groups()
        quoted = next((each for each in values[:2] if each is not None), None)
        options[name] = values[2] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        at = option.end()
    if _END.fullmatch(text, at) is None:
        raise ConfigError(
            f'a JAAS line of {module.rpartition(".")[2]}: options are name="value", and one `;`'
            f" ends the line; {len(options)} options could be read"
        )
    return Jaas(module, options)

"""The grammar of text commands: a keyword, arguments in one of two forms, and a message.

    CREATE topic=t partitions=4          key=value, in any order
    CREATE t 4                           positional; key=value may follow the required arguments

The form is key=value if the first argument begins with a parameter's name and `=`; other first
arguments may contain a `=`. Tokens are separated by white space. If a name occurs twice, the last
value counts. In the key=value form a token without `=` is ignored, except for the payload of a
commit, which is the last token. A message begins after the first `message=` and extends to the end;
white space around it is removed.

Bytes that are not UTF-8 are kept as surrogates.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.model.limits import CURSUS_COMMAND_BYTES_MAX
from broker.protocols.cursus.errors import RefusedError, quoted

WHITE_SPACE: Final = b"\t\n\v\f\r "
BLANKS: Final = b"\0" + WHITE_SPACE  # around a command
_MESSAGE: Final = b"message="
_WORD: Final = re.compile(rb"[A-Za-z_]{1,19}(?=[\t\n\v\f\r ]|\Z)")
_TOKEN: Final = re.compile(r"[^\t\n\v\f\r ]+")
_PATTERN_SIGNS: Final = frozenset("*?")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_CREDENTIALS: Final = ("principal", "auth_token")
TRANSACTION_NAMES: Final = ("transactional_id", "txn", "transaction")  # of one parameter
OFFSETS: Final = range(1 << 63)  # that a partition can have
_INT32_MAX: Final = (1 << 31) - 1


class Form(NamedTuple):
    """The parameters of a command."""

    names: tuple[str, ...] = ()  # of all parameters
    positional: tuple[str, ...] = ()  # in the order of the positional form; empty: it has none
    positional_min: int = 0  # the number of positional arguments that are required
    has_message: bool = False
    has_payload: bool = False  # the last token is a payload


class Command(NamedTuple):
    """A parsed command."""

    keyword: str
    args: dict[str, str]
    is_positional: bool = False
    message: bytes | None = None  # None: no message was given
    payload: str = ""

    def get(self, name: str) -> str:
        """Return an argument, empty if it was not given."""
        return self.args.get(name, "")

    def need(self, name: str) -> str:
        """Return a required argument; raise RefusedError if it was not given."""
        value = self.args.get(name)
        if not value:
            raise RefusedError(f"missing_{name}", command=self.keyword)
        return value


def positional(
    order: str,
    others: str = "",
    *,
    positional_min: int | None = None,
    has_message: bool = False,
    has_payload: bool = False,
) -> Form:
    """Return the form of a command whose parameters may be given in this order, without names.

    All are required in the positional form, unless `positional_min` is given.
    """
    names = tuple(order.split())
    minimum = len(names) if positional_min is None else positional_min
    every = names + tuple(others.split()) + _CREDENTIALS
    return Form(every, names, minimum, has_message, has_payload)


def named(names: str, *, has_message: bool = False, has_payload: bool = False) -> Form:
    """Return the form of a command that has no positional form."""
    return positional("", names, has_message=has_message, has_payload=has_payload)


# The form of commands without arguments: whatever follows is ignored.
BARE: Final = named("")


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern; no topic's name contains its signs."""
    return not _PATTERN_SIGNS.isdisjoint(name)


def decoded(data: bytes) -> str:
    """Decode bytes; those that are not UTF-8 become surrogates."""
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """Encode a text of `decoded` to the bytes that it came from."""
    return text.encode("utf-8", "surrogateescape")


def keyword_of(body: bytes) -> str:
    """Return the keyword in upper case, empty if the body does not begin with one."""
    found = _WORD.match(body)
    return found[0].decode().upper() if found else ""


def parse(body: bytes, forms: Mapping[str, Form]) -> Command:
    """Parse a command, given the form of each keyword; raise RefusedError if it is invalid."""
    text = body.strip(BLANKS)
    keyword = keyword_of(text)
    form = forms.get(keyword)
    if form is None:
        raise _unknown(text)
    if form == BARE:
        return Command(keyword, {})
    head, message = _split_message(text, form)
    if len(head) > CURSUS_COMMAND_BYTES_MAX:
        raise RefusedError("malformed_input", reason="command_too_long")
    tokens = _TOKEN.findall(decoded(head))[1:]
    payload = tokens.pop() if form.has_payload and tokens else ""
    if tokens and not _is_named(tokens[0], form):
        return _positional(keyword, form, tokens, message, payload, text)
    return Command(keyword, _named(tokens), message=message, payload=payload)


def _split_message(text: bytes, form: Form) -> tuple[bytes, bytes | None]:
    """Return the text before the message, and the message."""
    if not form.has_message:
        return text, None
    start = text.find(_MESSAGE, 0, CURSUS_COMMAND_BYTES_MAX + len(_MESSAGE))
    if start < 0:
        return text, None
    return text[:start], text[start + len(_MESSAGE) :].strip(WHITE_SPACE)


def _is_named(token: str, form: Form) -> bool:
    name, equals, _ = token.partition("=")
    return bool(equals) and name in form.names


def _named(tokens: list[str]) -> dict[str, str]:
    """Return the arguments among tokens; those without `=` are ignored."""
    parts = [token.partition("=") for token in tokens]
    return {name: value for name, equals, value in parts if equals}


def _positional(
    keyword: str,
    form: Form,
    tokens: list[str],
    message: bytes | None,
    payload: str,
    text: bytes,
) -> Command:
    if not form.positional:
        raise _unknown(text)
    values: list[str] = []
    for index, token in enumerate(tokens):
        is_option = index >= form.positional_min and _is_named(token, form)
        if is_option or index == len(form.positional):
            break
        values.append(token)
    options = tokens[len(values) :]
    if keyword == "PUBLISH" and message is None:
        return _published(text, values)
    if len(values) < form.positional_min or not all(_is_named(each, form) for each in options):
        raise _unknown(text)
    names = form.positional
    if keyword == "HEARTBEAT" and len(values) < len(names):
        names = tuple(name for name in names if name != "consumerId")
    args = dict(zip(names, values, strict=False))
    args |= _named(options)
    return Command(keyword, args, is_positional=True, message=message, payload=payload)


def _published(text: bytes, values: list[str]) -> Command:
    """Return the command of `PUBLISH topic message...`, whose message is the rest of the line."""
    parts = text.split(None, 2)
    message = parts[2] if len(parts) > 2 else None  # noqa: PLR2004 (the keyword, the topic, the rest)
    return Command("PUBLISH", {"topic": values[0]}, is_positional=True, message=message)


def _unknown(text: bytes) -> Exception:
    return RefusedError("unknown_command", command=quoted(decoded(text[:1024])))


def integer(text: str) -> int | None:
    """Parse an integer; return None if the text is not one."""
    return int(text) if _INTEGER.fullmatch(text) else None


def partition_of(command: Command) -> int:
    """Return the command's partition; raise RefusedError if it is missing or negative."""
    number = integer(command.need("partition"))
    if number is None or number < 0:
        raise RefusedError("invalid_partition", command=command.keyword)
    return number


def offset_of(command: Command) -> int:
    """Return the command's offset; raise RefusedError if it is missing or cannot be committed."""
    number = integer(command.need("offset"))
    if number is None or number not in OFFSETS:
        raise RefusedError("invalid_offset", command=command.keyword)
    return number


def generation_of(command: Command) -> int:
    """Return the command's generation, which is required; raise RefusedError if it is invalid."""
    number = integer(command.need("generation"))
    if number is None or not 0 <= number <= _INT32_MAX:
        raise RefusedError("invalid_generation", command=command.keyword)
    return number

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
from typing import Final, NamedTuple

from broker.model.limits import CURSUS_COMMAND_BYTES_MAX
from broker.protocols.cursus.errors import RefusedError, quoted

WHITE_SPACE: Final = b"\t\n\v\f\r "
BLANKS: Final = b"\0" + WHITE_SPACE  # around a command
_MESSAGE: Final = b"message="
_WORD: Final = re.compile(rb"[A-Za-z_]{1,19}(?=[\t\n\v\f\r ]|\Z)")
_TOKEN: Final = re.compile(r"[^\t\n\v\f\r ]+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_CREDENTIALS: Final = ("principal", "auth_token")
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
    payload: str | None = None

    def get(self, name: str) -> str:
        """Return an argument, empty if it was not given."""
        return self.args.get(name, "")

    def need(self, name: str) -> str:
        """Return a required argument; raise RefusedError if it was not given."""
        value = self.args.get(name)
        if not value:
            raise RefusedError(f"missing_{name}", command=self.keyword)
        return value


def _form(
    positional: str = "",
    others: str = "",
    *,
    positional_min: int | None = None,
    has_message: bool = False,
    has_payload: bool = False,
) -> Form:
    order = tuple(positional.split())
    names = order + tuple(others.split()) + _CREDENTIALS
    minimum = len(order) if positional_min is None else positional_min
    return Form(names, order, minimum, has_message, has_payload)


def _kv(names: str, *, has_message: bool = False, has_payload: bool = False) -> Form:
    return Form(tuple(names.split()) + _CREDENTIALS, (), 0, has_message, has_payload)


_TRANSACTION: Final = "transactional_id txn transaction producerId producer_id epoch"

FORMS: Final[dict[str, Form]] = {
    # topics
    "CREATE": _form(
        "topic partitions",
        "idempotent event_sourcing replication_factor cleanup_policy retention_hours"
        " retention_bytes partitioner auth_policy read_acl write_acl",
        positional_min=1,
    ),
    "DELETE": _form("topic"),
    "LIST": _form("topic", positional_min=0),
    "DESCRIBE": _form("topic"),
    "METADATA": _form("topic"),
    "LIST_OFFSETS": _form("topic partition", positional_min=1),
    "HELP": _form(),
    # records
    "PUBLISH": _form(
        "topic",
        "partition key acks producerId producer_id seqNum epoch isIdempotent"
        " transactional_id txn transaction",
        has_message=True,
    ),
    "CONSUME": _form(
        "topic partition offset",
        "member group generation autoOffsetReset isolation isolation_level batch wait_ms",
    ),
    "STREAM": _form(
        "topic partition offset",
        "member group generation autoOffsetReset isolation isolation_level batch",
    ),
    # groups and offsets
    "REGISTER_GROUP": _kv("topic group"),
    "SUBSCRIBE": _form("topic group", positional_min=1),
    "JOIN_GROUP": _form("topic group member", "generation"),
    "SYNC_GROUP": _form("topic group member generation"),
    "HEARTBEAT": _form("topic group consumerId member generation", positional_min=4),
    "LEAVE_GROUP": _form("topic group member", "generation"),
    "GROUP_STATUS": _form("group"),
    "LIST_GROUPS": _form(),
    "FIND_COORDINATOR": _kv("group transactional_id txn transaction"),
    "FETCH_OFFSET": _kv("topic partition group"),
    "COMMIT_OFFSET": _kv("topic partition group offset generation member"),
    "COMMIT": _form("topic group partition offset"),
    "BATCH_COMMIT": _form("topic group member generation", has_payload=True),
    # transactions
    "INIT_PRODUCER_ID": _kv(_TRANSACTION),
    "BEGIN_TXN": _kv(_TRANSACTION),
    "TXN_PUBLISH": _kv(f"{_TRANSACTION} topic partition seqNum key", has_message=True),
    "SEND_OFFSETS_TO_TXN": _kv(f"{_TRANSACTION} topic group member generation", has_payload=True),
    "END_TXN": _kv(f"{_TRANSACTION} result action state"),
    "TXN_STATUS": _kv(_TRANSACTION),
    # event sourcing
    "APPEND_STREAM": _kv(
        "topic key version event_type schema_version metadata producerId", has_message=True
    ),
    "READ_STREAM": _kv("topic key from_version"),
    "STREAM_VERSION": _kv("topic key"),
    "SAVE_SNAPSHOT": _kv("topic key version", has_message=True),
    "READ_SNAPSHOT": _kv("topic key"),
    # the protocol, and a cluster
    "PROTOCOL_INFO": _form(),
    "NEGOTIATE": _kv("version features require_features"),
    "AUTH": _kv("principal token"),
    "LIST_CLUSTER": _form(),
    "CLUSTER_STATUS": _form(),
    "ELECT_LEADER": _kv("topic partition broker"),
}
# Commands without arguments: whatever follows is ignored.
_BARE: Final = frozenset(("HELP", "LIST_GROUPS", "PROTOCOL_INFO", "LIST_CLUSTER", "CLUSTER_STATUS"))


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


def parse(body: bytes) -> Command:
    """Parse a command; raise RefusedError if it is invalid."""
    text = body.strip(BLANKS)
    keyword = keyword_of(text)
    form = FORMS.get(keyword)
    if form is None:
        raise _unknown(text)
    if keyword in _BARE:
        return Command(keyword, {})
    head, message = _split_message(text, form)
    if len(head) > CURSUS_COMMAND_BYTES_MAX:
        raise RefusedError("malformed_input", reason="command_too_long")
    tokens = _TOKEN.findall(decoded(head))[1:]
    payload = tokens.pop() if form.has_payload and tokens else None
    if form.has_payload and payload is None:
        payload = ""
    if tokens and not _is_named(tokens[0], form):
        return _positional(keyword, form, tokens, message, payload, text)
    args = dict(pair for pair in map(_pair, tokens) if pair is not None)
    return Command(keyword, args, is_positional=False, message=message, payload=payload)


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


def _pair(token: str) -> tuple[str, str] | None:
    name, equals, value = token.partition("=")
    return (name, value) if equals else None


def _positional(
    keyword: str,
    form: Form,
    tokens: list[str],
    message: bytes | None,
    payload: str | None,
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
    args |= dict(pair for pair in map(_pair, options) if pair is not None)
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


def generation_of(command: Command) -> int:
    """Return the command's generation, which is required; raise RefusedError if it is invalid."""
    number = integer(command.need("generation"))
    if number is None or not 0 <= number <= _INT32_MAX:
        raise RefusedError("invalid_generation", command=command.keyword)
    return number

"""Dispatch of a request's line: parse it, look up its command, call its handler."""

import logging
from typing import Final

from broker._native.protocols.v1 import protocol as native
from broker.core import access
from broker.core.broker import Broker
from broker.core.forwarding import ElsewhereError, learn
from broker.core.session import Session
from broker.model.config import Config
from broker.model.errors import CodecError, ErrorCode, PeerError, RequestError, StorageError
from broker.model.limits import V1_BROKERS_MAX, V1_FOLLOWERS_MAX
from broker.protocols.base import Additions, Immediate, Reply, SmallFiles, WireProtocol
from broker.protocols.v1 import errors
from broker.protocols.v1.brokers import Brokers
from broker.protocols.v1.commands import (
    NO_ID,
    Command,
    Envelope,
    Request,
    error_line,
    ok_line,
    parse,
)
from broker.protocols.v1.errors import Code, Refusal, RefusedError
from broker.protocols.v1.forwarding import forwarded
from broker.protocols.v1.group_files.copies import V1Copies
from broker.protocols.v1.group_files.group_import import V1Import
from broker.protocols.v1.roles import Roles
from broker.protocols.v1.table import COMMANDS, wrong_count

_log = logging.getLogger(__name__)
_UNKNOWN: Final = Refusal(Code.UNKNOWN_COMMAND, "unsupported command")
_DISK_FAILED: Final = errors.of_request(RequestError(ErrorCode.KAFKA_STORAGE_ERROR))
# The response to a PRODUCE whose log failed after the append, without `V1|<correlation id>|`.
STORAGE_FAILURE: Final = error_line("", _DISK_FAILED).removeprefix(b"V1||")


class V1(WireProtocol):
    """The protocol; its only state is what clients have set of roles and brokers."""

    __slots__ = ("_brokers", "_roles")
    name = "v1"

    def __init__(self) -> None:
        """Start without roles or registered brokers."""
        self._roles = Roles(V1_FOLLOWERS_MAX)
        self._brokers = Brokers(V1_BROKERS_MAX)

    def native_protocol(self, config: Config) -> native.V1:  # noqa: ARG002 (it has no settings)
        """Make its native path; it leaves PRODUCE to `handle` while any partition is a follower."""
        native_protocol = native.V1(self, STORAGE_FAILURE)

        def set_has_followers(follower_count: int) -> None:
            native_protocol.has_followers = follower_count > 0

        self._roles.on_changed = set_has_followers
        return native_protocol

    def attach(self, broker: Broker, files: SmallFiles) -> Additions:
        """Keep copies of its groups in files, from which a first start imports them."""
        groups, clock = broker.groups, broker.clock
        group_import = V1Import(files.folder, groups, broker.topics, broker.io_thread, clock)
        return Additions(
            services=(V1Copies(files, groups, clock),),
            before_serving=group_import.run,
            topic_deleted=self._roles.forget_topic,
        )

    def handle(
        self,
        operation: int,  # noqa: ARG002 (the line contains everything)
        version: int,  # noqa: ARG002
        client_id: str | None,  # noqa: ARG002
        body: bytes,
        session: Session,
    ) -> Reply:
        """Serve one line, without its newline."""
        try:
            envelope = parse(body)
        except RefusedError as error:
            return error_line(NO_ID, error.refusal)
        command = COMMANDS.get(envelope.command)
        if command is None:
            return error_line(envelope.correlation_id, _UNKNOWN)
        if len(envelope.args) not in command.arg_counts:
            refused = wrong_count(envelope.command, command)
            return error_line(envelope.correlation_id, refused.refusal)
        request = Request(envelope.args, session, self._roles, self._brokers)
        return _answer(envelope, command, request, body)


async def _answer(envelope: Envelope, command: Command, request: Request, line: bytes) -> Immediate:
    try:
        if command.topic_at >= 0 and request.session.broker.links is not None:
            await learn(request.session, request.args[command.topic_at])
        access.begin(request.session, "v1", envelope.command)
        access.check_needs(request.session, command.needs, request.args)
        try:
            return ok_line(envelope.correlation_id, await command.handle(request))
        except ElsewhereError as elsewhere:
            return await forwarded(request.session, elsewhere, line)
    except RefusedError as error:
        refusal = error.refusal
    except RequestError as error:
        refusal = errors.of_request(error)
    except (StorageError, CodecError) as error:
        _log.warning("command failed: command=%s error=%s", envelope.command, error)
        refusal = _DISK_FAILED
    except Exception as error:
        _log.exception("command failed: command=%s", envelope.command)
        raise PeerError(f"{envelope.command} failed in the broker") from error
    return error_line(envelope.correlation_id, refusal)


PROTOCOL = V1

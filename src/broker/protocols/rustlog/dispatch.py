"""Dispatch of a frame: parse it, call its handler, encode the response or the error."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from broker._native.protocols.rustlog import protocol as native
from broker._native.protocols.rustlog.counters import RustLogCounters
from broker.core import access
from broker.core.access import Need, on_cluster
from broker.core.forwarding import ElsewhereError, learn
from broker.core.logs.partition import NOT_COPIED_TEXT
from broker.core.security.acls import Operation, ResourceType
from broker.model.config import Config
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import RUSTLOG_FRAME_BYTES_MAX
from broker.model.log_results import LogState
from broker.protocols.base import Answer, Immediate, Reply, WireProtocol
from broker.protocols.rustlog import forwarding, messages
from broker.protocols.rustlog.binary import Binary
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import Failure, RefusalError, reason
from broker.protocols.rustlog.errors import refusal as refusal_of
from broker.protocols.rustlog.forwarding import forwarded
from broker.protocols.rustlog.handlers import fetch, metrics, offsets, produce, topics
from broker.protocols.rustlog.json_form import Json
from broker.protocols.rustlog.lags import Lags

if TYPE_CHECKING:
    from broker.core.session import Session
    from broker.protocols.rustlog.form import Form

REFUSE = -1  # the operation of a frame of invalid length: the body is its length
_BINARY = Binary()
_JSON = Json()

_Handler = Callable[[Any, Call], Awaitable[messages.Response]]
_HANDLERS: Final[dict[type, _Handler]] = {
    messages.Produce: produce.handle,
    messages.Fetch: fetch.handle,
    messages.OffsetCommit: offsets.commit,
    messages.OffsetFetch: offsets.fetch,
    messages.CreateTopic: topics.create,
    messages.ListTopics: topics.list_all,
    messages.DescribeTopic: topics.describe,
    messages.DescribePartition: topics.describe_partition,
    messages.MetricsFetch: metrics.handle,
    messages.Ping: metrics.ping,
    messages.Forwarding: forwarding.accept,
}
_WITHOUT_TOPIC: Final = (
    messages.CreateTopic,
    messages.ListTopics,
    messages.MetricsFetch,
    messages.Ping,
    messages.Forwarding,
)
# Of a request that another broker has to serve and has not answered, or that is not allowed.
_FAILURES: Final = {
    messages.CreateTopic: Failure.CREATE,
    messages.DescribeTopic: Failure.DESCRIBE_TOPIC,
    messages.MetricsFetch: Failure.METRICS,
    messages.Forwarding: Failure.FORWARDING,
    messages.Produce: Failure.WRITE,
    messages.Fetch: Failure.FETCH,
    messages.OffsetCommit: Failure.COMMIT,
    messages.OffsetFetch: Failure.GROUP_OFFSET,
    messages.DescribePartition: Failure.DESCRIBE_PARTITION,
}


def _on_topic(operation: Operation) -> Need:
    return Need(operation, ResourceType.TOPIC, lambda request: str(request.topic))


def _on_group(operation: Operation) -> Need:
    return Need(operation, ResourceType.GROUP, lambda request: request.group)


# What a client must be allowed; ListTopics leaves out what it may not describe, and CreateTopic
# needs one permission of two.
NEEDS: Final[dict[type, tuple[Need, ...]]] = {
    messages.Produce: (_on_topic(Operation.WRITE),),
    messages.Fetch: (_on_topic(Operation.READ), _on_group(Operation.READ)),
    messages.OffsetCommit: (_on_group(Operation.READ), _on_topic(Operation.READ)),
    messages.OffsetFetch: (_on_group(Operation.DESCRIBE), _on_topic(Operation.DESCRIBE)),
    messages.CreateTopic: (),
    messages.ListTopics: (),
    messages.DescribeTopic: (_on_topic(Operation.DESCRIBE),),
    messages.DescribePartition: (_on_topic(Operation.DESCRIBE),),
    messages.MetricsFetch: (on_cluster(Operation.DESCRIBE),),
    messages.Ping: (),
    messages.Forwarding: (on_cluster(Operation.CLUSTER_ACTION),),
}


def _write_refused(why: str) -> bytes:
    return _BINARY.refuse(RefusalError(Failure.WRITE, reason=why))


class RustLog(WireProtocol):
    """The protocol, as `server` and the native path use it."""

    name = "rustlog"

    def __init__(self) -> None:
        """Start with all counters at zero."""
        self.counters = RustLogCounters()
        self._lags = Lags()

    @property
    def write_failed(self) -> bytes:
        """The response to a binary Produce whose log fails after the append."""
        return _write_refused(reason(ErrorCode.KAFKA_STORAGE_ERROR))

    @property
    def write_refused(self) -> dict[LogState, bytes]:
        """The response to one whose record is not acknowledged although the log has not failed."""
        too_few = _write_refused(reason(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        return {
            LogState.FULL: too_few,
            LogState.TOO_FEW_REPLICAS: too_few,
            LogState.NOT_LED: _write_refused(reason(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
            LogState.TIMED_OUT: _write_refused(NOT_COPIED_TEXT),
        }

    def native_protocol(self, config: Config) -> native.RustLog:  # noqa: ARG002 (nothing of it is configured)
        """Make its native side."""
        return native.RustLog(
            *(self, self.counters),
            write_failed=self.write_failed,
            write_refused=self.write_refused,
        )

    def handle(
        self, operation: int, version: int, _client_id: str | None, body: bytes, session: "Session"
    ) -> Reply:
        """Serve one frame; the version is 1 for the JSON form, 0 for the binary one."""
        form: Form = _JSON if version else _BINARY
        if operation == REFUSE:
            return Answer(form.refuse(_bad_frame(int.from_bytes(body))), is_last=True)
        return self._serve(body, Call(session, form, self.counters, self._lags))

    async def _serve(self, body: bytes, call: Call) -> Immediate:
        try:
            request = await call.form.parse(body)
            if call.broker.links is not None and not isinstance(request, _WITHOUT_TOPIC):
                await learn(call.session, request.topic)
            _authorize(request, call)
            try:
                response = await _HANDLERS[type(request)](request, call)
            except ElsewhereError as elsewhere:
                return await _relayed(request, body, call.session, elsewhere.broker_id)
            return await call.form.write(response)
        except RefusalError as refusal:
            return call.form.refuse(refusal)


def _authorize(request: messages.Request, call: Call) -> None:
    """Raise RefusalError unless the client may make a request."""
    kind = type(request)
    access.begin(call.session, "rustlog", kind.__name__)
    try:
        access.check_needs(call.session, NEEDS[kind], request)
    except RequestError as error:
        raise refusal_of(_FAILURES[kind], error) from None


async def _relayed(
    request: messages.Request, body: bytes, session: "Session", broker_id: int
) -> bytes:
    try:
        return await forwarded(session, broker_id, body)
    except RequestError as error:
        raise refusal_of(_FAILURES[type(request)], error) from None


def _bad_frame(size: int) -> RefusalError:
    if size == 0:
        return RefusalError(Failure.EMPTY_FRAME)
    return RefusalError(Failure.LONG_FRAME, size=size, size_max=RUSTLOG_FRAME_BYTES_MAX)


PROTOCOL = RustLog

"""Kafka's protocol with a test's faults before its handlers.

While there is a fault, native code leaves every request to Python, where the rules are. Without
one, requests take the same way as in production.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from broker._native.protocols.kafka.protocol import Kafka as NativeKafka
from broker.codec import schema
from broker.core.broker import Broker
from broker.core.session import Session
from broker.core.topics.lookup import topic_by_id
from broker.model.config import Config
from broker.model.errors import PeerError, RequestError
from broker.protocols.base import Additions, Answer, Deferred, Immediate, Reply, SmallFiles
from broker.protocols.kafka.dispatch import Kafka
from broker.protocols.kafka.table import APIS
from broker.testing import refusals
from broker.testing.rules import AFTER, BEFORE, DURING, Place, Rule, Rules, hit


class _Head(NamedTuple):
    """What a request has before its fields."""

    operation: int
    version: int
    client_id: str | None


class FaultyKafka(Kafka):
    """The protocol.

    Attributes:
        cut: ends the connection of a session inside of a response; set before the first rule.
    """

    cut: Callable[[Session], None]

    def __init__(self, rules: Rules) -> None:
        """Serve by rules, which `apply` has to follow."""
        super().__init__()
        self._rules = rules
        self._natives: list[NativeKafka] = []

    def native_protocol(self, config: Config) -> NativeKafka:
        """Create the native part."""
        native = super().native_protocol(config)
        self._natives.append(native)
        return native

    def attach(self, broker: Broker, files: SmallFiles) -> Additions:
        """Keep the broker, which knows the names of topics."""
        self._broker = broker
        return super().attach(broker, files)

    def apply(self) -> None:
        """Let every request come here while there are rules."""
        for native in self._natives:
            native.leaves_all = bool(self._rules.by_number)

    def handle(
        self, operation: int, version: int, client_id: str | None, body: bytes, session: Session
    ) -> Reply:
        """Serve one request, unless a rule says otherwise."""
        api = APIS.get(operation)
        if api is None or version not in api.versions or not self._rules.by_number:
            return super().handle(operation, version, client_id, body, session)
        concerning = self._rules.concerning(api.name, client_id)
        if not concerning:
            return super().handle(operation, version, client_id, body, session)
        request, _ = schema.request(operation).decode(version, body)
        found = hit(concerning, list(self._places(operation, request)))
        if not found:
            return super().handle(operation, version, client_id, body, session)
        return self._hit(found, _Head(operation, version, client_id), request, session)

    def _places(self, operation: int, request: dict[str, Any]) -> "list[Place]":
        wanted = list(refusals.places(request, self._name_of))
        if operation == refusals.METADATA and not wanted:  # all topics
            wanted = [(each.name, None) for each in self._broker.topics]
        return wanted

    def _name_of(self, topic_id: bytes) -> str:
        try:
            return topic_by_id(self._broker.topics, topic_id).name
        except RequestError:
            return ""

    async def _hit(
        self, rules: list[Rule], head: _Head, request: dict[str, Any], session: Session
    ) -> Immediate:
        """Answer a request that is hit."""
        await asyncio.sleep(max(each.latency_ms for each in rules) / 1000)
        ends = {each.disconnect for each in rules}
        if BEFORE in ends:
            raise PeerError("disconnected by a test")
        refusing = next((each for each in rules if each.error), None)
        if refusing is None:
            answer = await self._served(head, request, session)
        else:
            answer = await self._refused(refusing, head, request, session)
        if DURING in ends:
            self.cut(session)
        if AFTER in ends or DURING in ends:
            raise PeerError("disconnected by a test")
        return answer

    async def _served(self, head: _Head, request: dict[str, Any], session: Session) -> Immediate:
        body = schema.request(head.operation).encode(head.version, request)
        reply = super().handle(*head, body, session)
        if isinstance(reply, Deferred):
            await reply.future
            return reply.answer()
        return reply if isinstance(reply, (bytes, Answer)) else await reply

    async def _refused(
        self, rule: Rule, head: _Head, request: dict[str, Any], session: Session
    ) -> Immediate:
        """Answer with an error what the rule hits, and serve the rest."""
        operation, version, _ = head
        if operation == refusals.METADATA:  # it is served whole, as it changes nothing
            is_whole = rule.partition is None
            return await self._changed(
                head,
                request,
                session,
                lambda fields: refusals.rewritten(
                    fields, rule.hits_place, rule.error, is_whole=is_whole
                ),
            )
        if not rule.has_place:
            return _encoded(operation, version, request, rule.error)
        wrong, right = refusals.split(request, rule.hits_place, self._name_of)
        if not list(refusals.places(right, self._name_of)):
            return _encoded(operation, version, wrong, rule.error)
        if operation == refusals.FETCH:
            right["max_wait_ms"] = 0  # the error is not kept waiting
        refused = refusals.refusal(operation, version, wrong, rule.error)
        assert refused is not None  # what has partitions has a place for their errors
        return await self._changed(
            head, right, session, lambda fields: refusals.merged(fields, refused)
        )

    async def _changed(
        self,
        head: _Head,
        request: dict[str, Any],
        session: Session,
        change: Callable[[refusals.Fields], refusals.Fields],
    ) -> Immediate:
        """Serve a request, and change its response."""
        served = await self._served(head, request, session)
        if not isinstance(served, bytes):
            return served
        message = schema.response(head.operation)
        fields, _ = message.decode(head.version, served)
        return message.encode(head.version, change(fields))


def _encoded(operation: int, version: int, request: dict[str, Any], code: int) -> Immediate:
    if request.get("acks") == 0:
        raise PeerError("a test lets a Produce without a response fail")
    fields = refusals.refusal(operation, version, request, code)
    if fields is None:
        raise PeerError(f"API {operation} v{version} has no place for the error of a test")
    return schema.response(operation).encode(version, fields)

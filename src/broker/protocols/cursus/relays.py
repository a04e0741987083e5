"""Streams of other brokers, relayed frame by frame to the client that asked this one.

    client <── frames ── Relay <── pump, one frame at a time ── link <── frames ── the leader
       └── reads slowly: no more is read from the link

A frame that ends the stream is passed on, and the connection is closed or serves further requests
as the leader's would. Two ends are different here: a leader that stops, or that cannot be reached
any more, is no end of the partition, so the client is asked to begin its stream again (NOT_LEADER,
with this broker's address; with the leader's if this broker stops or relays too many streams).
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from broker._native.wire.relay import Relay, RelayEvent
from broker.core import access
from broker.core.links import NoRoomError
from broker.model.errors import Unreachable
from broker.model.limits import CURSUS_NOT_LEADER_SECONDS, CURSUS_STREAM_SILENT_SECONDS
from broker.protocols.base import Answer
from broker.protocols.cursus.connections import address_of, leader_address
from broker.protocols.cursus.forwarding import dialect, mark_of
from broker.protocols.cursus.grammar import encoded
from broker.protocols.cursus.requests import Request

if TYPE_CHECKING:
    from broker.core.session import Session

_ERROR: Final = b"ERROR: "
_CLOSE: Final = b"STREAM_CONTROL type=CLOSE reason="
_STOPPED: Final = _CLOSE + b"stopped "
_FAILED: Final = _CLOSE + b"error "
_pumps: set[asyncio.Task[None]] = set()  # referenced here until they are done


class _NotAuthorizedError(Exception):
    """The client may not read the topic any more; the link is of no further use."""


def open_relay(request: Request, broker_id: int) -> Answer:
    """Return the stream of another broker."""
    pump = _Pump(request, broker_id)
    task = asyncio.get_running_loop().create_task(pump.run())
    _pumps.add(task)
    task.add_done_callback(_pumps.discard)
    pump.relay = Relay(partial(_on_event, pump, task))
    return Answer(None, stream=pump.relay)


class _Pump:
    """Moves the frames of one stream."""

    relay: Relay

    def __init__(self, request: Request, broker_id: int) -> None:
        self._session: Session = request.session
        self._frame = request.body
        self._topic = request.command.get("topic")
        self._broker_id = broker_id
        self.is_positional = request.command.is_positional
        self.room = asyncio.Event()
        self.room.set()

    async def run(self) -> None:
        """Relay until the stream has ended, here or there."""
        session = self._session
        links = session.broker.links
        assert links is not None
        upstreams = session.upstreams = session.upstreams or links.upstreams()
        # The other broker sends keepalives, except to the positional form.
        silent = None if self.is_positional else CURSUS_STREAM_SILENT_SECONDS
        try:
            async with links.stream(upstreams, self._broker_id, dialect()) as link:
                async with asyncio.timeout(CURSUS_STREAM_SILENT_SECONDS):
                    await link.request(mark_of(session), self._frame)
                while True:
                    await self.room.wait()
                    async with asyncio.timeout(silent):
                        frame = await link.next()
                    if frame.startswith((_ERROR, _CLOSE)):
                        break
                    if not access.may_read(session, self._topic):
                        raise _NotAuthorizedError
                    if not self.relay.send(frame):
                        self.room.clear()
                self._end(frame)
                if not _leaves_open(frame):
                    raise EOFError("it closes the connection after the stream")
        except _NotAuthorizedError:
            refusal = f"ERROR: NOT_AUTHORIZED_FOR_TOPIC operation=read topic={self._topic}"
            self.relay.end(None if self.is_positional else encoded(refusal), is_last=True)
        except NoRoomError:
            self.end_to(leader_address(session, self._broker_id), is_last=False)
        except Unreachable:
            await asyncio.sleep(CURSUS_NOT_LEADER_SECONDS)  # a client may ask again at once
            self.end_to(address_of(session), is_last=False)

    def _end(self, frame: bytes) -> None:
        if frame.startswith(_STOPPED):
            self.end_to(address_of(self._session), is_last=False)
        else:
            self.relay.end(frame, is_last=not _leaves_open(frame))

    def stop(self) -> None:
        """End because this broker stops: the client finds the partition at its leader."""
        self.end_to(leader_address(self._session, self._broker_id), is_last=True)

    def end_to(self, address: str, *, is_last: bool) -> None:
        """End with the request to ask again there; the positional form just ends."""
        if self.is_positional:
            self.relay.end(None, is_last=True)
        else:
            self.relay.end(f"ERROR: NOT_LEADER LEADER_IS {address}".encode(), is_last=is_last)


def _leaves_open(frame: bytes) -> bool:
    """Return whether the leader's connection serves further requests after this last frame."""
    return frame.startswith((_ERROR, _FAILED))


def _on_event(pump: _Pump, task: "asyncio.Task[None]", event: RelayEvent) -> None:
    match event:
        case RelayEvent.ROOM:
            pump.room.set()
        case RelayEvent.STOPPED:
            pump.stop()
        case RelayEvent.CLOSED:
            task.cancel()

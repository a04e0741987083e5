"""V1's protocol over a broker made of fakes."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from broker.core.groups.commands.assigned import AssignedError, AssignedResponse
from broker.core.groups.commands.offsets import FetchOffsetsResponse
from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.protocols.v1.dispatch import V1
from tests.support.fakes import FakeBroker, FakeGroups


class FakeAssignedGroups(FakeGroups):
    """Records the commands and returns the answers set by the test."""

    def _answer(self, command: Any) -> asyncio.Future[AssignedResponse]:
        return self._serve(command, AssignedResponse(AssignedError.NONE, "c", 2, (0, 2)))

    assigned_join = _answer
    assigned_sync = _answer
    assigned_leave = _answer
    assigned_commit = _answer

    def refuse(self, error: AssignedError) -> None:
        """Answer the next command with this error."""
        self.answers.append(AssignedResponse(error, "c", 7))

    def refuse_offsets(self, error: ErrorCode) -> None:
        """Answer the next offset fetch with this error."""
        self.answers.append(FetchOffsetsResponse(error))


class V1Client:
    """One client of a fake broker."""

    def __init__(self, **settings: str) -> None:
        """Make the broker; a setting's dots are underscores here."""
        self.fakes = FakeBroker({name.replace("_", "."): value for name, value in settings.items()})
        self.groups = FakeAssignedGroups()
        self.protocol = V1()
        broker = self.fakes.broker._replace(groups=self.groups)  # type: ignore[arg-type]
        self.session = Session(broker, "192.0.2.7", "broker.example", 9092)

    def say(self, command: str) -> str:
        """Send COMMAND args and return the response after `V1|1|`."""
        return asyncio.run(self.say_soon(command))

    async def say_soon(self, command: str) -> str:
        """Send a command inside a running loop."""
        word, _, args = command.partition(" ")
        line = f"V1|1|{word}|{args}".encode()
        answer = self.protocol.handle(0, 0, None, line, self.session)
        if isinstance(answer, Awaitable):
            answer = await answer
        assert isinstance(answer, bytes)
        text = answer.decode()
        assert text.startswith("V1|1|")
        assert text.endswith("\n")
        return text[5:-1]

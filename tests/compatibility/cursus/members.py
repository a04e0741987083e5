"""Members of Cursus's groups that join, read answers and join again as its clients do.

Written from a description of the Java, Python and Go clients. All wrap commands
in an empty envelope; Java and Python have a connection for each.
"""

import re

from tests.compatibility.cursus.sdks import go_ok
from tests.support.cursus_client import CursusClient, envelope

_JAVA_JOINED = re.compile(r"OK generation=(\d+) member=(\S+)(?: assignments=\[([\d\s]*)\])?")
_JAVA_REJOINS = (
    "GEN_MISMATCH",
    "REBALANCE_REQUIRED",
    "NOT_OWNER",
    "member_not_found",
    "group_not_found",
    "NOT_COORDINATOR",
)
_CODES_TO_REJOIN = (
    "GEN_MISMATCH",
    "NOT_OWNER",
    "member_not_found",
    "group_not_found",
    "NOT_COORDINATOR",
)


class Member:
    """One consumer and what the broker told it."""

    def __init__(self, address: str, topic: str, group: str, name: str) -> None:
        """Store the address; nothing is sent yet."""
        self._address = address
        self._place = f"topic={topic} group={group}"
        self._name = name
        self.member_id = ""
        self.generation = 0
        self.partitions: list[int] = []

    @property
    def _here(self) -> str:
        return f"{self._place} member={self.member_id} generation={self.generation}"

    def _ask(self, command: str) -> str:
        with CursusClient(self._address) as client:
            return client.ask(envelope(command))

    def join(self) -> None:
        """Join, or join again."""
        raise NotImplementedError

    def must_rejoin(self, answer: str) -> bool:
        """Return whether a response tells it to join again."""
        raise NotImplementedError

    def beat(self) -> bool:
        """Send a heartbeat; False if that made it join again."""
        answer = self._ask(f"HEARTBEAT {self._here}")
        if answer.startswith("OK"):
            return True
        assert self.must_rejoin(answer), answer
        self.join()
        return False

    def commit(self) -> None:
        """Commit 10 for each of its partitions; it may have to join again first."""
        answer = self._commit()
        if not answer.startswith("OK") and "offset_regression" not in answer:
            assert self.must_rejoin(answer), answer
            self.join()
            answer = self._commit()
            assert answer.startswith("OK"), answer

    def _commit(self) -> str:
        payload = ",".join(f"P{each}:10" for each in self.partitions)
        return self._ask(f"BATCH_COMMIT {self._here} {payload}") if payload else "OK"

    def leave(self) -> None:
        """Leave without the generation."""
        answer = self._ask(f"LEAVE_GROUP {self._place} member={self.member_id}")
        assert answer.startswith("OK "), answer


class JavaMember(Member):
    """Joins by its own name; a response to a join must match as a whole."""

    def join(self) -> None:
        """Join without a generation, always by its name."""
        answer = self._ask(f"JOIN_GROUP {self._place} member={self._name}")
        found = _JAVA_JOINED.fullmatch(answer)
        assert found, answer
        self.generation, self.member_id = int(found[1]), found[2]
        numbers = found[3] or ""
        if not numbers:
            synced = re.search(r"\[([\d ]*)\]", self._ask(f"SYNC_GROUP {self._here}"))
            numbers = synced[1] if synced else ""
        self.partitions = [int(each) for each in numbers.split()]

    def must_rejoin(self, answer: str) -> bool:
        """Search for words anywhere in the response."""
        return any(each in answer for each in _JAVA_REJOINS)


class PythonMember(Member):
    """Joins again by the id it was given; parses tokens."""

    def join(self) -> None:
        """Join without a generation."""
        answer = self._ask(f"JOIN_GROUP {self._place} member={self.member_id or self._name}")
        assert answer.startswith("OK"), answer
        tokens = dict(each.split("=", 1) for each in answer.split() if "=" in each)
        self.generation, self.member_id = int(tokens["generation"]), tokens["member"]
        if not (listed := re.search(r"\[([^\]]*)\]", answer)) or not listed[1]:
            listed = re.search(r"\[([^\]]*)\]", self._ask(f"SYNC_GROUP {self._here}"))
        numbers = listed[1] if listed else ""
        self.partitions = [int(each) for each in numbers.replace(",", " ").split()]

    def must_rejoin(self, answer: str) -> bool:
        """Compare the second word."""
        return answer.split()[1] in _CODES_TO_REJOIN


class GoMember(Member):
    """Synchronizes with the generation it is told; joins with one if that fails."""

    def join(self) -> None:
        """Join, with its generation if it had one (a "resumption")."""
        named = f"{self._place} member={self.member_id or self._name}"
        resumed = f" generation={self.generation}" if self.member_id else ""
        self._take(self._ask(f"JOIN_GROUP {named}{resumed}"))

    def _take(self, answer: str) -> None:
        text, _, rest = answer.partition(" assignments=[")
        numbers, _, rest = rest.partition("]")
        fields = go_ok(f"{text}{rest}", "generation", "member")
        self.generation, self.member_id = int(fields["generation"]), fields["member"]
        self.partitions = [int(each) for each in numbers.split()]

    def must_rejoin(self, answer: str) -> bool:
        """Use the generation named in a mismatch; any other error makes it join again."""
        return answer.split()[1] in _CODES_TO_REJOIN

    def beat(self) -> bool:
        """Send a heartbeat; False if that made it synchronize or join again."""
        answer = self._ask(f"HEARTBEAT {self._here}")
        if answer.startswith("OK"):
            return True
        assert self.must_rejoin(answer), answer
        current = re.search(r" current=(\d+)", answer)
        if current:
            self.generation = int(current[1])
            self._take(self._ask(f"SYNC_GROUP {self._here}"))
        else:
            self.join()
        return False

    def leave(self) -> None:
        """Leave with the generation, which may be an old one."""
        answer = self._ask(f"LEAVE_GROUP {self._here}")
        if "GEN_MISMATCH" in answer:
            self.beat()
            answer = self._ask(f"LEAVE_GROUP {self._here}")
        assert answer.startswith("OK "), answer

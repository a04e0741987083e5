"""Histories of a log without faults, whatever its clients and crashes do.

`Log` is a minimal broker: a list of records per partition, and a flag for each committed one.
Whether a response is received, lost, an error or repeated is drawn at random.
"""

from random import Random
from typing import Any

from tests.histories.notation import HERE, Step, step

PARTITIONS = 2
TIMES = 40  # something happens


class Log:
    """A log, its clients, and the history of both."""

    def __init__(self, random: Random) -> None:
        """Begin empty."""
        self.steps: list[Step] = []
        self._random = random
        self._records: list[list[tuple[str | None, bool]]] = [[] for _ in range(PARTITIONS)]
        self._numbers = 0
        self._transactions = 0
        self._committed = 0
        self._acked_commit = -1

    def run(self) -> list[Step]:
        """Run random actions, and finally read everything."""
        deeds = (self.send, self.transact, self.read_some, self.commit, self.crash, self.show)
        self.send("ok")
        for _ in range(TIMES):
            self._random.choice(deeds)()
        self.transact("committed")
        self.commit("ok")
        self.show()
        for partition in range(PARTITIONS):
            self.read_all("all", partition)
            self.read_all("dirty", partition, isolation="uncommitted")
        return self.steps

    def say(self, process: str, f: str, type_: str = "ok", **value: Any) -> None:
        """Record an operation."""
        self.steps.append(step(process, f, type_, **value))

    def _values(self) -> list[str]:
        first = self._numbers
        self._numbers += self._random.randint(1, 3)
        return [f"v{each}" for each in range(first, self._numbers)]

    def _append(self, partition: int, values: list[str | None], *, is_committed: bool) -> int:
        log = self._records[partition]
        log.extend((each, is_committed) for each in values)
        return len(log) - len(values)

    def send(self, outcome: str | None = None) -> None:
        """Send outside transactions; plain senders may repeat what was not acknowledged."""
        partition = self._random.randrange(PARTITIONS)
        delivery = self._random.choice(("idempotent", "once", "again"))
        values = self._values()
        what: dict[str, Any] = {
            "topic": HERE[0],
            "partition": partition,
            "values": values,
            "delivery": delivery,
        }
        self.say(delivery, "send", "invoke", **what)
        outcome = outcome or self._random.choice(("ok", "ok", "fail", "lost", "unanswered"))
        if outcome == "fail":
            self.say(delivery, "send", "fail", **what)
            return
        offset = -1
        if outcome != "lost":
            offset = self._append(partition, [*values], is_committed=True)
        if outcome != "ok":
            self.crash()
            if outcome == "lost" or delivery == "once":
                return
            self.say(delivery, "send", "invoke", **what)
            if delivery == "again":
                offset = self._append(partition, [*values], is_committed=True)
        self.say(delivery, "send", "ok", **what, offset=offset)

    def transact(self, outcome: str | None = None) -> None:
        """Run a transaction over all partitions, whose end may not be acknowledged."""
        self._transactions += 1
        what: dict[str, Any] = {"transaction": f"T{self._transactions}"}
        begun: dict[str, Any] = {**what, "transactional_id": "T", "epoch": self._transactions}
        self.say("writer", "begin", **begun)
        outcome = outcome or self._random.choice(("committed", "unanswered", "aborted", "left"))
        is_committed = outcome in {"committed", "unanswered"}
        for partition in range(PARTITIONS):
            values = self._values()
            sent: dict[str, Any] = {
                "topic": HERE[0],
                "partition": partition,
                "values": values,
                "delivery": "idempotent",
                **what,
            }
            self.say("writer", "send", "invoke", **sent)
            offset = self._append(partition, [*values], is_committed=is_committed)
            self.say("writer", "send", "ok", **sent, offset=offset)
        if outcome != "left":
            self.say("writer", "end", "invoke", **what, commit=is_committed)
        if outcome in {"committed", "aborted"}:
            self.say("writer", "end", "ok", **what, commit=is_committed)
        else:
            self.crash()
        for partition in range(PARTITIONS):
            self._append(partition, [None], is_committed=False)  # its marker

    def read_some(self) -> None:
        """Let a reader seek and poll a few times."""
        self.read_all("some", self._random.randrange(PARTITIONS), whole=False)

    def read_all(
        self, process: str, partition: int, *, isolation: str = "committed", whole: bool = True
    ) -> None:
        """Read from a position, in polls of random sizes."""
        where: dict[str, Any] = {"topic": HERE[0], "partition": partition}
        log = self._records[partition]
        start = 0 if whole else self._random.randint(0, len(log))
        end = len(log) if whole else self._random.randint(start, len(log))
        self.say(process, "assign", **where, position=start)
        records = [
            [offset, value]
            for offset, (value, is_committed) in enumerate(log[start:end], start)
            if value is not None and (is_committed or isolation == "uncommitted")
        ]
        while records:
            size = self._random.randint(1, len(records))
            taken, records = records[:size], records[size:]
            self.say(process, "poll", **where, isolation=isolation, records=taken)
        if whole:
            self.say(process, "poll", **where, isolation=isolation, records=[], next=end, end=True)

    def commit(self, outcome: str | None = None) -> None:
        """Commit a higher offset of a group, and fetch it."""
        what: dict[str, Any] = {"group": "g", "topic": HERE[0], "partition": 0}
        self._committed += self._random.randint(1, 5)
        self.say("member", "commit", "invoke", **what, offset=self._committed)
        if (outcome or self._random.choice(("ok", "lost"))) == "ok":
            self.say("member", "commit", **what, offset=self._committed)
            self._acked_commit = self._committed
        else:
            self.crash()
        self.say("member", "fetch_committed", **what, offset=self._acked_commit)

    def crash(self) -> None:
        """Kill and restart the broker."""
        self.say("nemesis", "crash", "info", kind="kill")
        self.say("nemesis", "heal", "info")

    def show(self) -> None:
        """List the ends of a log."""
        partition = self._random.randrange(PARTITIONS)
        latest = len(self._records[partition])
        where: dict[str, Any] = {"topic": HERE[0], "partition": partition}
        self.say("asker", "list_offsets", **where, earliest=0, latest=latest, stable=latest)

"""The faults that a test has asked for, and which requests they hit. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

# Requests of the fixture's own client are never hit.
OWN_CLIENT_ID: Final = "polylog-testing"

# When a connection is closed: without serving the request; served, but inside of the response;
# served, but without a response.
BEFORE: Final = "before"
DURING: Final = "during"
AFTER: Final = "after"

Place = tuple[str, int | None]  # a topic, and one of its partitions where the request names them


@dataclass
class Rule:
    """One fault.

    Attributes:
        api: the API's name; empty for all APIs.
        topic: hits only what a request wants of this topic; empty for all.
        partition: the same, of this partition.
        client_id: hits only requests with this client id; empty for all.
        count: how many requests it hits; None for all until it is removed.
        error: the error code's number; 0 for none.
        latency_ms: how much later the request is served.
        disconnect: BEFORE, DURING or AFTER; empty for no disconnect.
        hits: the requests that it has hit.
    """

    api: str = ""
    topic: str = ""
    partition: int | None = None
    client_id: str = ""
    count: int | None = None
    error: int = 0
    latency_ms: int = 0
    disconnect: str = ""
    hits: int = 0

    def concerns(self, api: str, client_id: str | None) -> bool:
        """Whether it can hit requests of an API and a client."""
        return (
            self.api in {"", api}
            and self.client_id in {"", client_id}
            and (self.count is None or self.hits < self.count)
        )

    def hits_place(self, place: Place) -> bool:
        """Whether it hits what a request wants of a topic or partition."""
        topic, partition = place
        return self.topic in {"", topic} and self.partition in {None, partition}

    @property
    def has_place(self) -> bool:
        """Whether it hits a part of a request."""
        return bool(self.topic) or self.partition is not None


@dataclass
class Rules:
    """All faults in force."""

    by_number: dict[int, Rule] = field(default_factory=dict)
    last_number: int = 0

    def add(self, rule: Rule) -> int:
        """Add a fault; return its number."""
        self.last_number += 1
        self.by_number[self.last_number] = rule
        return self.last_number

    def concerning(self, api: str, client_id: str | None) -> list[Rule]:
        """Return the rules that can hit a request."""
        if client_id == OWN_CLIENT_ID:
            return []
        return [each for each in self.by_number.values() if each.concerns(api, client_id)]


def hit(rules: Collection[Rule], places: Collection[Place]) -> list[Rule]:
    """Return the rules that hit a request with these places, and count them."""
    found = [each for each in rules if not each.has_place or any(map(each.hits_place, places))]
    for each in found:
        each.hits += 1
    return found

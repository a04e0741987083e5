"""The member id of a Cursus client that joins again with its own name.

In the original every join with a suffix creates a new member; its generation makes the others join
again as further new members, without end. Here a client that joins after STALE_GENERATION keeps its
member id:

    join c        -> c-1111, generation 1
    join d        -> d-2222, generation 2
    c-1111 calls with generation 1  -> STALE_GENERATION join c        -> c-1111 again, generation 2

Several members may have one name. A join takes the id of the member of that name that got the error
first and has not rejoined; it does not matter which process has which id.
"""

import re
from collections.abc import Collection, Iterable

_SUFFIX = re.compile(r"-[0-9]{4}\Z")
_SUFFIXES = 10_000


def name_without_suffix(member_id: str) -> str:
    """Return the id without its suffix."""
    return _SUFFIX.sub("", member_id)


def unique_member_id(name: str, suffix: str, taken: Collection[str]) -> str:
    """Return an unused id for a new member; fewer ids are taken than there are suffixes."""
    if not suffix:
        return name
    member_id = f"{name}-{suffix}"
    while member_id in taken:
        suffix = f"{(int(suffix) + 1) % _SUFFIXES:04}"
        member_id = f"{name}-{suffix}"
    return member_id


def only_member_named(name: str, member_ids: Iterable[str]) -> str:
    """Return the only member of that name; the name itself if there is none, or several."""
    found = [each for each in member_ids if name_without_suffix(each) == name]
    return found[0] if len(found) == 1 else name


class PendingRejoin:
    """Members that have to join again and have not done so, in the order of their errors.

    This is not stored: a member that got its error before a load becomes a new member.
    """

    def __init__(self) -> None:
        """Begin without members."""
        self._members: dict[str, None] = {}

    def add(self, member_id: str) -> None:
        """Add a member that was asked to join again."""
        self._members.setdefault(member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member that has joined again, or knows the current generation."""
        self._members.pop(member_id, None)

    def retain(self, member_ids: Collection[str]) -> None:
        """Remove all that are not members any more."""
        self._members = {each: None for each in self._members if each in member_ids}

    def first_named(self, name: str, member_ids: Collection[str]) -> str | None:
        """Return the first member of that name that is among these; None: there is none."""
        found = (
            each
            for each in self._members
            if name_without_suffix(each) == name and each in member_ids
        )
        return next(found, None)

"""Which member somebody is who joins by the name it has given itself (cursus.md 1.8).

Every join of a dialect with suffixes used to make a new member, whose generation made the others
join again as yet other members, without end. So who joins because it was told to goes on as the
member that was told:

    join c        -> c-1111, generation 1
    join d        -> d-2222, generation 2
    c-1111 calls with generation 1, and is told
    join c        -> c-1111 again, generation 2

Several members may have one name. Each that was told takes the place of the one that was told first
and has not come back: which of their processes has which place matters to nobody.
"""

import re
from collections.abc import Collection, Iterable

_SUFFIX = re.compile(r"-[0-9]{4}\Z")
_SUFFIXES = 10_000


def base_of(member_id: str) -> str:
    """The id without its suffix."""
    return _SUFFIX.sub("", member_id)


def unique_id(name: str, suffix: str, taken: Collection[str]) -> str:
    """The id of a new member; fewer are taken than there are suffixes."""
    if not suffix:
        return name
    member_id = f"{name}-{suffix}"
    while member_id in taken:
        suffix = f"{(int(suffix) + 1) % _SUFFIXES:04}"
        member_id = f"{name}-{suffix}"
    return member_id


def only_one(name: str, member_ids: Iterable[str]) -> str:
    """The one member of that name; the name itself where there is none, or more than one."""
    found = [each for each in member_ids if base_of(each) == name]
    return found[0] if len(found) == 1 else name


class PendingRejoin:
    """Who was told to join again and has not come back, in the order in which they were told.

    It is not written: after a load a member that was told before it is a new one, once.
    """

    def __init__(self) -> None:
        """Nobody."""
        self._members: dict[str, None] = {}

    def tell(self, member_id: str) -> None:
        """A member has been told."""
        self._members.setdefault(member_id)

    def back(self, member_id: str) -> None:
        """A member has joined again, or knows the generation all the same."""
        self._members.pop(member_id, None)

    def keep(self, member_ids: Collection[str]) -> None:
        """Only these are members now."""
        self._members = {each: None for each in self._members if each in member_ids}

    def first_of(self, name: str, member_ids: Collection[str]) -> str | None:
        """The member of that name which was told first, if one of these was."""
        found = (each for each in self._members if base_of(each) == name and each in member_ids)
        return next(found, None)

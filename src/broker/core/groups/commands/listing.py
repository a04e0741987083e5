"""Lists of the groups of all types."""

from typing import NamedTuple

from broker.model.errors import ErrorCode


class ListGroupsRequest(NamedTuple):
    """Filters of ListGroups, in lower case; an empty filter matches all groups."""

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


class GroupListing(NamedTuple):
    """A row of ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListGroupsResponse(NamedTuple):
    """The groups of one coordinator partition that pass the filters."""

    error: ErrorCode
    groups: tuple[GroupListing, ...] = ()

"""Who may do what: users, permissions, quotas, and the audit of all of it."""

from typing import NamedTuple


class Security(NamedTuple):
    """The parts of access control; a part that is None is not configured, and costs nothing."""

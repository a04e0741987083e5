"""Who may do what: the parts of access control that protocols use, in one tuple, without logic."""

from typing import NamedTuple


class Security(NamedTuple):
    """The parts of access control; a part that is None is not configured, and costs nothing."""

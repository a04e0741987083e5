"""Who may do what: users, permissions, quotas, and the audit of all of it."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.core.security.quotas.client_quotas import ClientQuotas


class Security(NamedTuple):
    """The parts of access control; a part that is None is not configured, and costs nothing."""

    quotas: "ClientQuotas | None" = None

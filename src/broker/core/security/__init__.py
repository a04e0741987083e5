"""Who may do what: users, permissions, quotas, and the audit of all of it."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.core.security.audit import Audit
    from broker.core.security.authorizer import Authorizer
    from broker.core.security.logins import Logins
    from broker.core.security.quotas.client_quotas import ClientQuotas
    from broker.core.security.tokens import Tokens
    from broker.core.security.users import Users


class Security(NamedTuple):
    """The parts of access control; a part that is None is not configured, and costs nothing."""

    authorizer: "Authorizer | None" = None
    audit: "Audit | None" = None
    users: "Users | None" = None
    tokens: "Tokens | None" = None
    quotas: "ClientQuotas | None" = None
    logins: "Logins | None" = None  # None: no listener has a login

from broker._native.log.permissions cimport Permissions
from broker._native.wire.connection cimport Connection


cdef inline Permissions permissions_of(Connection connection):
    """Return what the client of a connection is known to be allowed; None: everything.

    Without an authorizer that is one test of a flag. Its session knows who the client is, which may
    change with a login.
    """
    cdef Permissions known
    if not connection.poller.authorizes:
        return None
    known = <Permissions?>connection.session.permissions
    return None if known.is_unlimited else known

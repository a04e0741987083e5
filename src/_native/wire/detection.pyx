"""Protocol detection: which protocol of this port a connection speaks, by its first bytes.

Each protocol recognizes its own first bytes (NativeProtocol.recognizes). The protocols are asked in
the order of broker.model.protocol_names, and the first that does not answer no decides: if it needs
more bytes, the connection waits for them. Nothing consumes bytes. TLS comes before all of them: it
is not served on a listener without it, and on others these are the bytes that it had encrypted.

docs/decisions/0003-one-port.md has the first bytes of all protocols and the reasons for the order.
"""

from libc.stdint cimport uint8_t

from broker._native.wire.connection cimport VERDICT_NO, VERDICT_YES, NativeProtocol, Verdict


cdef NativeProtocol protocol_of(
        dict protocols, const uint8_t* data, size_t size, bint* is_decided):
    """Return the protocol of a connection's first bytes; None if none is served or none decided."""
    cdef NativeProtocol protocol
    cdef Verdict verdict
    is_decided[0] = False
    if size == 0:
        return None
    if data[0] == 0x16 and (size < 2 or data[1] == 0x03):
        is_decided[0] = size >= 2   # a handshake record of version 3.x, which is SSL 3 or TLS 1
        return None
    for protocol in protocols.values():
        verdict = protocol.recognizes(data, size)
        if verdict != VERDICT_NO:
            is_decided[0] = verdict == VERDICT_YES
            return protocol if verdict == VERDICT_YES else None
    is_decided[0] = True
    return None


def detect(dict protocols not None, bytes data not None):
    """Return the name of the protocol of a connection's first bytes; "" if none is served.

    None: more bytes are needed to decide. `protocols` are as in Poller.serve_with.
    """
    cdef bint is_decided = False
    cdef NativeProtocol found = protocol_of(protocols, data, len(data), &is_decided)
    if not is_decided:
        return None
    return next((name for name, each in protocols.items() if each is found), "")

"""A client that renews its keys again and again (TLS 1.3) and sends no data, in OpenSSL itself.

Run as a program: port, seconds. It prints how many times it could. Python's ssl cannot do it.
"""

import ctypes
import ctypes.util
import socket
import sys
import time

_REQUESTED = 1  # the other side is to renew its keys, too
_AT_ONCE = 100


def main() -> None:
    """Connect, and send until the connection or the time ends."""
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    library = ctypes.CDLL(ctypes.util.find_library("ssl") or "libssl.so.3")
    for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
        getattr(library, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_client_method())))
    connection = ctypes.c_void_p(library.SSL_new(context))
    renewed = 0
    with socket.create_connection(("127.0.0.1", port), 30) as plain:
        plain.setblocking(True)
        library.SSL_set_fd(connection, plain.fileno())
        if library.SSL_connect(connection) != 1:
            raise SystemExit("no handshake")
        print("begun", flush=True)
        until = time.monotonic() + seconds
        is_open = True
        while is_open and time.monotonic() < until:
            for _ in range(_AT_ONCE):
                library.SSL_key_update(connection, _REQUESTED)
                is_open = library.SSL_do_handshake(connection) == 1
                if not is_open:
                    break
                renewed += 1
    print(renewed)


if __name__ == "__main__":
    main()

"""How long the certificates of a peer may be: a limit of OpenSSL that the ssl module cannot set.

As soon as a peer announces its certificates, OpenSSL makes room for all of them: for up to 100 KiB,
before the peer has proven anything. SSL_CTX_set_max_cert_list sets another limit; it is the macro

    SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_CERT_LIST, bytes, NULL)

The SSL_CTX of a context is the first field of its object, in every version of CPython.
"""

import _ssl
import ctypes
import ssl
from typing import Final

_GET_MAX_CERT_LIST: Final = 50
_SET_MAX_CERT_LIST: Final = 51


def limit_certificates(context: ssl.SSLContext, size_max: int) -> bool:
    """Refuse longer certificates of a peer; return False if this OpenSSL cannot be reached."""
    control(context, _SET_MAX_CERT_LIST, size_max)
    return control(context, _GET_MAX_CERT_LIST, 0) == size_max


def control(context: ssl.SSLContext, command: int, number: int) -> int | None:
    """Call SSL_CTX_ctrl of the library that the ssl module uses; None if it does not show it."""
    file = getattr(_ssl, "__file__", None)  # None: it is a part of the interpreter
    try:
        function = ctypes.PyDLL(file).SSL_CTX_ctrl
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p)
    function.restype = ctypes.c_long
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    return int(function(pointer, command, number, None))

"""The SSLContext of a listener, and that of this broker's connections to others."""

import logging
import ssl
from typing import NamedTuple

from broker.core.tls.certificates import Certificate
from broker.core.tls.stores import (
    KeyStore,
    RevocationLists,
    TrustStore,
    read_key_store,
    read_revocation_lists,
    read_trust_store,
)
from broker.model.config import Values
from broker.model.errors import ConfigError
from broker.model.tls_limits import TLS_CERTIFICATES_BYTES_MAX

_log = logging.getLogger(__name__)
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# Of TLS 1.2: with forward secrecy and authenticated encryption (RFC 9325, section 4.2).
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
# Those of TLS 1.3, which the ssl module of Python cannot choose from.
_CIPHERS_13 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}


class Secured(NamedTuple):
    """The contexts of a listener, and the keys that they were made of."""

    of_clients: ssl.SSLContext  # of accepted connections
    to_brokers: ssl.SSLContext | None  # of those that this broker opens; None: it opens none
    keys: KeyStore
    revoked: RevocationLists | None

    @property
    def certificate(self) -> Certificate:
        """The certificate that peers are shown."""
        return self.keys.certificate


def secured(
    settings: Values, client_auth: str, where: str, *, is_of_brokers: bool = False
) -> Secured:
    """Make the contexts of a listener; ConfigError if its keys or settings do not allow them.

    Args:
        settings: those in force for the listener.
        client_auth: ssl.client.auth.
        where: whose settings they are, for messages.
        is_of_brokers: whether brokers reach each other over the listener.
    """
    keys, trust = read_key_store(settings, where), read_trust_store(settings, where)
    revoked = read_revocation_lists(settings, where)
    if trust is None and client_auth != "none":
        raise ConfigError(
            f"{where}: ssl.client.auth={client_auth} needs the authorities of the clients'"
            " certificates: set ssl.truststore.location"
        )
    of_clients = _context(ssl.PROTOCOL_TLS_SERVER, settings, where, keys, trust, revoked)
    of_clients.verify_mode = _CLIENT_AUTH[client_auth]
    if client_auth != "none":
        _limit_certificates(of_clients, where)
    if not is_of_brokers:
        return Secured(of_clients, None, keys, revoked)
    if trust is None:
        raise ConfigError(
            f"{where}: brokers check each other's certificates: set ssl.truststore.location"
        )
    to_brokers = _context(ssl.PROTOCOL_TLS_CLIENT, settings, where, keys, trust, revoked)
    to_brokers.check_hostname = settings.text("ssl.endpoint.identification.algorithm") == "https"
    return Secured(of_clients, to_brokers, keys, revoked)


def _context(
    kind: int,
    settings: Values,
    where: str,
    keys: KeyStore,
    trust: TrustStore | None,
    revoked: RevocationLists | None,
) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    _restrict(context, settings, where)
    keys.load_into(context)
    if trust is not None:
        trust.load_into(context)
    if revoked is not None:
        revoked.load_into(context)
    return context


def _limit_certificates(context: ssl.SSLContext, where: str) -> None:
    # Imported where it is needed: ctypes is of no use to a listener that asks for no certificates.
    from broker.core.tls.certificate_sizes import limit_certificates  # noqa: PLC0415

    if not limit_certificates(context, TLS_CERTIFICATES_BYTES_MAX):
        _log.warning("certificates of clients are not limited: listener=%s", where)


def _restrict(context: ssl.SSLContext, settings: Values, where: str) -> None:
    """Set what any peer may negotiate."""
    versions = set(settings.words("ssl.enabled.protocols"))
    suites = settings.words("ssl.cipher.suites")
    older = [_openssl_name(each) for each in suites if each not in _CIPHERS_13]
    if suites:
        versions -= {"TLSv1.3"} if len(older) == len(suites) else set()
        versions -= set() if older else {"TLSv1.2"}
    if not versions:
        raise ConfigError(f"{where}: ssl.enabled.protocols and ssl.cipher.suites leave nothing")
    context.minimum_version = _VERSIONS[min(versions)]
    context.maximum_version = _VERSIONS[max(versions)]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        context.set_ciphers(":".join(older) or _CIPHERS)
    except ssl.SSLError:
        raise ConfigError(
            f"{where}: ssl.cipher.suites: OpenSSL has none of {', '.join(older)}"
        ) from None


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2 that may have its IANA name.

    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384.
    """
    exchange, separator, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not separator:
        return suite
    cipher = cipher.replace("AES_128_", "AES128_").replace("AES_256_", "AES256_")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    exchange = "" if exchange == "RSA" else f"{exchange}_"
    return f"{exchange}{cipher}".replace("_", "-").replace("-CBC-", "-")

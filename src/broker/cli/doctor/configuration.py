"""A configuration: its file, its keys and certificates, and the addresses it listens on."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

from broker.cli.checks import OK, PROBLEM, WARNING, Check
from broker.cli.http_pages import page
from broker.core.tls.stores import read_key_store, read_trust_store
from broker.model.address import Address
from broker.model.config import Config
from broker.model.errors import ConfigError, Unreachable
from broker.model.explanation import ERROR, lint
from broker.model.explanation import WARNING as LINT_WARNING
from broker.model.listener import ListenerConfig
from broker.model.secret_file import check_secret_file
from broker.model.tls_limits import TLS_EXPIRY_WARNING_DAYS
from broker.server.sockets import bind_all

# Settings that name files with a password or a key, which are no stores of listeners.
_SECRET_FILES: Final = ("polylog.metadata.password.file", "polylog.audit.key.file")
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared


def file_checks(file: Path) -> Iterator[Check]:
    """Look at a file as `broker config lint` does."""
    severities = {ERROR: PROBLEM, LINT_WARNING: WARNING}
    found = [each for each in lint(file) if each.severity in severities]
    for each in found:
        where = f"{file}:{each.line}" if each.line else str(file)
        reason = f"{each.name}: {each.text}" if each.name else each.text
        fix = f"correct it; `broker config explain {each.name}` explains it" if each.name else ""
        yield Check("config", severities[each.severity], where, reason, fix or "correct the file")
    if not found:
        yield Check("config", OK, str(file), "every line of it is understood", "")


def key_checks(config: Config) -> Iterator[Check]:
    """Look at the files with keys and passwords, and at the certificates."""
    for name in _SECRET_FILES:
        file = config.text_or_none(name)
        if file:
            try:
                check_secret_file(Path(file), name)
            except ConfigError as error:
                yield _bad_key(name, error)
    for listener in {each.name: each for each in config.listeners}.values():
        if listener.security.has_tls:
            yield from _certificates(config, listener)


def _certificates(config: Config, listener: ListenerConfig) -> Iterator[Check]:
    name = f"listener {listener.name}"
    settings = config.of_listener(listener)
    try:
        read_trust_store(settings, name)
        certificate = read_key_store(settings, name).certificate
    except ConfigError as error:
        yield _bad_key(name, error)
        return
    left = (certificate.expires - datetime.now(UTC)).days
    severity, fix = OK, ""
    if left < max(TLS_EXPIRY_WARNING_DAYS):
        severity = PROBLEM if left < min(TLS_EXPIRY_WARNING_DAYS) else WARNING
        fix = "renew it: a running broker takes the new file without a restart"
    state = f"expires in {left} days" if left >= 0 else "has expired"
    yield Check(
        "certificate",
        severity,
        name,
        f"the certificate of {certificate.subject} {state} ({certificate.expires:%Y-%m-%d})",
        fix,
    )


def _bad_key(name: str, error: ConfigError) -> Check:
    return Check("keys", PROBLEM, name, str(error), "a start is refused until the file is right")


def address_checks(config: Config) -> Iterator[Check]:
    """Look whether the addresses are free, or a broker listens there; and who can find them."""
    for listener in config.listeners:
        yield _port(listener)
        if listener.advertised is not None:
            yield _resolved(listener.advertised)


def _port(listener: ListenerConfig) -> Check:
    address = listener.address
    try:
        for each in bind_all(address, listens=False):
            each.close()
    except ConfigError as error:
        if _is_broker(address):
            return Check("port", OK, str(listener), "a broker listens there", "")
        if listener.security.has_tls or listener.security.has_sasl:
            fix = "if this broker does not run, stop what listens there: `ss -ltnp`"
            return Check("port", WARNING, str(listener), str(error), fix)
        fix = "find out what listens there: `ss -ltnp`; stop it, or choose another port"
        return Check("port", PROBLEM, str(listener), str(error), fix)
    return Check("port", OK, str(listener), "it is free", "")


def _is_broker(address: Address) -> bool:
    host = _LOOPBACK.get(address.host, address.host)
    try:
        return page(Address(host, address.port), "/health/live").status == HTTPStatus.OK
    except Unreachable:
        return False


def _resolved(address: Address) -> Check:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        return Check(
            "advertised",
            PROBLEM,
            str(address),
            f"its name is not found from here: {error.strerror}",
            "clients get this name: correct advertised.listeners, or add it to DNS",
        )
    hosts = ", ".join(sorted({str(each[4][0]) for each in found}))
    return Check("advertised", OK, str(address), f"clients get it, and find {hosts}", "")

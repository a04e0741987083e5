"""How a client is secured: TLS, and who it logs in as, from a file of Kafka's client settings.

    security.protocol=SASL_SSL
    ssl.truststore.type=PEM
    ssl.truststore.location=ca.pem
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=...;

Files that Kafka's own tools take with --command-config are taken as they are. PEM is the only type
of stores. Errors show no value of a password.
"""

import ssl
from collections.abc import Mapping
from typing import NamedTuple

from broker.client.sasl import CLIENT_MECHANISMS, Credentials
from broker.model.errors import ConfigError
from broker.model.jaas import parse_jaas
from broker.model.listener import SecurityProtocol


class Secured(NamedTuple):
    """How a connection is secured.

    Attributes:
        tls: the context of TLS; None: without.
        checks_host: whether the broker's certificate must have the host's name.
        credentials: who logs in; None: nobody.
    """

    tls: ssl.SSLContext | None = None
    checks_host: bool = True
    credentials: Credentials | None = None


def parse_secured(properties: Mapping[str, str]) -> Secured:
    """Return what the settings say; raise ConfigError."""
    name = properties.get("security.protocol", "PLAINTEXT").upper()
    try:
        protocol = SecurityProtocol[name]
    except KeyError:
        known = ", ".join(SecurityProtocol.__members__)
        raise ConfigError(f"security.protocol={name}: expected one of {known}") from None
    checks_host = properties.get("ssl.endpoint.identification.algorithm", "https") != ""
    return Secured(
        _context(properties, checks_host=checks_host) if protocol.has_tls else None,
        checks_host,
        _credentials(properties) if protocol.has_sasl else None,
    )


def _credentials(properties: Mapping[str, str]) -> Credentials:
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in CLIENT_MECHANISMS:
        raise ConfigError(f"sasl.mechanism: expected one of {', '.join(CLIENT_MECHANISMS)}")
    line = properties.get("sasl.jaas.config")
    if line is None:
        raise ConfigError('sasl.jaas.config: expected MODULE required username="" password="";')
    options = parse_jaas(line).options
    if not options.get("username") or "password" not in options:
        raise ConfigError("sasl.jaas.config has no username or no password")
    is_token = options.get("tokenauth", "").lower() == "true"
    return Credentials(mechanism, options["username"], options["password"], is_token)


def checking_context(cafile: str | None, cadata: str | None = None) -> ssl.SSLContext:
    """Return the context of a client that checks its servers; OSError, ValueError as of ssl.

    Since Python 3.13 the default is to refuse authorities without all extensions of RFC 5280. Many
    of companies have none, and Kafka's own clients accept them: so does every version here.
    """
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _context(properties: Mapping[str, str], *, checks_host: bool) -> ssl.SSLContext:
    for store in ("ssl.truststore", "ssl.keystore"):
        is_given = any(each.startswith(f"{store}.") for each in properties)
        if is_given and properties.get(f"{store}.type") != "PEM":
            raise ConfigError(f"{store}.type: expected PEM")
    try:
        context = checking_context(
            properties.get("ssl.truststore.location"),
            properties.get("ssl.truststore.certificates"),
        )
        context.check_hostname = checks_host
        keys = properties.get("ssl.keystore.location")
        if keys is not None:
            # Without a password OpenSSL would ask for one, wherever this process runs.
            context.load_cert_chain(keys, password=properties.get("ssl.key.password", ""))
    except (OSError, ValueError) as error:  # ssl.SSLError is one; ValueError: too long a password
        raise ConfigError(f"the stores of certificates cannot be read: {error}") from None
    return context

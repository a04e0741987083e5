"""Rows of the table of settings that protect a broker: listeners, TLS, SASL, ACLs, quotas, audit.

Their names are Kafka's. Where `is_per_listener` says so, `listener.name.<name>.` may precede them.
"""

from broker.model import security_limits
from broker.model.setting import INT_MAX, Kind, Setting

# Formatted by hand, so that rows stay short.
# fmt: off
_LISTENERS = (
    Setting("listeners", Kind.LIST, ("localhost:9092",),
            doc="[NAME://]HOST:PORT to listen on; localhost means IPv4 and IPv6, port 0 a free"
                " port. A name is a security protocol, one of listener.security.protocol.map, or"
                " a wire protocol that the listener is restricted to."),
    Setting("advertised.listeners", Kind.LIST, (),
            doc="[NAME://]HOST:PORT for clients, by the listener's name or in the order of"
                " listeners; empty: the address they connected to."),
    Setting("listener.security.protocol.map", Kind.LIST, (),
            doc="NAME:PROTOCOL for names of listeners; PROTOCOL is PLAINTEXT, SSL, SASL_PLAINTEXT"
                " or SASL_SSL, and these are names without an entry."),
    Setting("inter.broker.listener.name", Kind.STRING, None,
            doc="Name of the listener over which brokers of a cluster reach each other; unset: the"
                " first with security.inter.broker.protocol."),
    Setting("security.inter.broker.protocol", Kind.STRING, None,
            choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
            doc="Security protocol of the listener over which brokers reach each other; unset: that"
                " of the first listener."),
    Setting("polylog.principal", Kind.STRING, None, is_per_listener=True,
            doc="Principal (User:NAME) of connections that neither log in nor have a certificate,"
                " for wire protocols without a login; unset: User:ANONYMOUS."),
)

_TLS = (
    Setting("ssl.keystore.type", Kind.STRING, "PEM", choices=("PEM", "PKCS12"),
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Format of the key store. PEM: one file with the private key (PKCS#8), the"
                " certificate and those of intermediate authorities. PKCS12 needs the extra tls."),
    Setting("ssl.keystore.location", Kind.STRING, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="File with the broker's private key and certificates; read again when it changes."),
    Setting("ssl.keystore.password", Kind.PASSWORD, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Password of a PKCS12 key store."),
    Setting("ssl.keystore.key", Kind.PASSWORD, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Private key (PEM, PKCS#8) in place of a file."),
    Setting("ssl.keystore.certificate.chain", Kind.PASSWORD, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Certificate (PEM) of ssl.keystore.key, before those of intermediate authorities."),
    Setting("ssl.key.password", Kind.PASSWORD, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Password of an encrypted private key."),
    Setting("ssl.truststore.type", Kind.STRING, "PEM", choices=("PEM", "PKCS12"),
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Format of the trust store; PKCS12 needs the extra tls."),
    Setting("ssl.truststore.location", Kind.STRING, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="File with the certificates of authorities that peers' certificates are checked"
                " with; read again when it changes."),
    Setting("ssl.truststore.password", Kind.PASSWORD, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Password of a PKCS12 trust store."),
    Setting("ssl.truststore.certificates", Kind.PASSWORD, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Certificates (PEM) of authorities in place of a file."),
    Setting("ssl.client.auth", Kind.STRING, "none", choices=("none", "requested", "required"),
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Whether clients are asked for a certificate. requested: one without is"
                " User:ANONYMOUS, a wrong one is refused."),
    Setting("ssl.enabled.protocols", Kind.LIST, ("TLSv1.2", "TLSv1.3"),
            choices=("TLSv1.2", "TLSv1.3"), is_per_listener=True,
            doc="Versions of TLS."),
    Setting("ssl.cipher.suites", Kind.LIST, (), is_per_listener=True,
            doc="Cipher suites by their IANA or OpenSSL names; empty: those of TLS 1.3, and of TLS"
                " 1.2 the ones with forward secrecy and authenticated encryption."),
    Setting("ssl.principal.mapping.rules", Kind.STRING, "DEFAULT", is_per_listener=True,
            doc="How the name of a client's certificate becomes a principal: RULE:PATTERN/"
                "REPLACEMENT/[LU] or DEFAULT, separated by commas; the first that matches counts."),
    Setting("ssl.endpoint.identification.algorithm", Kind.STRING, "https", choices=("https", ""),
            is_per_listener=True,
            doc="Whether this broker checks that the certificate of another broker has its host"
                " name; empty: no."),
    Setting("ssl.allow.dn.changes", Kind.BOOLEAN, False, is_per_listener=True,
            doc="Whether a renewed certificate may have another distinguished name."),
    Setting("ssl.allow.san.changes", Kind.BOOLEAN, False, is_per_listener=True,
            doc="Whether a renewed certificate may lack alternative names of the one before."),
)

_SASL: tuple[Setting, ...] = ()

_AUTHORIZER = (
    Setting("authorizer.class.name", Kind.STRING, "",
            choices=("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            doc="Whether ACLs decide what a principal may do; empty: everyone may do everything."),
)

_QUOTAS = (
    Setting("quota.window.num", Kind.INT, 11, minimum=1,
            maximum=security_limits.QUOTA_WINDOWS_MAX,
            doc="Windows over which rates of clients and of connections are measured."),
    Setting("quota.window.size.seconds", Kind.INT, 1, minimum=1,
            maximum=security_limits.QUOTA_WINDOW_SECONDS_MAX, unit="seconds",
            doc="Length of such a window."),
    Setting("controller.quota.window.num", Kind.INT, 11, minimum=1,
            maximum=security_limits.QUOTA_WINDOWS_MAX,
            doc="Windows whose quota of created and deleted partitions may be used at once."),
    Setting("controller.quota.window.size.seconds", Kind.INT, 1, minimum=1,
            maximum=security_limits.QUOTA_WINDOW_SECONDS_MAX, unit="seconds",
            doc="Length of such a window."),
    Setting("max.connections.per.ip", Kind.INT, INT_MAX, minimum=0, is_dynamic=True,
            doc="Connections of one address at the same time; above it a new one is closed."),
    Setting("max.connections.per.ip.overrides", Kind.LIST, (), is_dynamic=True,
            pattern="[0-9A-Fa-f.:]+:[0-9]+",
            doc="ADDRESS:COUNT for addresses with another max.connections.per.ip."),
    Setting("max.connection.creation.rate", Kind.INT, INT_MAX, minimum=1, is_dynamic=True,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="Connections accepted per second, over quota.window.num windows; others wait."
                " Of the broker, and with a listener's prefix of that listener."),
)

_AUDIT: tuple[Setting, ...] = ()
# fmt: on

SECURITY_SETTINGS: tuple[Setting, ...] = (
    *(*_LISTENERS, *_TLS, *_SASL),
    *(*_AUTHORIZER, *_QUOTAS, *_AUDIT),
)

"""Rows of the table of settings that protect a broker: listeners, TLS, SASL, ACLs, quotas, audit.

Their names are Kafka's. Where `is_per_listener` says so, `listener.name.<name>.` may precede them.
"""

from broker.model import limits, sasl_limits, security_limits
from broker.model.setting import DAY_MS, HOUR_MS, INT_MAX, Kind, Setting

# Formatted by hand, so that rows stay short.
# fmt: off
_LISTENERS = (
    Setting("listeners", Kind.LIST, ("localhost:9092",),
            kafka_default="PLAINTEXT://:9092",
            doc="[NAME://]HOST:PORT to listen on; localhost means IPv4 and IPv6, port 0 a free"
                " port. A name is a security protocol, one of listener.security.protocol.map, or"
                " a wire protocol that the listener is restricted to."),
    Setting("advertised.listeners", Kind.LIST, (),
            doc="[NAME://]HOST:PORT for clients, by the listener's name or in the order of"
                " listeners; empty: the address they connected to."),
    Setting("listener.security.protocol.map", Kind.LIST, (),
            doc="NAME:PROTOCOL for names of listeners; PROTOCOL is PLAINTEXT, SSL, SASL_PLAINTEXT"
                " or SASL_SSL, and these are names without an entry."),
    Setting("controller.listener.names", Kind.LIST, (),
            doc="Names of Kafka's listeners for controllers, which do not exist here: listeners and"
                " advertised listeners of these names are left out."),
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
    Setting("ssl.keystore.type", Kind.STRING, "PEM", choices=("PEM", "PKCS12", "JKS"),
            is_per_listener=True, is_dynamic_per_listener=True,
            kafka_default="JKS",
            doc="Format of the key store. PEM: one file with the private key (PKCS#8), the"
                " certificate and those of intermediate authorities. PKCS12 needs the extra tls. A"
                " PKCS12 store may be called JKS, as keytool's are; JKS's own format is not read."),
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
    Setting("ssl.truststore.type", Kind.STRING, "PEM", choices=("PEM", "PKCS12", "JKS"),
            is_per_listener=True, is_dynamic_per_listener=True,
            kafka_default="JKS",
            doc="Format of the trust store, as that of the key store."),
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
    Setting("polylog.ssl.crl.location", Kind.STRING, None,
            is_per_listener=True, is_dynamic_per_listener=True,
            doc="File (PEM) with the revocation lists of the authorities: a certificate that one of"
                " them names is refused, and so is one whose authorities do not all have a list"
                " that is in force; read again when it changes. Unset: no list is asked."),
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

_OAUTH_VALIDATORS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)

_SASL = (
    Setting("sasl.enabled.mechanisms", Kind.LIST, ("SCRAM-SHA-512", "SCRAM-SHA-256"),
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
            is_per_listener=True,
            kafka_default="GSSAPI",
            doc="How clients may log in. Kafka's default, GSSAPI, is not supported. OAUTHBEARER"
                " needs the extra oauth."),
    Setting("sasl.jaas.config", Kind.PASSWORD, None, is_per_mechanism=True,
            doc="JAAS line of a mechanism: user_NAME=PASSWORD of users of PLAIN or SCRAM, and with"
                " username and password who this broker is at other brokers. No class is loaded."),
    Setting("sasl.mechanism.inter.broker.protocol", Kind.STRING, "SCRAM-SHA-512",
            choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
            kafka_default="GSSAPI",
            doc="How brokers of a cluster log in to each other."),
    Setting("sasl.server.max.receive.size", Kind.INT, sasl_limits.LOGIN_FRAME_BYTES_MAX,
            minimum=1024, maximum=512 * limits.KIB, unit="bytes",
            kafka_default="524288",
            doc="Largest request before a login. Kafka's default is 524288; here a connection that"
                " has not logged in takes at most 64 KiB."),
    Setting("sasl.server.callback.handler.class", Kind.STRING, None, choices=_OAUTH_VALIDATORS,
            is_per_mechanism=True, applies=False,
            doc="Kafka's way to turn on OAUTHBEARER; nothing is loaded."),
    Setting("connections.max.reauth.ms", Kind.LONG, 0, minimum=0, unit="ms",
            is_per_listener=True,
            doc="Connections must log in again after this time (KIP-368); 0: only when what they"
                " logged in with expires."),
    Setting("connection.failed.authentication.delay.ms", Kind.INT, 100, minimum=0, maximum=10_000,
            unit="ms", is_per_listener=True,
            doc="How long the answer to a failed login is held back, at first; it doubles for the"
                " next ones of the same address and user."),
    Setting("sasl.oauthbearer.jwks.endpoint.url", Kind.STRING, None,
            is_per_listener=True, is_per_mechanism=True,
            doc="Keys of the authorization server as a JSON Web Key Set: file:///PATH, or https"
                " if polylog.sasl.oauthbearer.allowed.urls has it."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind.LONG, HOUR_MS, minimum=1_000,
            unit="ms", is_per_listener=True, is_per_mechanism=True,
            doc="After how long these keys are read again; also for a token with an unknown key."),
    Setting("polylog.sasl.oauthbearer.allowed.urls", Kind.LIST, (),
            is_per_listener=True, is_per_mechanism=True,
            doc="Addresses (https) from which keys may be fetched."),
    Setting("sasl.oauthbearer.expected.audience", Kind.LIST, (),
            is_per_listener=True, is_per_mechanism=True,
            doc="Audiences of which tokens must name one; empty: any."),
    Setting("sasl.oauthbearer.expected.issuer", Kind.STRING, None,
            is_per_listener=True, is_per_mechanism=True,
            doc="Who must have issued tokens; unset: whoever has signed with a known key."),
    Setting("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub",
            is_per_listener=True, is_per_mechanism=True,
            doc="Claim with the name of the principal."),
    Setting("sasl.oauthbearer.clock.skew.seconds", Kind.INT, 30, minimum=0, maximum=3_600,
            unit="seconds", is_per_listener=True, is_per_mechanism=True,
            doc="By how much the clocks of broker and authorization server may differ."),
    Setting("delegation.token.secret.key", Kind.PASSWORD, None,
            doc="Secret that delegation tokens are made with, the same at all brokers; unset: there"
                " are none."),
    Setting("delegation.token.expiry.time.ms", Kind.LONG, DAY_MS, minimum=1, unit="ms",
            doc="After how long a token expires that is not renewed."),
    Setting("delegation.token.max.lifetime.ms", Kind.LONG, 7 * DAY_MS, minimum=1, unit="ms",
            doc="After how long a token expires that is renewed."),
    Setting("delegation.token.expiry.check.interval.ms", Kind.LONG, HOUR_MS, minimum=100,
            unit="ms",
            doc="How often expired tokens are removed; they do not work before that, either."),
)

_AUTHORIZER = (
    Setting("authorizer.class.name", Kind.STRING, "",
            choices=("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            doc="Whether ACLs decide what a principal may do; empty: everyone may do everything."
                " Kafka's name of its authorizer means that of this broker."),
    Setting("super.users", Kind.STRING, "",
            doc="Principals that may do everything, whatever ACLs say, separated by semicolons:"
                " User:admin;User:broker. The brokers of a cluster must be among them, or be"
                " allowed ClusterAction."),
    Setting("allow.everyone.if.no.acl.found", Kind.BOOLEAN, False,
            doc="Whether everyone may do everything with a topic, group or other resource that no"
                " ACL is for; false: nobody but super users."),
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

_AUDIT = (
    Setting("polylog.audit.events", Kind.LIST, (),
            choices=("login", "denial", "administration", "access", "question"),
            doc="Events that the audit records; empty: there is no audit. access: reads and writes"
                " of records; question: describing and listing."),
    Setting("polylog.audit.excluded.principals", Kind.LIST, (),
            doc="Principals (User:NAME) of which only denials and failed logins are recorded."),
    Setting("polylog.audit.file", Kind.STRING, None,
            doc="File that events are appended to, as lines of JSON; unset: audit.jsonl in the data"
                " directory."),
    Setting("polylog.audit.file.max.bytes", Kind.LONG, security_limits.AUDIT_FILE_BYTES_MAX,
            minimum=1 << 20, unit="bytes",
            doc="Size from which on that file is closed and another one begun."),
    Setting("polylog.audit.files.max", Kind.INT, security_limits.AUDIT_FILES_MAX, minimum=1,
            doc="Closed files that are kept; the oldest others are removed."),
    Setting("polylog.audit.key.file", Kind.STRING, None,
            doc="File with the key of the chain of events; unset: their hashes have no key, and who"
                " can write the file can make a chain of his own."),
    Setting("polylog.audit.topic.enable", Kind.BOOLEAN, True,
            doc="Whether the events are written to the topic __audit, too."),
    Setting("polylog.audit.topic.partitions", Kind.INT, 1, minimum=1, maximum=1000,
            doc="Partitions of __audit when it is created. A broker writes to one that it leads, or"
                " else sends its events to the leader of the first."),
    Setting("polylog.audit.queue.events", Kind.INT, security_limits.AUDIT_QUEUE_EVENTS, minimum=16,
            maximum=1_000_000,
            doc="Events that wait to be written; more are dropped and counted."),
    Setting("polylog.audit.fail.closed", Kind.BOOLEAN, False,
            doc="Whether requests that have to be recorded are refused while they cannot be."),
)
# fmt: on

SECURITY_SETTINGS: tuple[Setting, ...] = (
    *(*_LISTENERS, *_TLS, *_SASL),
    *(*_AUTHORIZER, *_QUOTAS, *_AUDIT),
)

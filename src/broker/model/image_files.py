"""Files that variables of Kafka's container images name: key stores, passwords, JAAS files.

    KAFKA_SSL_KEYSTORE_FILENAME=kafka.p12       the key store is /etc/kafka/secrets/kafka.p12
    KAFKA_SSL_KEYSTORE_CREDENTIALS=password     its password is in /etc/kafka/secrets/password
    KAFKA_OPTS=-Djava.security.auth.login.config=/etc/kafka/secrets/jaas.conf

As in the images of Apache and Confluent, the first two count if a listener with TLS is advertised,
and a trust store's if certificates of clients are wanted. A JAAS file has the logins of listeners
with SASL; what is configured in another way precedes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.model.errors import ConfigError
from broker.model.given import Given
from broker.model.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE
from broker.model.listener import PREFIX, SEPARATOR, parse_protocol_map
from broker.model.secret_file import read_password_file, read_secret_file

_SECRETS: Final = Path("/etc/kafka/secrets")
_TLS_LISTENER: Final = "SSL://"
_LOGIN_FILE: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_SETTING: Final = "java.security.auth.login.config"
_CONTEXT: Final = "KafkaServer"
_MECHANISMS: Final = {
    PLAIN_MODULE: ("plain",),
    SCRAM_MODULE: ("scram-sha-256", "scram-sha-512"),
    OAUTH_MODULE: ("oauthbearer",),
}
_COMMENT: Final = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'[^'\n]*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_PART: Final = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^"'{};])"""
_SECTION: Final = re.compile(rf"\s*([\w.-]+)\s*\{{((?:\s*{_PART}+;)*)\s*\}}\s*;?")
_ENTRY: Final = re.compile(rf"\s*(([\w.$]+)\s{_PART}*;)")


def given_by_files(environment: Mapping[str, str], faults: list[str]) -> Iterator[Given]:
    """Yield locations and passwords of the stores that variables name; faults are appended."""
    if _TLS_LISTENER not in environment.get("KAFKA_ADVERTISED_LISTENERS", ""):
        return
    yield from _location(environment, "ssl.keystore")
    yield from _password(environment, "ssl.keystore", faults)
    yield from _password(environment, "ssl.key", faults)
    if environment.get("KAFKA_SSL_CLIENT_AUTH", "").strip() in ("required", "requested"):
        yield from _location(environment, "ssl.truststore")
        yield from _password(environment, "ssl.truststore", faults)


def _location(environment: Mapping[str, str], store: str) -> Iterator[Given]:
    variable = _variable(store, "FILENAME")
    if variable in environment:
        path = _SECRETS / environment[variable]
        yield Given(f"{store}.location", str(path), f"environment {variable}")


def _password(environment: Mapping[str, str], store: str, faults: list[str]) -> Iterator[Given]:
    variable = _variable(store, "CREDENTIALS")
    if variable in environment:
        try:
            text = read_password_file(_SECRETS / environment[variable], variable)
        except ConfigError as error:
            faults.append(f"environment: {error}")
        else:
            yield Given(f"{store}.password", text, f"environment {variable}")


def _variable(store: str, what: str) -> str:
    return f"KAFKA_{store.upper().replace('.', '_')}_{what}"


def logins_in_file(
    environment: Mapping[str, str], given: Sequence[Given], faults: list[str]
) -> list[Given]:
    """Return the JAAS lines of listeners with SASL that the file of KAFKA_OPTS has."""
    named = _LOGIN_FILE.search(environment.get("KAFKA_OPTS", ""))
    listeners = listeners_with_sasl(given)
    if named is None or not listeners:
        return []
    path = Path(named[1].strip("\"'"))
    try:
        sections = _sections(read_secret_file(path, _SETTING).decode())
    except UnicodeDecodeError:
        faults.append(f"environment KAFKA_OPTS: {_SETTING}={path}: it is not UTF-8 text")
        return []
    except ConfigError as error:
        faults.append(f"environment KAFKA_OPTS: {error}")
        return []
    found = []
    for listener in listeners:
        entries = sections.get(f"{listener}.{_CONTEXT}", sections.get(_CONTEXT, []))
        for module, line in entries:
            for mechanism in _MECHANISMS.get(module, ()):
                name = f"{PREFIX}{listener}.{mechanism}.sasl.jaas.config"
                found.append(Given(name, line, f"environment KAFKA_OPTS, {path}"))
    return found


def listeners_with_sasl(given: Sequence[Given]) -> list[str]:
    """Return the names of listeners with SASL, in small letters; wrong ones are told elsewhere.

    Those of controllers are none: no broker here listens there.
    """
    texts = {each.name: each.text for each in given}
    words = texts.get("listener.security.protocol.map", "")
    try:
        protocols = parse_protocol_map(word.strip() for word in words.split(",") if word.strip())
    except ConfigError:
        return []
    names = (
        word.strip().rpartition(SEPARATOR)[0] for word in texts.get("listeners", "").split(",")
    )
    controllers = texts.get("controller.listener.names", "").upper().split(",")
    return [
        name.lower()
        for name in dict.fromkeys(names)
        if name.upper() in protocols and protocols[name.upper()].has_sasl
        if name.upper() not in {each.strip() for each in controllers}
    ]


def _sections(text: str) -> dict[str, list[tuple[str, str]]]:
    """Return the entries of each section of a JAAS file: the module and the line."""
    text = _COMMENT.sub(lambda found: found[1] or " ", text)
    sections: dict[str, list[tuple[str, str]]] = {}
    at = 0
    while (section := _SECTION.match(text, at)) is not None:
        entries = _ENTRY.finditer(section[2])
        sections.setdefault(section[1], [(entry[2], entry[1]) for entry in entries])
        at = section.end()
    if text[at:].strip():
        raise ConfigError(
            f"{_SETTING}: after {len(sections)} sections there is none of the form"
            ' NAME { MODULE required name="value"; };'
        )
    return sections

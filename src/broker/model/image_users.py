"""Users that variables of bitnami's images name.

    KAFKA_CLIENT_USERS=alice,bob                users of clients; also with ; or blanks between them
    KAFKA_CLIENT_PASSWORDS=hers,his             in the same order
    KAFKA_INTER_BROKER_USER=broker              who this broker is at other brokers
    KAFKA_INTER_BROKER_PASSWORD_FILE=secret     any of these: it is what the file has

As in these images, they become the JAAS lines of the listeners with SASL: users of PLAIN and of
SCRAM alike. What the metadata store has of a user of SCRAM precedes.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.model.errors import ConfigError
from broker.model.given import Given
from broker.model.image_files import listeners_with_sasl
from broker.model.jaas import PLAIN_MODULE, SCRAM_MODULE
from broker.model.listener import PREFIX
from broker.model.scram import MECHANISMS
from broker.model.secret_file import read_password_file

_CLIENT_USERS: Final = "KAFKA_CLIENT_USERS"
_CLIENT_PASSWORDS: Final = "KAFKA_CLIENT_PASSWORDS"
_BROKER_USER: Final = "KAFKA_INTER_BROKER_USER"
_BROKER_PASSWORD: Final = "KAFKA_INTER_BROKER_PASSWORD"  # noqa: S105 (a name)
_FILE: Final = "_FILE"
_VARIABLES: Final = (_CLIENT_USERS, _CLIENT_PASSWORDS, _BROKER_USER, _BROKER_PASSWORD)
_FILES: Final = tuple(name + _FILE for name in _VARIABLES)
_ORIGIN: Final = "environment KAFKA_CLIENT_USERS, KAFKA_INTER_BROKER_USER"
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_DEFAULT_MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
_MODULES: Final = {"plain": PLAIN_MODULE} | {each.lower(): SCRAM_MODULE for each in MECHANISMS}
_SEPARATORS: Final = re.compile(r"[,;\s]+")
_NAME: Final = re.compile(r"[\w.\-@+]+")


def logins_of_users(
    environment: Mapping[str, str], given: Sequence[Given], faults: list[str], ignored: list[str]
) -> list[Given]:
    """Return what follows from users; `given` has the other settings, which precede.

    Errors are appended to `faults`; variables that are used are removed from `ignored`.
    """
    listeners = listeners_with_sasl(given)
    if not listeners or not any(each in environment for each in (*_VARIABLES, *_FILES)):
        return []
    try:
        texts = {name: _text(environment, name) for name in _VARIABLES}
        users, login = _users(texts), _login(texts)
    except ConfigError as error:
        faults.append(f"environment: {error}")
        return []
    ignored[:] = [each for each in ignored if each not in (*_VARIABLES, *_FILES)]
    settings = {each.name: each.text for each in given}
    lines = [Given(_MECHANISMS, _DEFAULT_MECHANISMS, _ORIGIN)]
    for listener in listeners:
        own = settings.get(f"{PREFIX}{listener}.{_MECHANISMS}")
        enabled = own or settings.get(_MECHANISMS, _DEFAULT_MECHANISMS)
        is_brokers = settings.get("inter.broker.listener.name", listener).lower() == listener
        for mechanism in map(str.strip, enabled.lower().split(",")):
            if line := _line(mechanism, users, login if is_brokers else None):
                name = f"{PREFIX}{listener}.{mechanism}.sasl.jaas.config"
                lines.append(Given(name, line, _ORIGIN))
    return lines


def _text(environment: Mapping[str, str], name: str) -> str:
    """Return the text of a variable, or of the file that another one names."""
    file = environment.get(name + _FILE)
    return (
        environment.get(name, "") if file is None else read_password_file(Path(file), name + _FILE)
    )


def _users(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords of clients' users; ConfigError, which shows none of them."""
    users, passwords = (
        [word for word in _SEPARATORS.split(texts[name]) if word]
        for name in (_CLIENT_USERS, _CLIENT_PASSWORDS)
    )
    if len(users) != len(passwords):
        raise ConfigError(
            f"{_CLIENT_USERS} has {len(users)} users, {_CLIENT_PASSWORDS} {len(passwords)}"
            " passwords: give one for each"
        )
    for user in users:
        if _NAME.fullmatch(user) is None:
            raise ConfigError(
                f"{_CLIENT_USERS}: {user[:100]!r} has other signs than A-Z 0-9 . _ - @ +"
            )
    return dict(zip(users, passwords, strict=True))


def _login(texts: Mapping[str, str]) -> tuple[str, str] | None:
    """Return who this broker is at others, and its password; ConfigError for one of the two."""
    given = [each for each in (_BROKER_USER, _BROKER_PASSWORD) if texts[each]]
    if len(given) == 1:
        [missing] = {_BROKER_USER, _BROKER_PASSWORD} - {*given}
        raise ConfigError(f"{given[0]} without {missing}: give both")
    return (texts[_BROKER_USER], texts[_BROKER_PASSWORD]) if given else None


def _line(mechanism: str, users: Mapping[str, str], login: tuple[str, str] | None) -> str:
    """Return the JAAS line of a mechanism; "" for none."""
    module = _MODULES.get(mechanism)
    if module is None:
        return ""
    options = {} if login is None else {"username": login[0], "password": login[1]}
    known = dict(users) if login is None else {**users, login[0]: login[1]}
    options |= {f"user_{name}": password for name, password in known.items()}
    return _joined(module, options) if options else ""


def _joined(module: str, options: Mapping[str, str]) -> str:
    words = [f'{name}="{_escaped(value)}"' for name, value in options.items()]
    return " ".join((module, "required", *words)) + ";"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')

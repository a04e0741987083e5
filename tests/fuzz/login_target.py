"""A login before it has succeeded: whatever a client sends to the mechanisms of SASL.

The content is a list of messages, each after its size in two bytes. Every mechanism refuses, asks
for more, or logs a known user in; nobody becomes the user whose password no input has.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial

from broker.core.security.login import LoggedIn, Login, LoginRules, Stage
from broker.core.security.sasl.oauthbearer import Bearer, OAuthBearer
from broker.core.security.sasl.outcome import Challenge, Work
from broker.core.security.sasl.plain import Plain
from broker.core.security.sasl.scram import Scram, ScramIdentity
from broker.model.sasl_limits import LOGIN_FRAME_BYTES_MAX
from broker.model.scram import (
    ITERATIONS_MIN,
    MECHANISMS,
    ScramCredential,
    ScramMechanism,
    client_key,
    credential_of,
    proof,
    salted_password,
)
from tests.fuzz.inputs import OPTIONS_SIZE, Options

NOW_MS = 1_700_000_000_000
USER, PASSWORD, TOKEN = "alice", "secret", "header.claims.signature"
LOCKED = "locked"  # no input has its password
NAMES = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SALT, CLIENT_NONCE, SERVER_NONCE = b"salt" * 6, "from-client", "from-server"
SIZE_BYTES = 2
REASONS_MAX = 20
_REASONS: set[str] = set()


def _credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    salted = salted_password(mechanism, password, SALT, ITERATIONS_MIN)
    return credential_of(mechanism, salted, SALT, ITERATIONS_MIN)


CREDENTIALS = {
    (user, name): _credential(mechanism, password)
    for user, password in ((USER, PASSWORD), (LOCKED, "of nobody's input"))
    for name, mechanism in MECHANISMS.items()
}


def _identity(
    mechanism: ScramMechanism,
    user: str,
    is_token: bool,
    now_ms: int,
) -> ScramIdentity | Callable[[], ScramIdentity]:
    assert now_ms == NOW_MS
    known = None if is_token else CREDENTIALS.get((user, mechanism.name))
    if known is None:
        return lambda: ScramIdentity(user, CREDENTIALS[LOCKED, mechanism.name], is_known=False)
    return ScramIdentity(user, known)


def _verify(token: str, now_ms: int) -> Bearer | str:
    return Bearer(USER, now_ms + 1000) if token == TOKEN else "not signed"


def _stored(user: str, password: str) -> Callable[[], bool]:
    return lambda: (user, password) == (LOCKED, "of nobody's input")


RULES = LoginRules(
    {
        "PLAIN": Plain({USER: PASSWORD}, _stored),
        **{
            name: Scram(each, partial(_identity, each), lambda: SERVER_NONCE)
            for name, each in MECHANISMS.items()
        },
        "OAUTHBEARER": OAuthBearer(_verify),
    },
    reauthentication_ms=1500,
)


def login(data: bytes) -> None:
    """Choose a mechanism, send it messages, and log in again if that has succeeded."""
    options = Options(data)
    messages = list(_messages(options.content))
    state = Login(RULES)
    steady_ms = 0
    for place in range(2):
        steady_ms += 1000
        if not state.may_choose(steady_ms):
            return
        name = NAMES[options.byte(place) % len(NAMES)]
        if state.choose(name, steady_ms, is_bare=options.flag(2, place)) is not None:
            assert state.stage is Stage.FAILED
            return
        challenge = b""
        while state.stage is Stage.EXCHANGING and messages:
            challenge = _take(state, messages.pop(0), challenge)


def _take(state: Login, message: bytes, challenge: bytes) -> bytes:
    """Take a message after a challenge; return the next challenge."""
    step = state.respond(message, NOW_MS)
    outcome = step.run() if isinstance(step, Work) else step
    found = state.conclude(outcome, NOW_MS)
    match found:
        case Challenge():
            assert state.stage is Stage.EXCHANGING
            assert len(found.message) <= 2 * LOGIN_FRAME_BYTES_MAX
            return found.message
        case LoggedIn():
            assert state.stage is Stage.OPEN
            assert found.principal.name == USER
            _check_knowledge(state.mechanism, message, challenge)
        case _:
            assert state.stage is Stage.FAILED
            assert PASSWORD not in found.reason
            _REASONS.add(found.reason)
            assert len(_REASONS) <= REASONS_MAX, _REASONS  # a label of a metric
            assert len(found.message or "") < LOGIN_FRAME_BYTES_MAX
    return b""


def _check_knowledge(mechanism: str, message: bytes, challenge: bytes) -> None:
    """Check that a message that has logged in has what only the user knows."""
    if mechanism == "PLAIN":
        assert message.split(b"\0")[1:] == [USER.encode(), PASSWORD.encode()]
    elif mechanism == "OAUTHBEARER":
        assert TOKEN.encode() in message
    else:
        nonce = challenge.partition(b",")[0]
        assert nonce.endswith(SERVER_NONCE.encode())
        assert message.split(b",")[1] == nonce


def _messages(content: bytes) -> Iterator[bytes]:
    """Split an input into messages of a frame's size at most."""
    while len(content) > SIZE_BYTES:
        end = SIZE_BYTES + int.from_bytes(content[:SIZE_BYTES], "big")
        yield content[SIZE_BYTES : min(end, LOGIN_FRAME_BYTES_MAX)]
        content = content[end:]


def _input(first: int, *messages: bytes, second: int = 0) -> bytes:
    head = bytes([first, second]).ljust(OPTIONS_SIZE, b"\0")
    return head + b"".join(len(each).to_bytes(SIZE_BYTES, "big") + each for each in messages)


def _scram(mechanism: ScramMechanism) -> tuple[bytes, bytes]:
    """Return both messages of a client that knows the password."""
    bare = f"n={USER},r={CLIENT_NONCE}"
    nonce = CLIENT_NONCE + SERVER_NONCE
    exchange = RULES.mechanisms[mechanism.name].begin()
    first = f"n,,{bare}".encode()
    challenge = exchange.respond(first, NOW_MS)
    assert isinstance(challenge, Challenge)
    without_proof = f"c=biws,r={nonce}"
    auth_message = f"{bare},{challenge.message.decode()},{without_proof}".encode()
    key = client_key(mechanism, salted_password(mechanism, PASSWORD, SALT, ITERATIONS_MIN))
    own = b64encode(proof(mechanism, key, auth_message))
    return first, f"{without_proof},p=".encode() + own


def seeds() -> Iterator[bytes]:
    """Return logins that succeed, with each mechanism, once and twice, and some that do not."""
    plain = f"\0{USER}\0{PASSWORD}".encode()
    bearer = f"n,a={USER},\x01auth=Bearer {TOKEN}\x01\x01".encode()
    wrong = bearer.replace(TOKEN.encode(), b"another.token.here")
    scrams = [_scram(mechanism) for mechanism in MECHANISMS.values()]
    yield _input(0, plain)
    yield _input(0, plain, plain)
    yield _input(0, f"\0{LOCKED}\0{PASSWORD}".encode())
    for number, (first, final) in enumerate(scrams, 1):
        yield _input(number, first, final)
        yield _input(number, first, final, first, final, second=number)
        yield _input(number, first.replace(USER.encode(), LOCKED.encode()), final)
        yield _input(number, first + b",tokenauth=true", final)
    yield _input(3, bearer)
    yield _input(3, wrong, b"\x01")

"""Cursus's transactions by their commands, and what a Cursus consumer sees of them."""

import re

from tests.support.cursus_client import CursusClient

INITIALISED = re.compile(r"OK transactional_id=(\S+) producerId=(txn-[0-9a-f]{16}) epoch=(\d+)")


def initialised(cursus: CursusClient, name: str) -> str:
    """Initialise a transactional id; return the arguments that identify the producer."""
    found = INITIALISED.fullmatch(cursus.ask(f"INIT_PRODUCER_ID transactional_id={name}"))
    assert found
    assert found[1] == name
    return f"transactional_id={name} producerId={found[2]} epoch={found[3]}"


def begun(cursus: CursusClient, name: str) -> str:
    """Initialise a transactional id and begin; return the arguments that identify the producer."""
    who = initialised(cursus, name)
    assert cursus.ask(f"BEGIN_TXN {who}").startswith("OK ")
    return who


def joined(cursus: CursusClient, topic: str, group: str) -> str:
    """Join a group; return the member's id, of generation 1."""
    answer = cursus.ask(f"JOIN_GROUP topic={topic} group={group} member=m")
    assert answer.startswith("OK generation=1 "), answer
    return answer.split("member=")[1].split()[0]


def seen(cursus: CursusClient, topic: str, partition: int = 0, isolation: str = "") -> list[str]:
    """Return the payloads that a CONSUME returns."""
    option = f" isolation_level=read_{isolation}" if isolation else ""
    found = cursus.consume(f"CONSUME topic={topic} partition={partition} offset=0{option}")
    return [message.payload.decode() for message in found.messages]

"""Mutations, each of which makes a correct history wrong, and the name of the resulting finding.

Each takes the steps of a history from `random_histories.py` and returns them changed; it chooses
its target itself, at random among several. Every such history ends with a committed transaction,
and is read from beginning to end by a committed reader, `all`, and an uncommitted one, `dirty`.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

from tests.histories.notation import Step, step

Record = list[Any]  # offset, value
Mutation = Callable[[list[Step], Random], list[Step]]


def polls(steps: list[Step], *processes: str) -> Iterator[dict[str, Any]]:
    """Yield the value of every poll, of all or of some readers."""
    for process, f, _, _, value in steps:
        if f == "poll" and (not processes or process in processes):
            yield value


def sends(steps: list[Step], type_: str = "ok") -> list[dict[str, Any]]:
    """Return the value of every send of a type."""
    return [value for _, f, each, _, value in steps if f == "send" and each == type_]


def forget(steps: list[Step], values: set[str]) -> list[Step]:
    """Remove some values from all polls."""
    for poll in polls(steps):
        poll["records"] = [each for each in poll["records"] if each[1] not in values]
    return steps


def last_transaction(steps: list[Step]) -> list[dict[str, Any]]:
    """Return the sends of the last transaction, which is committed."""
    name = sends(steps)[-1]["transaction"]
    return [each for each in sends(steps) if each.get("transaction") == name]


def lose_the_end(steps: list[Step], _: Random) -> list[Step]:
    """The log ends before the last transaction."""
    for send in last_transaction(steps):
        for poll in reads(steps, send["partition"]):
            poll["next"] = send["offset"]
    return forget(steps, {each for send in last_transaction(steps) for each in send["values"]})


def lose_before_the_end(steps: list[Step], random: Random) -> list[Step]:
    """No reader gets an acknowledged record, but they get a later one."""
    victims = [each for send in plain(steps) for each in send["values"]]
    return forget(steps, {random.choice(victims)})


def plain(steps: list[Step]) -> list[dict[str, Any]]:
    """Return acknowledged sends outside of transactions that were written once."""
    return [
        each for each in sends(steps) if "transaction" not in each and each["delivery"] != "again"
    ] or [each for each in sends(steps) if "transaction" not in each]


def tear(steps: list[Step], _: Random) -> list[Step]:
    """No reader gets half of the last transaction, but they get a later record."""
    first, *_rest = last_transaction(steps)
    end = first["offset"] + len(first["values"]) + 1
    steps.insert(0, step("late", "send", "info", **late(first)))
    for poll in reads(steps, first["partition"]):
        poll["records"] = [[end, "late"]]
        poll["next"] = end + 1
    return forget(steps, set(first["values"]))


def late(send: dict[str, Any]) -> dict[str, Any]:
    """Return a send of one more record to the partition of another one."""
    where = {"topic": send["topic"], "partition": send["partition"]}
    return where | {"values": ["late"], "delivery": "once"}


def reads(steps: list[Step], partition: int) -> list[dict[str, Any]]:
    """Return the polls with which the last readers found the end of a partition."""
    return [
        each
        for each in polls(steps, "all", "dirty")
        if each.get("end") and each["partition"] == partition
    ]


def change_a_value(steps: list[Step], random: Random) -> list[Step]:
    """The last reader gets other bytes at the offset of an acknowledged record."""
    sent = {value for send in sends(steps) for value in send["values"]}
    record = random.choice([each for each in seen(steps, "all") if each[1] in sent])
    record[1] = f"{record[1]}?"
    return steps


def seen(steps: list[Step], process: str) -> list[Record]:
    """Return all records that a reader got."""
    return [record for poll in polls(steps, process) for record in poll["records"]]


def skip(steps: list[Step], random: Random) -> list[Step]:
    """The last committed reader misses a record that the uncommitted one reads."""
    victims = {each for send in plain(steps) for each in send["values"]}
    record = random.choice([each for each in seen(steps, "all") if each[1] in victims])
    for poll in polls(steps, "all"):
        poll["records"] = [each for each in poll["records"] if each is not record]
    return steps


def go_back(steps: list[Step], random: Random) -> list[Step]:
    """The last reader gets a record a second time."""
    poll = random.choice([each for each in polls(steps, "all") if each["records"]])
    poll["records"].append(deepcopy(random.choice(poll["records"])))
    return steps


def repeat(steps: list[Step], _: Random) -> list[Step]:
    """A record of the last transaction is stored once more, at the end."""
    first, *_rest = last_transaction(steps)
    end = first["offset"] + len(first["values"]) + 1
    for poll in reads(steps, first["partition"]):
        poll["records"] = [[end, first["values"][0]]]
        poll["next"] = end + 1
    return steps


def invent(steps: list[Step], random: Random) -> list[Step]:
    """A record that was never sent is at the end."""
    poll = random.choice(reads(steps, random.randrange(2)))
    poll["records"] = [[poll["next"], "invented"]]
    return steps


def abort(steps: list[Step], _: Random) -> list[Step]:
    """The last transaction is aborted and nevertheless read."""
    name = last_transaction(steps)[0]["transaction"]
    for _process, f, _type, _at, value in steps:
        if f == "end" and value["transaction"] == name:
            value["commit"] = False
    return steps


def fence(steps: list[Step], _: Random) -> list[Step]:
    """A newer epoch was assigned before the last transaction wrote."""
    name = last_transaction(steps)[0]["transaction"]
    place = max(n for n, each in enumerate(steps) if each[1] == "begin")
    newer: dict[str, Any] = {"transaction": "newer", "transactional_id": "T", "epoch": 1_000}
    assert steps[place][4]["transaction"] == name
    steps.insert(place + 1, step("newer", "begin", **newer))
    return steps


def forget_a_commit(steps: list[Step], _: Random) -> list[Step]:
    """A group's offset fetch returns no committed offset."""
    offsets: dict[str, Any] = {"group": "g", "topic": "t", "partition": 0}
    return [*steps, step("member", "fetch_committed", **offsets, offset=-1)]


def fall_back(steps: list[Step], _: Random) -> list[Step]:
    """A group's offset fetch returns less than it has committed."""
    offset = next(each[4]["offset"] for each in reversed(steps) if each[1] == "commit")
    offsets: dict[str, Any] = {"group": "g", "topic": "t", "partition": 0, "offset": offset - 1}
    return [*steps, step("member", "fetch_committed", **offsets)]


def shrink(steps: list[Step], _: Random) -> list[Step]:
    """A log ends earlier than a client has seen before."""
    known = next(each[4] for each in reversed(steps) if each[1] == "list_offsets")
    less = known["latest"] - 1
    return [*steps, step("asker", "list_offsets", **known | {"latest": less, "stable": less})]


def misdirect(steps: list[Step], random: Random) -> list[Step]:
    """A record sent to one topic is in another one."""
    value = random.choice(random.choice(plain(steps))["values"])
    for send in (*sends(steps, "invoke"), *sends(steps)):
        if value in send["values"]:
            send["topic"] = "elsewhere"
            send.pop("offset", None)
    return steps


MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "lost acknowledged write": (lose_before_the_end,),
    "unseen tail": (lose_the_end,),
    "torn transaction": (tear,),
    "corrupt record": (change_a_value,),
    "skipped record": (skip,),
    "non-monotonic poll": (go_back,),
    "duplicate in idempotent session": (repeat,),
    "record out of nowhere": (invent,),
    "aborted read": (abort,),
    "zombie not fenced": (fence,),
    "committed offset forgotten": (forget_a_commit,),
    "committed offset went back": (fall_back,),
    "high watermark went back": (shrink,),
    "wrong place": (misdirect,),
}

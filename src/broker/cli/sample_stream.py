"""The stream of `broker demo`: orders of a shop, the same ones in each run."""

import json
from collections.abc import Iterator
from random import Random
from typing import Final

from broker.codec import partition

TOPIC: Final = "demo-orders"
GROUP: Final = "demo-readers"
PARTITIONS: Final = 3
_CUSTOMERS: Final = 200
_ITEMS: Final = ("tea", "coffee", "cocoa", "milk", "sugar", "honey")
_SEED: Final = 9092

Record = tuple[bytes, bytes]


def orders(count: int) -> Iterator[Record]:
    """Yield the key and the value of each order."""
    choices = Random(_SEED)  # noqa: S311 - sample data
    for number in range(count):
        customer = f"customer-{choices.randrange(_CUSTOMERS)}"
        order = {
            "order": number,
            "customer": customer,
            "item": choices.choice(_ITEMS),
            "cents": choices.randrange(100, 5000),
        }
        yield customer.encode(), json.dumps(order).encode()


def by_partition(records: list[Record]) -> dict[int, list[Record]]:
    """Return records by the partition that every client would give their keys."""
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(partition(record[0], PARTITIONS), []).append(record)
    return found

"""Checks a history against every rule: pure, and linear in the length of the history but for sorts.

`python -m tests.histories.checker FILE…` checks recorded ones.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.histories import (
    rules_of_groups,
    rules_of_records,
    rules_of_transactions,
    rules_of_views,
)
from tests.histories.facts import Facts
from tests.histories.findings import Finding
from tests.histories.history import Operation, decode

RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    rules_of_records.lost_writes,
    rules_of_records.inconsistent_offsets,
    rules_of_records.duplicates,
    rules_of_records.reordered,
    rules_of_records.disorders,
    rules_of_records.skips,
    rules_of_records.removed_keys,
    rules_of_records.strangers,
    rules_of_records.holes,
    rules_of_records.wrong_places,
    rules_of_groups.committed_offsets,
    rules_of_groups.commits_ahead,
    rules_of_groups.owners,
    rules_of_views.log_ends,
    rules_of_views.log_starts,
    rules_of_views.topics,
    rules_of_views.producer_ids,
    rules_of_views.stuck,
)
TRANSACTION_RULES = (
    rules_of_transactions.aborted_reads,
    rules_of_transactions.torn,
    rules_of_transactions.circular,
    rules_of_transactions.hanging,
    rules_of_transactions.zombies,
)


def check(history: Iterable[Operation]) -> list[Finding]:
    """Return the findings of a history; none if it may have happened."""
    facts = Facts(history)
    transactions = rules_of_transactions.Transactions(facts)
    found = [finding for rule in RULES for finding in rule(facts)]
    found += [finding for each in TRANSACTION_RULES for finding in each(facts, transactions)]
    return list(dict.fromkeys(found))


def main() -> int:
    """Print the findings of files; return 1 if there are any."""
    found = []
    for name in sys.argv[1:]:
        with Path(name).open() as lines:
            found += check(decode(lines))
    for finding in found:
        print(f"{finding.number} {finding.name}: {finding.evidence}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

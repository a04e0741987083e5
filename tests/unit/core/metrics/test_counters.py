"""Labels whose values come from outside have a bounded number of series."""

from broker.core.metrics.counters import OTHER, Bounded
from broker.core.metrics.limits import LABEL_VALUES_MAX


def test_reasons_without_end_are_counted_together() -> None:
    counts = Bounded()
    for number in range(10_000):
        counts.add("PLAINTEXT", f"it announced a response of {number} bytes")
    counts.add("SSL", "idle")

    assert len(counts.counts) == LABEL_VALUES_MAX + 2
    assert counts.counts["PLAINTEXT", OTHER] == 10_000 - LABEL_VALUES_MAX
    assert counts.counts["SSL", OTHER] == 1


def test_a_value_that_has_a_series_keeps_it() -> None:
    counts = Bounded(1)
    for reason in ("idle", "reset", "idle"):
        counts.add("PLAINTEXT", reason)

    assert counts.counts == {("PLAINTEXT", "idle"): 2, ("PLAINTEXT", OTHER): 1}


def test_a_label_before_the_last_one_has_no_end_either() -> None:
    counts = Bounded(10)
    for number in range(1_000):
        counts.add(f"mechanism-{number}", "not offered")

    assert len(counts.counts) <= 21
    assert sum(counts.counts.values()) == 1_000

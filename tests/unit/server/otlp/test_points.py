"""What a page of metrics has is found in it again."""

from broker.core.metrics.registry import METRICS
from broker.core.metrics.text import Sample, family
from broker.server.otlp.points import Distribution, Point, points_of

REQUESTS = METRICS["polylog_requests_total"]
TIMES = METRICS["polylog_request_seconds"]
GROUPS = METRICS["polylog_group_lag_ratio"]
COUNTS = (0, 3, 2, *[0] * 18, 1)


def page(*families: tuple[str, list[Sample]]) -> str:
    lines = [
        line for name, samples in families for line in family(METRICS[name], samples, is_open=False)
    ]
    return "\n".join(lines) + "\n"


def test_values_keep_their_labels_and_types() -> None:
    text = page(
        (REQUESTS.name, [Sample(("Produce", "9"), 7), Sample(("Fetch", "11"), 1 << 60)]),
        (GROUPS.name, [Sample(('a"b\\c\nd} 1', "t", "0"), 0.25)]),
    )

    assert list(points_of(text)) == [
        (
            REQUESTS,
            [
                Point({"api": "Produce", "version": "9"}, 7),
                Point({"api": "Fetch", "version": "11"}, 1 << 60),
            ],
        ),
        (GROUPS, [Point({"group": 'a"b\\c\nd} 1', "topic": "t", "partition": "0"}, 0.25)]),
    ]


def test_a_histogram_is_found_with_its_buckets() -> None:
    state = COUNTS, 2_500_000
    text = page((TIMES.name, [Sample(("Produce",), state), Sample(("Fetch",), state)]))

    [(metric, [first, second])] = points_of(text)

    assert metric is TIMES
    assert (first.labels, second.labels) == ({"api": "Produce"}, {"api": "Fetch"})
    assert first.value == second.value
    assert isinstance(first.value, Distribution)
    assert first.value.counts == COUNTS
    assert len(first.value.bounds) == len(COUNTS) - 1
    assert list(first.value.bounds) == sorted(first.value.bounds)
    assert first.value.total == 2.5


def test_a_histogram_without_labels_is_found() -> None:
    name = "polylog_log_sync_seconds"

    [(metric, [point])] = points_of(page((name, [Sample((), (COUNTS, 1))])))

    assert metric.name == name
    assert point.labels == {}
    assert isinstance(point.value, Distribution)
    assert point.value.counts == COUNTS


def test_a_page_without_values_has_no_points() -> None:
    assert list(points_of("")) == []

"""Sums over the logs of topics never fall, and topics that are gone are not kept."""

from broker.core.metrics.totals import Totals


def test_the_sums_of_a_deleted_topic_stay_in_those_of_the_broker() -> None:
    totals = Totals(4)
    totals.look("a", [5, 50, 1, 0])
    totals.look("b", [1, 10, 0, 0])

    totals.keep(["b"])
    totals.look("b", [2, 20, 0, 0])

    assert totals.all == [7, 70, 1, 0]
    assert len(totals) == 1


def test_a_topic_that_is_created_again_begins_at_0_and_the_broker_does_not() -> None:
    totals = Totals(4)
    totals.look("a", [5, 50, 1, 0])
    totals.keep([])

    assert totals.look("a", [1, 10, 0, 0]) == [1, 10, 0, 0]
    assert totals.all == [6, 60, 1, 0]


def test_what_the_other_logs_of_a_topic_have_is_not_counted_again_when_one_has_gone() -> None:
    totals = Totals(4)
    totals.look("a", [5, 50, 1, 0])

    assert totals.look("a", [3, 30, 1, 0]) == [5, 50, 1, 0]
    assert totals.look("a", [4, 40, 1, 0]) == [6, 60, 1, 0]
    assert totals.all == [6, 60, 1, 0]


def test_a_thousand_topics_that_come_and_go_leave_nothing() -> None:
    totals = Totals(4)
    for number in range(1_000):
        totals.look(f"topic-{number}", [1, 1, 1, 1])
        totals.keep([])

    assert len(totals) == 0
    assert totals.all == [1_000] * 4

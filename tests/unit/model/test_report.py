"""The report of a job."""

from broker.model.report import Report


def test_a_report_is_well_without_problems() -> None:
    assert Report(("topic",), [], {"segments": 0}).is_well
    assert not Report(("topic",), [("a",)], {"segments": 1}, ["it broke"]).is_well

"""Slow tests say why they are slow."""

import pytest

from tests.support.slow_tests import reason_of


@pytest.mark.parametrize("mark", [pytest.mark.slow, pytest.mark.slow(reason="it waits")])
def test_a_mark_without_its_reason_is_refused(
    request: pytest.FixtureRequest, mark: pytest.MarkDecorator
) -> None:
    request.node.add_marker(mark)

    with pytest.raises(pytest.UsageError, match="why it takes so long"):
        reason_of(request.node)


def test_a_reason_is_what_the_list_shows(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.slow("it waits"))

    assert reason_of(request.node) == "it waits"

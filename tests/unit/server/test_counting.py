"""What happens often is logged at a limited rate."""

from broker.server.counting import Counting


def test_the_first_is_told_at_once_and_the_next_ones_together_after_a_time() -> None:
    now = 0.0
    counting = Counting(lambda: now, 10)

    at_once = [counting.add() for _ in range(3)]
    now = 9.9
    before = counting.add()
    now = 10.0
    after = [counting.add() for _ in range(2)]

    assert at_once == [1, 0, 0]
    assert before == 0
    assert after == [4, 0]

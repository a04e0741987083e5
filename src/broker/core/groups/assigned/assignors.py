"""Which member gets which partitions: the two assignors of V1 (v1.md 1.6).

Members stand in the order of their ids' bytes, whatever the order in which they joined. A member
more than there are partitions gets none.
"""

from collections.abc import Collection

from broker.core.groups.assigned.commands import Assignor


def assign(
    assignor: Assignor, member_ids: Collection[str], partition_count: int
) -> dict[str, tuple[int, ...]]:
    """The partitions of every member, ascending; each from 0 up to the count has one owner."""
    ordered = sorted(member_ids, key=lambda each: each.encode(errors="surrogatepass"))
    if assignor is Assignor.RANGE:
        return _in_ranges(ordered, partition_count)
    count = len(ordered)
    return {each: tuple(range(place, partition_count, count)) for place, each in enumerate(ordered)}


def _in_ranges(ordered: list[str], partition_count: int) -> dict[str, tuple[int, ...]]:
    """Neighbouring partitions; the first members get one more where it does not come out even."""
    share, extra = divmod(partition_count, max(len(ordered), 1))
    ranges = {}
    first = 0
    for place, each in enumerate(ordered):
        end = first + share + (place < extra)
        ranges[each] = tuple(range(first, end))
        first = end
    return ranges

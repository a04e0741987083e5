"""The assignors of V1 and Cursus: round robin and range.

Members are sorted by the bytes of their ids. If there are more members than partitions, the last
members get none.
"""

from collections.abc import Collection

from broker.core.groups.commands.assigned import Assignor


def assign(
    assignor: Assignor, member_ids: Collection[str], partition_count: int
) -> dict[str, tuple[int, ...]]:
    """Return the partitions of every member, ascending; each partition has one owner."""
    ordered = sorted(member_ids, key=lambda each: each.encode(errors="surrogatepass"))
    if assignor is Assignor.RANGE:
        return _in_ranges(ordered, partition_count)
    count = len(ordered)
    return {each: tuple(range(place, partition_count, count)) for place, each in enumerate(ordered)}


def _in_ranges(ordered: list[str], partition_count: int) -> dict[str, tuple[int, ...]]:
    """Assign adjacent partitions; the first members get one more if the count is uneven."""
    share, extra = divmod(partition_count, max(len(ordered), 1))
    ranges = {}
    first = 0
    for place, each in enumerate(ordered):
        end = first + share + (place < extra)
        ranges[each] = tuple(range(first, end))
        first = end
    return ranges

"""The counts that a group keeps of its members as they join and leave."""

from hypothesis import given
from hypothesis import strategies as st

from broker.core.groups.classic.presence import GroupPresence, Presence
from broker.core.groups.commands.classic import GroupProtocol

NAMES = ("range", "sticky", "uniform")
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "offer", "live"]),
        st.sampled_from("abcd"),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
        st.integers(0, 9),
    ),
    max_size=30,
)


def protocols(names: list[str], weight: int) -> tuple[GroupProtocol, ...]:
    return tuple(GroupProtocol(name, bytes(weight)) for name in names)


@given(changes=CHANGES, asked=st.sampled_from(NAMES), excluded=st.sampled_from([None, *"abcd"]))
def test_the_counts_equal_those_of_the_present_members(
    changes: list[tuple[str, str, list[str], int]], asked: str, excluded: str | None
) -> None:
    presence = GroupPresence()
    here: dict[str, tuple[GroupProtocol, ...]] = {}

    for verb, member_id, names, number in changes:
        offered = protocols(names, number)
        if member_id not in here:
            presence.add(member_id, Presence(f"i-{member_id}", offered, number))
            here[member_id] = offered
        elif verb == "remove":
            presence.remove(member_id)
            del here[member_id]
        elif verb == "live":
            presence.set_session_deadline(member_id, number)
        else:
            presence.set_protocols(member_id, offered)
            here[member_id] = offered

    others = {each: offered for each, offered in here.items() if each != excluded}
    weights = [each.size for offered in others.values() for each in offered]
    supporters = [any(each.name == asked for each in offered) for offered in others.values()]
    assert presence.has_others(excluded) == bool(others)
    assert presence.metadata_bytes_without(excluded) == sum(weights)
    assert presence.supports([asked], excluding=excluded) == all(supporters)
    for member_id in "abcd":
        known = member_id if member_id in here else None
        assert presence.static_member_id(f"i-{member_id}") == known
    deadlines = [presence[each].session_deadline_ms for each in here]
    if deadlines:
        assert presence.earliest_ms is not None
        assert presence.earliest_ms <= min(deadlines)


def test_no_session_ends_before_the_earliest_deadline_found() -> None:
    presence = GroupPresence()
    presence.add("a", Presence(None, (), 5))
    presence.add("b", Presence(None, (), 7))
    presence.set_session_deadline("a", 9)

    presence.update_earliest()

    assert presence.earliest_ms == 7

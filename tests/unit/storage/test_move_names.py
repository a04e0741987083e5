"""The names of the folders of a move, and what a start reads from them."""

from pathlib import Path

from broker.storage import move_names

ID = "Abc-_0123456789abcdefg"
A, B = Path("/a"), Path("/b")


def test_the_name_of_a_partition_is_found_in_those_of_its_move() -> None:
    copy = move_names.copy_folder(B, "t.x-1-12", ID)
    left = move_names.left_folder(A / "t.x-1-12", ID)

    assert move_names.partition_name(copy.name, move_names.FUTURE_SUFFIX) == "t.x-1-12"
    assert move_names.partition_name(left.name, move_names.MOVED_SUFFIX) == "t.x-1-12"
    assert move_names.partition_name(left.name, move_names.FUTURE_SUFFIX) is None
    assert (copy.parent, left.parent) == (B, A)


def test_other_names_are_not_of_a_move() -> None:
    for name in ("t-0", "t-0.id-delete", f"t.{ID}-future", "-future", "t-future"):
        assert move_names.partition_name(name, move_names.FUTURE_SUFFIX) is None


def test_a_copy_is_whole_if_the_old_folder_says_so_by_the_same_id() -> None:
    left = move_names.left_folder(A / "t-0", ID).name
    whole = move_names.copy_folder(B, "t-0", ID)
    other = move_names.copy_folder(B, "t-0", ID[::-1])

    assert list(move_names.unfinished({A: [left], B: [whole.name, other.name]})) == [
        move_names.Unfinished("t-0", whole, A)
    ]
    assert list(move_names.unfinished({A: ["t-0"], B: [whole.name]})) == []


def test_a_name_is_too_long_if_its_move_would_need_more_than_the_file_system_has() -> None:
    longest = "t" * (255 - len(f"-0.{ID}-future")) + "-0"

    assert not move_names.is_too_long(longest)
    assert len(move_names.copy_folder(A, longest, ID).name) == 255
    assert move_names.is_too_long(f"t{longest}")

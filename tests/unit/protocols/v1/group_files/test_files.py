"""groups.json and offsets.json, as V1's original server writes them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model import limits
from broker.protocols.v1.group_files import files
from broker.protocols.v1.group_files.files import V1Group

GROUPS = (
    b'{"g1":{"topic":"orders","generation":2,"assignor":"round_robin","member_order":["c1"],'
    b'"assignments":{"c1":[0,1,2]},'
    b'"members":[{"consumer_id":"c1","last_heartbeat_unix_ms":1700000000000}]}}\n'
)
GROUP = V1Group("orders", 2, "round_robin", {"c1": 1_700_000_000_000}, {"c1": (0, 1, 2)})
EMPTY = (
    b'{"g":{"topic":"t","generation":4,"assignor":"range","member_order":null,'
    b'"assignments":null,"members":[]}}\n'
)
OFFSETS = b'{"group":{"topic":{"0":5}}}\n'


def test_the_bytes_of_the_specification_are_read_and_written() -> None:
    assert files.parse_groups(GROUPS) == {"g1": GROUP}
    assert files.format_groups({"g1": GROUP}) == GROUPS
    assert files.parse_offsets(OFFSETS) == {"group": {"topic": {0: 5}}}
    assert files.format_offsets({"group": {"topic": {0: 5}}}) == OFFSETS


def test_lists_without_elements_are_null_where_the_original_server_writes_null() -> None:
    group = V1Group("t", 4, "range", {}, {})

    assert files.format_groups({"g": group}) == EMPTY
    assert files.parse_groups(EMPTY) == {"g": group}


def test_members_are_in_the_order_in_which_they_joined() -> None:
    text = GROUPS.replace(b'["c1"]', b'["c2","c1"]').replace(
        b'"members":[', b'"members":[{"consumer_id":"c2","last_heartbeat_unix_ms":5},'
    )

    assert list(files.parse_groups(text)["g1"].members) == ["c2", "c1"]


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8")),
        st.dictionaries(
            st.text(st.characters(codec="utf-8")),
            st.dictionaries(st.integers(0, 1 << 31), st.integers(0, 1 << 62)),
        ),
    )
)
def test_offsets_are_read_as_they_were_written(
    offsets: dict[str, dict[str, dict[int, int]]],
) -> None:
    assert files.parse_offsets(files.format_offsets(offsets)) == offsets


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b'{"g":',
        b'{"g":null}',
        b'{"g":{}}',
        b"[" * 200_000,
        GROUPS.replace(b"2,", b"true,", 1),
        GROUPS.replace(b'"orders"', b"7"),
        GROUPS.replace(b"[0,1,2]", b'["0"]'),
        GROUPS.replace(b"[0,1,2]", b"0"),
        GROUPS.replace(b"1700000000000", b"1e3"),
    ],
)
def test_an_invalid_groups_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        files.parse_groups(data)


@pytest.mark.parametrize(
    "data", [b"{", b'{"g":[]}', b'{"g":{"t":5}}', b'{"g":{"t":{"-1":5}}}', b'{"g":{"t":{"0":"5"}}}']
)
def test_an_invalid_offsets_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        files.parse_offsets(data)


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    files.write(tmp_path, {"g1": GROUP}, {"group": {"topic": {0: 5}}})

    assert files.read_groups(tmp_path) == {"g1": GROUP}
    assert files.read_offsets(tmp_path) == {"group": {"topic": {0: 5}}}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["groups.json", "offsets.json"]


def test_a_missing_file_returns_none_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert files.read_groups(tmp_path) is None
    assert not caplog.records


def test_an_undecodable_file_returns_none_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / files.OFFSETS_FILE).write_bytes(b'{"group":')

    assert files.read_offsets(tmp_path) is None
    assert "offsets.json" in caplog.text


def test_a_file_above_the_size_limit_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "V1_FILE_BYTES_MAX", len(OFFSETS) - 1)
    (tmp_path / files.OFFSETS_FILE).write_bytes(OFFSETS)

    assert files.read_offsets(tmp_path) is None
    assert str(len(OFFSETS) - 1) in caplog.text
    assert len(OFFSETS) < limits.V1_FILE_BYTES_MAX

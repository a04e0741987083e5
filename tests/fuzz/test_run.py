"""What `make fuzz` reads from libFuzzer's output and from the edges that the modules record."""

from pathlib import Path

import pytest

from tests.fuzz import run

LOG = """\
INFO: Seed: 1
#5\tINITED cov: 40 ft: 48 corp: 2/57b exec/s: 0 rss: 187Mb
#16\tNEW    cov: 42 ft: 66 corp: 3/86b lim: 29 exec/s: 0 rss: 196Mb L: 29/29 MS: 3 ChangeBit-
#3000\tDONE   cov: 52 ft: 103 corp: 12/230b lim: 38 exec/s: 250 rss: 214Mb
Done 3000 runs in 12 second(s)
stat::number_of_executed_units: 3000
stat::peak_rss_mb:              214
"""


def test_inputs_edges_and_memory_are_read_from_the_log() -> None:
    found = run.counts(LOG)

    assert found == {"inputs": 3000, "edges": 52, "new_edges": 12, "peak_mib": 214}


def test_inputs_are_counted_from_a_log_that_ends_in_a_crash() -> None:
    ended = LOG[: LOG.index("Done")]

    assert run.counts(ended)["inputs"] == 3000


def test_a_crash_report_omits_successful_lines_and_deep_frames() -> None:
    log = LOG + "".join(f"    #{depth} 0x1 in some_function\n" for depth in (0, 11, 12, 100))

    shown = run.shortened(log)

    assert shown.splitlines() == [
        "Done 3000 runs in 12 second(s)",
        "    #0 0x1 in some_function",
        "    #11 0x1 in some_function",
    ]


def test_an_edge_covered_by_two_targets_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FOUND", tmp_path)
    for target, taken in (("one", b"\0\1\1\0\0"), ("other", b"\0\0\1\1\0")):
        folder = tmp_path / "edges" / target
        folder.mkdir(parents=True)
        (folder / "records.rows.cpython-311-x86_64-linux-gnu.so").write_bytes(taken)
        (folder / "wire.fetch.cpython-311-x86_64-linux-gnu.so").write_bytes(bytes(9))

    assert run.native_edges("one") == {"records.rows": (2, 4)}
    assert run.together(["one", "other"]) == {"records.rows": (3, 4)}

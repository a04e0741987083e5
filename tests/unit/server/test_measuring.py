"""What is measured of the process itself."""

import os
from pathlib import Path

import pytest

from broker.server import measuring


@pytest.mark.parametrize("is_counted", [True, False])
def test_open_descriptors_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_counted: bool
) -> None:
    """By the kernel, or by listing them, where it does not count them."""
    if not is_counted:

        class Uncounted(type(tmp_path)):  # type: ignore[misc]
            def stat(self, **_: bool) -> os.stat_result:
                return os.stat_result([0] * 10)

        monkeypatch.setattr(measuring, "_DESCRIPTORS", Uncounted("/proc/self/fd"))
    before, _ = measuring._process()
    opened = [os.open(tmp_path, os.O_RDONLY) for _ in range(10)]
    after, resident_bytes = measuring._process()
    for each in opened:
        os.close(each)

    assert before > 2
    assert after == before + 10
    assert resident_bytes > 1 << 20

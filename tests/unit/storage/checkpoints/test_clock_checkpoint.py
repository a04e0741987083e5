"""What identifies a boot of the machine."""

from pathlib import Path

import pytest

from broker.storage.checkpoints import clock_checkpoint


def test_the_boot_id_is_the_kernels_without_its_line_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "boot_id"
    file.write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    monkeypatch.setattr(clock_checkpoint, "BOOT_ID", str(file))

    assert clock_checkpoint.boot_id() == "01234567-89ab-cdef-0123-456789abcdef"


def test_where_the_kernel_has_no_boot_id_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_checkpoint, "BOOT_ID", str(tmp_path / "none"))

    assert clock_checkpoint.boot_id() == ""

"""Commands in the process of a test: a hundred processes would take a tenth of a second each."""

import sys
from pathlib import Path

import pytest

from broker.cli import main


class Here:
    """Commands for one broker."""

    def __init__(
        self,
        address: str,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Keep them; `folder` gets the standard input."""
        self.address = address
        self._folder = folder
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(
        self, *words: str, stdin: bytes = b"", code: int = 0, has_err: bool = False
    ) -> str:
        """Run a command, which must end with the exit code; return what it prints."""
        file = self._folder / "stdin"
        file.write_bytes(stdin)
        with file.open() as opened:
            self._monkeypatch.setattr(sys, "stdin", opened)
            ended = main(words)
        out, err = self._capsys.readouterr()
        assert ended == code, (words, out[:1000], err)
        return out + err if has_err else out

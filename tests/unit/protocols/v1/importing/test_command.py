"""The command line of `broker import v1`."""

from pathlib import Path

import pytest

from broker.cli import main


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--partitions", "0"], "0 is not in the range 1<=x<=10000"),
        (["--retention", "soon"], "'soon' is not a valid integer range"),
        ([], "give the data directory of V1's server"),
    ],
)
def test_an_invalid_import_exits_2_and_names_the_remedy(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "v1", str(tmp_path), *options]) == 2

    assert message in capsys.readouterr().err

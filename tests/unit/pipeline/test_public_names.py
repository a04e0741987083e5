"""What `broker.pipeline` offers, and what it costs to import it."""

import subprocess
import sys

import pytest

from broker import pipeline


@pytest.mark.parametrize("name", pipeline.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert callable(getattr(pipeline, name))


def test_a_name_that_is_none_is_an_error_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'archives'"):
        pipeline.archives  # type: ignore[attr-defined]  # noqa: B018


def test_importing_it_imports_neither_pyspark_nor_pyarrow() -> None:
    program = "import broker.pipeline, sys; print(*sys.modules)"

    imported = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()

    assert not {"pyspark", "pyarrow", "numpy", "deltalake"} & set(imported)

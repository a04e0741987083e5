"""The public names of `broker.pipeline`, and the cost of importing it."""

import subprocess
import sys

import pytest

from broker import pipeline


@pytest.mark.parametrize("name", pipeline.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert callable(getattr(pipeline, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'archives'"):
        pipeline.archives  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_neither_pyspark_nor_pyarrow() -> None:
    program = "import broker.pipeline, sys; print(*sys.modules)"

    imported = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()

    assert not {"pyspark", "pyarrow", "numpy", "deltalake"} & set(imported)

"""A missing package that only some functions need is reported by its name."""

import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.codec import Unsupported, decode_columns, scan_headers
from broker.codec.packages import EXTRAS, import_optional
from tests.support.record_bytes import some

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_a_package_is_imported() -> None:
    assert import_optional("struct", "numbers").calcsize("q") == 8


def test_a_missing_package_is_named_with_what_needs_it() -> None:
    with pytest.raises(Unsupported) as caught:
        import_optional("no_such_package", "a thing")

    assert str(caught.value) == "a thing: needs no_such_package: pip install no_such_package"
    assert caught.value.position is None


@pytest.mark.parametrize(("package", "extra"), EXTRAS.items())
def test_a_missing_package_of_an_extra_is_named_with_the_extra(
    package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"{package}.of_it"
    for each in (package, module):
        monkeypatch.setitem(sys.modules, each, None)
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]

    with pytest.raises(Unsupported) as caught:
        import_optional(module, "a thing")

    assert str(caught.value).endswith(f"needs {package}: pip install 'polylog-broker[{extra}]'")
    assert [each for each in extras[extra] if re.match(rf"{package}[=<>]", each)]


@pytest.mark.parametrize("module", ["numpy", "pyarrow"])
def test_an_error_states_what_needs_the_missing_package(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it could not be imported
    columns, headers = decode_columns(some(1)), scan_headers(some(1))
    calls: dict[str, list[Callable[[], object]]] = {
        "numpy": [columns.to_numpy, headers.to_numpy],
        "pyarrow": [columns.to_arrow],
    }

    for call in calls[module]:
        with pytest.raises(Unsupported, match=f"pip install {module}"):
            call()

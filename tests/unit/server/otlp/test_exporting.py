"""The settings of the export of metrics."""

from typing import Any, cast

import pytest

from broker.core.metrics.counters import Bounded
from broker.model.config import load
from broker.model.errors import ConfigError
from broker.server.otlp import exporting
from broker.server.otlp.exporting import OtlpExport, headers_of


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        ("Authorization=Basic YTpiCg==", {"Authorization": "Basic YTpiCg=="}),
        (" a=1 , b = 2,", {"a": "1", "b": "2"}),
    ],
)
def test_headers_are_names_and_values(text: str, headers: dict[str, str]) -> None:
    assert headers_of(text) == headers


@pytest.mark.parametrize("text", ["secret", "=secret", "a=1,secret"])
def test_other_headers_are_refused_without_their_text(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        headers_of(text)

    assert "secret" not in str(refused.value)


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_EXPORTER", "opentelemetry.of.nobody")
    settings = load(["polylog.otlp.endpoint=http://localhost:4318/v1/metrics"])

    with pytest.raises(ConfigError, match=r"polylog-broker\[otlp\]"):
        OtlpExport(settings, *cast("Any", (None, Bounded(), None, "id")))

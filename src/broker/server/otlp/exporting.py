"""Gives pages of metrics to the process that sends them."""

import asyncio
import json
import logging
from importlib.util import find_spec
from typing import Any, Final, cast

from broker.core.metrics.counters import Bounded
from broker.core.metrics.pages import Pages
from broker.core.scheduling import child
from broker.core.service import Service
from broker.model import otlp_limits as limits
from broker.model.clock import Clock
from broker.model.config import Config
from broker.model.errors import ConfigError

_log = logging.getLogger(__name__)
_MODULE: Final = "broker.server.otlp.process"
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"
_SIZE_BYTES: Final = 8
_NS_PER_MS: Final = 1_000_000


class _FailedError(Exception):
    """A page was not sent; the process may have ended."""


class OtlpExport(Service):
    """Sends the metrics of a broker to a collector, page by page."""

    name = "OTLP export"

    def __init__(
        self, config: Config, pages: Pages, counted: Bounded, clock: Clock, cluster_id: str
    ) -> None:
        """Take the settings; `counted` counts the pages, by result.

        Raises ConfigError if the SDK is not installed.
        """
        self._pages = pages
        self._counted = counted
        self._clock = clock
        self._is_all = config.flag("polylog.otlp.topics")
        self._interval_seconds = config.integer("polylog.otlp.interval.ms") / 1000
        self._timeout_seconds = config.integer("polylog.otlp.timeout.ms") / 1000
        self._has_failed = False  # the last page was not sent
        self._settings: dict[str, Any] = {
            "endpoint": config.text("polylog.otlp.endpoint"),
            "headers": headers_of(config.text_or_none("polylog.otlp.headers") or ""),
            "timeout_seconds": self._timeout_seconds,
            "attributes": {
                "service.name": "polylog",
                "service.namespace": cluster_id,
                "service.instance.id": str(config.integer("node.id")),
            },
        }
        if not _is_installed():
            raise ConfigError(
                "polylog.otlp.endpoint needs OpenTelemetry: install the extra polylog-broker[otlp]"
            )

    async def run(self) -> None:
        """Send a page now and in every interval; start the process again if it has ended."""
        loop = asyncio.get_running_loop()
        process: asyncio.subprocess.Process | None = None
        try:
            while True:
                due = loop.time() + self._interval_seconds
                try:
                    if process is None:
                        process = await self._start()
                    await self._send(process)
                    self._sent()
                except _FailedError as error:
                    self._failed(str(error))
                except (OSError, RuntimeError, ValueError, TimeoutError) as error:
                    # RuntimeError: of uvloop, for a pipe that is closed. ValueError: no report.
                    self._failed(f"the process does not work: {error!r}")
                    if process is not None:
                        await child.end(process)
                        process = None
                await asyncio.sleep(max(due - loop.time(), 0))
        finally:
            if process is not None:
                await child.end(process)

    async def _start(self) -> asyncio.subprocess.Process:
        process = await child.start(_MODULE, limits.OTLP_REPORT_BYTES_MAX)
        assert process.stdin is not None
        process.stdin.write(json.dumps(self._settings).encode() + b"\n")
        return process

    async def _send(self, process: asyncio.subprocess.Process) -> None:
        """Give the process a page and read its report; raise _FailedError for its reason."""
        assert process.stdin is not None
        assert process.stdout is not None
        page = await self._pages.page(is_all=self._is_all, is_open=False)
        made_ns = self._clock.wall_ms() * _NS_PER_MS
        async with asyncio.timeout(self._timeout_seconds + limits.OTLP_SPARE_SECONDS):
            process.stdin.write(page.size.to_bytes(_SIZE_BYTES) + made_ns.to_bytes(_SIZE_BYTES))
            for part in page.parts:
                process.stdin.write(part)
                await process.stdin.drain()  # the process reads at its own pace
            report = await process.stdout.readline()
        if not report:
            raise OSError(f"it has ended with {await process.wait()}")
        error = cast("str | None", json.loads(report)["error"])
        if error is not None:
            raise _FailedError(error)

    def _sent(self) -> None:
        self._counted.add("sent")
        if self._has_failed:
            _log.info("metrics are sent again: endpoint=%s", self._settings["endpoint"])
        self._has_failed = False

    def _failed(self, reason: str) -> None:
        """Count a failure; the first of them is logged."""
        self._counted.add("failed")
        if not self._has_failed:
            _log.warning(
                "metrics were not sent, the next interval tries again: endpoint=%s reason=%s",
                self._settings["endpoint"],
                reason,
            )
        self._has_failed = True


def headers_of(text: str) -> dict[str, str]:
    """Return the headers of NAME=VALUE,NAME=VALUE; ConfigError, without values, for another text.

    A value may have further equals signs.
    """
    found = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise ConfigError("polylog.otlp.headers is not NAME=VALUE,NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def _is_installed() -> bool:
    try:
        return find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:
        return False

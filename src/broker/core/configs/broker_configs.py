"""The broker's configuration while it runs: given at the start, altered since (KIP-226).

An alteration applies to this broker, under its id, or to all brokers, under an empty name. It is
checked against everything that would inherit it, then made durable, then applied:

    plan ── topics agree ── commit ── applied to topics and their logs ── callbacks are called
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from broker.core.configs import records as config_records
from broker.core.metadata import Metadata
from broker.core.scheduling.tasks import Tasks
from broker.model.config import Config, value_to_text
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.model.own_config import ConfigChange, OwnConfig
from broker.model.settings import BROKER_SETTINGS, DYNAMIC_SETTINGS
from broker.model.topic_config import TopicConfig
from broker.storage import metadata

_log = logging.getLogger(__name__)

ALL_BROKERS = ""

Commit: TypeAlias = Callable[[], Awaitable[None]]
# Makes everything that inherits from a configuration do so, once `commit` has made it durable;
# without `commit` it only checks that all can. Raises RequestError.
AlterHeirs: TypeAlias = Callable[[Config, Commit | None], Awaitable[None]]


class BrokerConfigs:
    """The configuration in force, and which settings of it were altered."""

    def __init__(self, given: Config, known: Metadata) -> None:
        """Read what was altered before this start; values no longer allowed are ignored."""
        self._metadata = known
        self._own = config_records.read_all(known.image, metadata.BROKER_CONFIGS)
        self._callbacks: list[Callable[[Config], None]] = []
        self._alter_heirs: AlterHeirs  # set before the first request
        self._changes = asyncio.Lock()  # one at a time
        self._tasks = Tasks()
        self.current = given
        self.current = self._restored()
        altered = {key for own in self._own.values() for key in own}
        if altered:
            _log.info("altered settings are in force: names=%s", ",".join(sorted(altered)))

    @property
    def _name(self) -> str:
        return str(self.current.integer("node.id"))

    def inherited_by(self, alter_heirs: AlterHeirs) -> None:
        """Set what inherits from it, before anything is altered."""
        self._alter_heirs = alter_heirs

    def when_altered(self, callback: Callable[[Config], None]) -> None:
        """Register a callback that gets each new configuration once it is in force."""
        self._callbacks.append(callback)

    async def plan(self, name: str, change: ConfigChange) -> None:
        """Check an alteration without making it; raises RequestError."""
        await self._alter_heirs(self._planned(name, self._changed(name, change)), None)

    async def alter(self, name: str, change: ConfigChange) -> None:
        """Alter the configuration of one broker or of all: in force at return, and durable."""
        await self._tasks.run_to_completion(self._alter(name, change))

    async def _alter(self, name: str, change: ConfigChange) -> None:
        async with self._changes:
            own = self._changed(name, change)
            config = self._planned(name, own)

            async def commit() -> None:
                key = metadata.broker_config_key(name)
                await config_records.put(self._metadata, key, own)

            await self._alter_heirs(config, commit)
            self._own[name] = own
            self._report(config)
            self.current = config
            for callback in self._callbacks:
                callback(config)

    def _changed(self, name: str, change: ConfigChange) -> dict[str, str]:
        values = {key: self.current.get(key) for key in BROKER_SETTINGS}
        try:
            return dict(change(OwnConfig(values, self._own.get(name, {}), DYNAMIC_SETTINGS)))
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def _planned(self, name: str, own: Mapping[str, str]) -> Config:
        try:
            return self._config({**self._own, name: own})
        except ConfigError as error:  # as Kafka for brokers; for topics it is INVALID_CONFIG
            raise RequestError(ErrorCode.INVALID_REQUEST, str(error)) from None

    def _config(self, own: Mapping[str, Mapping[str, str]]) -> Config:
        config = self.current.altered(own.get(ALL_BROKERS, {}), own.get(self._name, {}))
        TopicConfig({}, config)  # raises where altered values contradict those given at the start
        return config

    def _report(self, config: Config) -> None:
        for key in DYNAMIC_SETTINGS:
            old, new = self.current.get(key), config.get(key)
            if old != new:
                _log.info(
                    "broker setting altered: name=%s old=%s new=%s",
                    key,
                    value_to_text(old),
                    value_to_text(new),
                )

    def _restored(self) -> Config:
        """Apply the altered values one by one, without those that this version or start refuses."""
        try:
            return self._config(self._own)
        except ConfigError:
            pass  # find out below which values are refused
        kept: dict[str, dict[str, str]] = {name: {} for name in self._own}
        for name, own in self._own.items():
            for key, text in own.items():
                try:
                    self._config({**kept, name: {**kept[name], key: text}})
                except ConfigError as error:
                    _log.warning("altered setting not in force: name=%s error=%s", key, error)
                else:
                    kept[name][key] = text
        self._own = kept
        return self._config(kept)

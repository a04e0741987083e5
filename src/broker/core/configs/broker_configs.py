"""The broker's configuration while it runs: given at the start, altered since (KIP-226).

An alteration applies to this broker, under its id, or to all brokers, under an empty name. It is
checked against everything that would inherit it, then made durable, then applied:

    plan ── topics agree ── commit ── applied to topics and their logs ── callbacks are called

What another broker of the cluster has altered is applied in the same way (`follow`), except that a
value which this broker cannot have is not in force here. An alteration is made from what is stored,
so it never takes back another one that this broker has not followed yet.
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
from broker.model.settings import DYNAMIC_SETTINGS
from broker.model.topic_config import TopicConfig
from broker.storage import metadata

_log = logging.getLogger(__name__)

ALL_BROKERS = ""

Commit: TypeAlias = Callable[[], Awaitable[None]]
# Makes everything that inherits from a configuration do so, once `commit` has made it durable;
# without `commit` it only checks that all can. Raises RequestError.
AlterHeirs: TypeAlias = Callable[[Config, Commit | None], Awaitable[None]]
_Stored: TypeAlias = dict[str, dict[str, str]]  # by name: of all brokers, and of this one


class BrokerConfigs:
    """The configuration in force, and which settings of it were altered."""

    def __init__(self, given: Config, known: Metadata) -> None:
        """Read what was altered before this start; values no longer allowed are ignored."""
        self._metadata = known
        self._name = str(given.integer("node.id"))
        self._callbacks: list[Callable[[Config], None]] = []
        self._checks: list[Callable[[Config], None]] = []
        self._alter_heirs: AlterHeirs  # set before the first request
        self._changes = asyncio.Lock()  # one at a time
        self._tasks = Tasks()
        self.current = given
        self._stored = self._read()  # when it was followed last
        self._own, self.current = self._allowed(self._stored)
        altered = {key for own in self._own.values() for key in own}
        if altered:
            _log.info("altered settings are in force: names=%s", ",".join(sorted(altered)))

    def inherited_by(self, alter_heirs: AlterHeirs) -> None:
        """Set what inherits from it, before anything is altered."""
        self._alter_heirs = alter_heirs

    def when_altered(self, callback: Callable[[Config], None]) -> None:
        """Register a callback that gets each new configuration once it is in force."""
        self._callbacks.append(callback)

    def checked_by(self, check: Callable[[Config], None]) -> None:
        """Register a function that raises ConfigError for a configuration that cannot be in force.

        It is called before an alteration is stored.
        """
        self._checks.append(check)

    async def plan(self, name: str, change: ConfigChange) -> None:
        """Check an alteration without making it; raises RequestError."""
        async with self._changes:
            await self._follow()
            await self._alter_heirs(self._planned(name, self._changed(name, change)), None)

    async def alter(self, name: str, change: ConfigChange) -> None:
        """Alter the configuration of one broker or of all: in force at return, and durable."""
        await self._tasks.run_to_completion(self._alter(name, change))

    async def follow(self) -> None:
        """Put into force what other brokers have altered."""
        async with self._changes:
            await self._follow()

    async def _alter(self, name: str, change: ConfigChange) -> None:
        async with self._changes:
            await config_records.attempt(lambda: self._alter_stored(name, change))

    async def _alter_stored(self, name: str, change: ConfigChange) -> None:
        await self._follow()
        key = metadata.broker_config_key(name)
        unchanged = config_records.guard(self._metadata.image, key)
        own = self._changed(name, change)
        config = self._planned(name, own)

        async def commit() -> None:
            await config_records.put(self._metadata, key, own, unchanged)

        await self._alter_heirs(config, commit)
        self._own[name] = self._stored[name] = own
        self._put_into_force(config)

    async def _follow(self) -> None:
        """Apply what is stored until it is what was applied."""
        while (stored := self._read()) != self._stored:
            own, config = self._allowed(stored)
            try:
                await self._alter_heirs(config, _is_stored)
            except RequestError as error:
                _log.error("settings altered by another broker are not in force: error=%s", error)
            else:
                self._own = own
                self._put_into_force(config)
            self._stored = stored

    def _put_into_force(self, config: Config) -> None:
        self._report(config)
        self.current = config
        for callback in self._callbacks:
            callback(config)

    def _read(self) -> _Stored:
        image = self._metadata.image
        names = (ALL_BROKERS, self._name)
        return {
            name: config_records.read(image, metadata.broker_config_key(name)) for name in names
        }

    def _changed(self, name: str, change: ConfigChange) -> dict[str, str]:
        values = {key: self.current.get(key) for key in self.current.names}
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
        for check in self._checks:
            check(config)
        return config

    def _report(self, config: Config) -> None:
        for key in dict.fromkeys((*self.current.names, *config.names)):
            old, new = (self._shown(key, each) for each in (self.current, config))
            if old != new:
                _log.info("broker setting altered: name=%s old=%s new=%s", key, old, new)

    @staticmethod
    def _shown(key: str, config: Config) -> str | None:
        """Return a value for the log, None where there is none."""
        return value_to_text(config.get(key)) if key in config.names else None

    def _allowed(self, stored: _Stored) -> tuple[_Stored, Config]:
        """Return the values, without those that this version or start refuses, and what follows."""
        kept: _Stored = {name: dict(own) for name, own in stored.items()}
        try:
            return kept, self._config(kept)
        except ConfigError:
            pass  # find out below which values are refused
        kept = {name: {} for name in stored}
        for name, own in stored.items():
            for key, text in own.items():
                try:
                    self._config({**kept, name: {**kept[name], key: text}})
                except ConfigError as error:
                    _log.warning("altered setting not in force: name=%s error=%s", key, error)
                else:
                    kept[name][key] = text
        return kept, self._config(kept)


async def _is_stored() -> None:
    """Commit what another broker has committed already."""

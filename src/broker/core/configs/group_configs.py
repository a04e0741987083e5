"""The configurations of groups: own values of some groups, and what is in force for each."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from broker.core.configs import records as config_records
from broker.core.metadata import Metadata
from broker.core.scheduling.tasks import Tasks
from broker.model.config import Config
from broker.model.errors import ConfigError, ErrorCode, RequestError
from broker.model.group_config import GroupConfig
from broker.model.limits import GROUP_CONFIG_NAME_BYTES_MAX, GROUP_CONFIGS_MAX
from broker.model.own_config import ConfigChange
from broker.model.settings import GROUP_SETTINGS
from broker.storage import metadata

_log = logging.getLogger(__name__)


class GroupConfigs:
    """The own configurations of groups; a group need not exist to have one."""

    def __init__(self, broker: Callable[[], Config], known: Metadata) -> None:
        """Read the store; a group whose values the broker's bounds no longer allow has none."""
        self._broker = broker
        self._metadata = known
        self._changes = asyncio.Lock()  # one at a time
        self._tasks = Tasks()
        self._own: dict[str, GroupConfig] = {}
        for group_id, own in config_records.read_all(known.image, metadata.GROUP_CONFIGS).items():
            self._put_into_force(group_id, own)

    @property
    def names(self) -> list[str]:
        """The groups that have values of their own."""
        return sorted(self._own)

    def of(self, group_id: str) -> GroupConfig:
        """Return the configuration in force for a group."""
        own = self._own.get(group_id)
        return GroupConfig({}, self._broker()) if own is None else own

    def setting(self, group_id: str, name: str) -> int:
        """Return one number in force for a group, by its group key; called for each heartbeat."""
        own = self._own.get(group_id)
        if own is not None:
            return own.integer(name)
        return self._broker().integer(GROUP_SETTINGS[name].synonyms[0].name)

    def plan(self, group_id: str, change: ConfigChange) -> GroupConfig:
        """Check a change of a group's configuration without making it; raises RequestError."""
        check_name(group_id)
        try:
            config = GroupConfig(change(self.of(group_id)), self._broker())
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
        is_new = group_id not in self._own and bool(config.overrides)
        if is_new and len(self._own) >= GROUP_CONFIGS_MAX:
            text = f"{GROUP_CONFIGS_MAX} groups have configurations, there is room for no more"
            raise RequestError(ErrorCode.POLICY_VIOLATION, text)
        return config

    async def alter(self, group_id: str, change: ConfigChange) -> None:
        """Change a group's configuration: in force at return, and durable."""
        await self._tasks.run_to_completion(self._alter(group_id, change))

    def follow(self, group_id: str) -> None:
        """Put into force what is stored, which another broker may have altered."""
        key = metadata.group_config_key(group_id)
        self._put_into_force(group_id, config_records.read(self._metadata.image, key))

    async def _alter(self, group_id: str, change: ConfigChange) -> None:
        async with self._changes:
            await config_records.attempt(lambda: self._alter_stored(group_id, change))

    async def _alter_stored(self, group_id: str, change: ConfigChange) -> None:
        check_name(group_id)
        self.follow(group_id)
        key = metadata.group_config_key(group_id)
        unchanged = config_records.guard(self._metadata.image, key)
        overrides = self.plan(group_id, change).overrides
        await config_records.put(self._metadata, key, overrides, unchanged)
        self.follow(group_id)
        _log.info("group configuration altered: group=%r own=%s", group_id, overrides)

    def _put_into_force(self, group_id: str, own: Mapping[str, str]) -> None:
        """Set the own values of a group; it has none if this broker's bounds do not allow them."""
        self._own.pop(group_id, None)
        if own:
            try:
                self._own[group_id] = GroupConfig(own, self._broker())
            except ConfigError as error:
                _log.warning("group configuration not in force: group=%r error=%s", group_id, error)


def check_name(group_id: str) -> None:
    """Refuse a name that no group with a configuration can have."""
    if not group_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "there is no configuration of all groups")
    if len(group_id.encode()) > GROUP_CONFIG_NAME_BYTES_MAX:
        text = f"a group with a configuration has a name of {GROUP_CONFIG_NAME_BYTES_MAX} bytes"
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{text} at most")

"""Gives the logs of a topic the roles that this broker has for its partitions (roles.py).

    opened     announced and loaded; its role is given before it serves anything
    leads      in place: `lead`, then whoever coordinates or watches partitions is told; nobody is
               when it leads already, and its epoch is raised
    follows    in place: whoever coordinates them is told, then `follow`: waiting requests end
    closed     what was accepted is made durable; the folder is removed if there is no replica here

A log that is being loaded or truncated belongs to a thread. It changes its role when that has
ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from broker.core.logs.log import Log
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.scheduling.tasks import Tasks
from broker.core.topics.interfaces import Leadership, PartitionLogs
from broker.core.topics.registry import Registry
from broker.core.topics.roles import ANY_EPOCH, Here, Role, Step, next_step
from broker.core.topics.topic import Topic
from broker.model import limits
from broker.model.errors import StorageError


class RoleChanges:
    """The roles of the logs of all topics.

    Attributes:
        on_gain: get the topic and number of a partition led from now on; its log is still to be
            loaded.
        on_open: get each log that is led from now on and is loaded already.
        on_loss: get the topic and number of a partition not led any more.
        on_follow: get a log that follows from now on, or in another epoch, the id of its topic, and
            its partition.
        on_unfollow: get the same of a log that does not follow any more.
        on_busy: get a topic that has to be followed again later, because another process has some
            of its logs open.
    """

    def __init__(
        self,
        registry: Registry,
        logs: PartitionLogs,
        leadership: Leadership,
        follow_again: Callable[[str, Collection[int]], Awaitable[object]],
    ) -> None:
        """Keep what it needs; `follow_again` follows partitions of a topic."""
        self._registry = registry
        self._logs = logs
        self._leadership = leadership
        self._follow_again = follow_again
        self._again = Tasks()
        self._awaited: set[Log] = set()  # until they are loaded
        self._ending: set[Log] = set()  # reported as lost or unfollowed, until that has not failed
        self.on_gain: list[Callable[[str, int], None]] = []
        self.on_open: list[Callable[[Any], None]] = []
        self.on_loss: list[Callable[[str, int], None]] = []
        self.on_follow: list[Callable[[Any, bytes, int], None]] = []
        self.on_unfollow: list[Callable[[Any, bytes, int], None]] = []
        self.on_busy: list[Callable[[str], None]] = []

    # ---- logs that are opened --------------------------------------------------------------------

    def claim(self, name: str, topic_id: bytes, numbers: Iterable[int]) -> dict[int, bool]:
        """Return the partitions to be opened, and whether they are led here.

        They are those with a role, if no other process has them.
        """
        roles = {each: self._leadership.role(topic_id, each) for each in numbers}
        leads = {each: role.leads for each, role in roles.items() if role is not None}
        return {each: leads[each] for each in self._logs.claim(name, topic_id, leads)}

    def place(self, topic: Topic, logs: Iterable[Log], leads: Mapping[int, bool]) -> None:
        """Let a topic have opened or announced logs."""
        for log in logs:
            if leads[log.partition]:
                topic.logs[log.partition] = log
            else:
                topic.followed[log.partition] = log

    def prepare(self, log: Any) -> None:  # noqa: ANN401 (a log)
        """Give a log that was announced its role, once its files are read."""
        topic = self._registry.by_id(log.topic_id)
        is_followed = topic is not None and topic.followed.get(log.partition) is log
        self.prepare_new(log, leads=not is_followed)

    def prepare_new(self, log: Any, *, leads: bool) -> None:  # noqa: ANN401 (a log)
        """Give a log its role, before it takes a batch.

        `leads` is what it was placed as; a role that has changed since then is looked at again.
        """
        role = self._leadership.role(log.topic_id, log.partition)
        if role is not None and role.epoch != ANY_EPOCH and not log.is_offline:
            self._give(log, role, follows=not leads)

    def is_ready(self, log: Any) -> None:  # noqa: ANN401 (a log)
        """Report a log that is loaded, if it follows."""
        topic = self._registry.by_id(log.topic_id)
        followed = None if topic is None else topic.followed.get(log.partition)
        if topic is not None and followed is not None and followed is log:
            self._report_followed(topic, followed)

    def report_opened(self, topic: Topic, logs: Iterable[Log]) -> None:
        """Report logs that were opened for a topic: those with records were led by others."""
        for log in logs:
            if topic.followed.get(log.partition) is log:
                self._report_followed(topic, log)
            elif topic.is_internal and log.log_end_offset:
                self._report_opened(log)

    def removed(self, topic: Topic) -> None:
        """Report that a topic is gone, whose logs are closed next."""
        self._ending.difference_update(topic.held_logs)
        for log in topic.followed.values():
            self._report_unfollowed(topic, log)

    # ---- changes ---------------------------------------------------------------------------------

    async def follow(self, topic: Topic, partitions: Collection[int] | None) -> None:
        """Give the logs of these partitions, or of all, their present roles."""
        known = range(topic.partition_count) if partitions is None else partitions
        numbers = [each for each in known if topic.has_partition(each)]
        changing: list[int] = []
        ending: list[Log] = []
        async for number in in_steps(numbers, limits.LOGS_CONFIGURED_PER_STEP):
            log, here = _held(topic, number)
            role = self._leadership.role(topic.topic_id, number)
            step = next_step(here, role)
            if log is not None and role is not None and step is Step.GIVE:
                self._give_again(topic, log, role)
            elif step is not Step.NOTHING:
                changing.append(number)
            if log is not None and step is Step.END:
                ending.append(log)
        await self._end_all(topic, ending)
        is_busy = False
        async for part in in_parts(changing, limits.LOGS_ANNOUNCED_PER_STEP):
            is_busy = self._begin(topic, part) or is_busy
        for busy in self.on_busy if is_busy else ():
            busy(topic.name)

    def _begin(self, topic: Topic, numbers: Iterable[int]) -> bool:
        """Open logs, or let them lead; return whether another process has some of them open."""
        opening: dict[int, bool] = {}
        promoted: dict[int, Role] = {}
        for number in numbers:
            # The role of now: it may have changed while others ended.
            role = self._leadership.role(topic.topic_id, number)
            here = _held(topic, number)[1]
            if role is None or next_step(here, role) is not Step.BEGIN:
                continue
            if here is Here.NOTHING:
                opening[number] = role.leads
            else:
                promoted[number] = role
        claimed = self._logs.claim(topic.name, topic.topic_id, opening)
        self._open(topic, {each: opening[each] for each in claimed})
        self._promote(topic, promoted)
        return len(claimed) < len(opening)

    def _give_again(self, topic: Topic, log: Any, role: Role) -> None:  # noqa: ANN401 (a log)
        has_ended = log in self._ending  # that has failed, and is not wanted any more
        is_another = has_ended or log.known_epoch != role.epoch
        if log.is_loading and not role.leads:
            if log.known_epoch >= 0 and is_another:  # otherwise it gets its role when loaded
                self._begin_when_loaded(topic.name, log)
            return
        self._ending.discard(log)
        if not (role.epoch == ANY_EPOCH or log.is_loading or log.is_offline):
            self._give(log, role, follows=not role.leads)
        if not role.leads and is_another:
            self._report_followed(topic, log)
        elif has_ended:
            self._report_led(topic, log)

    def _give(self, log: Any, role: Role, *, follows: bool) -> None:  # noqa: ANN401 (a log)
        """Let a log lead or follow in the epoch of its role; one that follows may lead later."""
        if role.epoch < log.leader_epoch:
            log.take_offline(
                f"its leader epoch {log.leader_epoch} is above {role.epoch}, that of the metadata"
                " store: if that was restored from an old backup, stop all brokers and run"
                " `broker metadata bump-epochs`"
            )
        elif follows:
            log.follow(role.epoch)
        elif role.leads:
            _lead(log, role)

    def _open(self, topic: Topic, leads: Mapping[int, bool]) -> None:
        """Announce the logs of partitions that have a role here now, and begin to load them."""
        if not leads:
            return
        logs = self._logs.announce_topic(topic.name, topic.topic_id, leads, topic.config)
        self.place(topic, logs, leads)
        for number, is_led in leads.items():
            for callback in self.on_gain if is_led else ():
                callback(topic.name, number)
        self._registry.log_changed(topic)
        self._logs.load(logs)

    def _promote(self, topic: Topic, roles: Mapping[int, Role]) -> None:
        """Let logs lead that have followed."""
        promoted: list[Log] = []
        for number, role in roles.items():
            log = topic.followed[number]
            if log.is_loading:
                self._begin_when_loaded(topic.name, log)
            else:
                self._report_unfollowed(topic, log)
                if not log.is_offline:
                    self._give(log, role, follows=False)
                topic.logs[number] = topic.followed.pop(number)
                promoted.append(log)
        if promoted:
            self._registry.log_changed(topic)
        for log in promoted:
            self._report_opened(log)

    def _begin_when_loaded(self, name: str, log: Log) -> None:
        if log not in self._awaited:
            self._awaited.add(log)
            self._again.begin(self._follow_when_loaded(name, log))

    async def _follow_when_loaded(self, name: str, log: Log) -> None:
        try:
            await self._logs.until_loaded([log])
        finally:
            self._awaited.discard(log)
        try:
            await self._follow_again(name, (log.partition,))
        except StorageError:
            for busy in self.on_busy:
                busy(name)

    async def _end_all(self, topic: Topic, logs: Sequence[Log]) -> None:
        for first in range(0, len(logs), limits.LOGS_RELEASED_AT_ONCE):
            some = logs[first : first + limits.LOGS_RELEASED_AT_ONCE]
            try:
                # All of them end here: none may still run when somebody else has the lock.
                ended = await asyncio.gather(
                    *(self._end(topic, log) for log in some), return_exceptions=True
                )
            finally:
                self._registry.log_changed(topic)
            for error in filter(None, ended):
                raise error

    async def _end(self, topic: Topic, log: Any) -> None:  # noqa: ANN401 (a log)
        """End the present role of a log; it follows from now on, or is closed."""
        number = log.partition
        role = self._leadership.role(topic.topic_id, number)
        is_told = log in self._ending
        self._ending.add(log)
        if topic.logs[number] is log:
            for callback in self.on_loss if not is_told else ():
                callback(topic.name, number)
            if role is not None:
                await self._logs.until_loaded([log])
            if role is not None and role.hands_over:
                if log.known_epoch < role.epoch and not log.is_offline:
                    _lead(log, role)  # its replicas ask in that epoch already
                await self._logs.stop_accepting(log)
                role = self._leadership.role(topic.topic_id, number)  # of after that time
        else:
            self._report_unfollowed(topic, log)
        if role is None:
            await self._logs.release(log)
            topic.logs[number] = None
            topic.followed.pop(number, None)
            self._ending.discard(log)
            if not self._leadership.keeps(topic.topic_id, number):
                await self._logs.remove_moved(topic.name, topic.topic_id, number)
            return
        if not log.is_offline:
            self._give(log, role, follows=True)
        topic.logs[number] = None
        topic.followed[number] = log
        self._ending.discard(log)
        try:
            await self._logs.leave(log)
        finally:
            self._report_followed(topic, log)

    # ---- reports ---------------------------------------------------------------------------------

    def _report_opened(self, log: Log) -> None:
        for callback in self.on_open:
            callback(log)

    def _report_led(self, topic: Topic, log: Log) -> None:
        """Report a log that leads again; one that is being loaded is reported again then."""
        if log.is_loading:
            for callback in self.on_gain:
                callback(topic.name, log.partition)
        else:
            self._report_opened(log)

    def _report_followed(self, topic: Topic, log: Log) -> None:
        if log.is_follower and not log.is_loading and not log.is_offline:
            for callback in self.on_follow:
                callback(log, topic.topic_id, log.partition)

    def _report_unfollowed(self, topic: Topic, log: Log) -> None:
        for callback in self.on_unfollow:
            callback(log, topic.topic_id, log.partition)


def _lead(log: Any, role: Role) -> None:  # noqa: ANN401 (a log)
    log.elected()
    replicas, isr = list(role.replicas), list(role.isr)
    log.lead(role.epoch, role.broker_id, replicas, isr, role.committed)


def _held(topic: Topic, number: int) -> tuple[Log | None, Here]:
    """Return the log of a partition, and what it is."""
    log = topic.logs[number]
    if log is not None:
        return log, Here.LED
    followed = topic.followed.get(number)
    return followed, Here.NOTHING if followed is None else Here.FOLLOWED

"""Members that crash, pause, lose responses and return; changing topics; a lost coordinator."""

import pytest

from broker.core.groups.consumer import targets
from broker.core.groups.consumer.group import ConsumerGroup
from broker.model import limits
from tests.unit.core.groups.consumer.migration_simulation import (
    GROUP,
    SESSION_MS,
    ConsumerClient,
    LoggedGroups,
)

SEEDS = range(60)


class Story:
    """The random history of one group for one seed."""

    def __init__(self, seed: int) -> None:
        self.logged = LoggedGroups(seed)
        self.names = 0
        self.random = self.logged.random
        self.enter()
        self.client().step()

    def clients(self) -> list[ConsumerClient]:
        return [each for each in self.logged.clients if isinstance(each, ConsumerClient)]

    def client(self) -> ConsumerClient:
        return self.random.choice(self.clients())

    def enter(self, instance_id: str | None = None) -> None:
        self.names += 1
        self.logged.clients.append(
            ConsumerClient(self.logged, f"m{self.names}", instance_id=instance_id)
        )

    def enter_as_instance(self) -> None:
        used = {each.instance_id for each in self.clients()}
        free = [name for name in ("A", "B") if name not in used]
        if free and not self._is_known(free[0]):
            self.enter(free[0])

    def _is_known(self, instance_id: str) -> bool:
        """Whether a client that crashed still holds the instance id."""
        known = self.logged.shard.groups[GROUP]
        assert isinstance(known, ConsumerGroup)
        return known.state.static_id(instance_id) is not None

    def leave(self) -> None:
        if len(self.clients()) > 1:
            client = self.client()
            client.leave()
            self.logged.clients.remove(client)

    def crash(self) -> None:
        if len(self.clients()) > 1:
            self.logged.clients.remove(self.client())

    def restart_instance(self) -> None:
        for client in self.clients():
            if client.instance_id is not None and client.epoch > 0:
                client.leave_for_a_while()
                self.logged.clients.remove(client)
                self.logged.run(self.random.randrange(4))
                self.enter(client.instance_id)
                return

    def lose_an_answer(self) -> None:
        client = self.client()
        if client.epoch > 0:  # Otherwise it is not a member that could know its own id.
            client.is_deaf = True
            client.step()
            client.is_deaf = False

    def pause(self) -> None:
        for _ in range(self.random.randrange(1, 12)):
            self.logged.pass_by(5_000)
            for client in self.random.sample(self.clients(), len(self.clients()) // 2):
                client.step()
                self.logged.check()

    def change_topics(self) -> None:
        name = self.random.choice("tu")
        known = self.logged.topics.get(name)
        count = self.random.choice((0, 1, 2)) + (known.partition_count if known else 0)
        is_gone = known is not None and self.random.random() < 0.3
        for client in self.clients():
            if is_gone:  # Nobody reads what does not exist.
                client.owned = {place for place in client.owned if place[0] != name}
                client.assigned = client.assigned and {
                    place for place in client.assigned if place[0] != name
                }
        self.logged.topics.put(name, 0 if is_gone else min(count, 9))

    def reload(self) -> None:
        self.logged.lose()

    def run(self) -> None:
        self.logged.run(self.random.randrange(1, 12))

    def happen(self) -> None:
        actions = (
            self.run,
            self.run,
            self.enter,
            self.enter_as_instance,
            self.leave,
            self.crash,
            self.restart_instance,
            self.lose_an_answer,
            self.pause,
            self.change_topics,
            self.reload,
        )
        self.random.choice(actions)()
        self.logged.check()


@pytest.fixture(autouse=True, params=[False, True], ids=["at once", "in slices"])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let targets of these small groups take as many turns of the loop as those of large ones."""
    if request.param:
        monkeypatch.setattr(limits, "ASSIGNMENT_WORK_PER_SLICE", 2)
        monkeypatch.setattr(limits, "REGEX_MATCHES_PER_SLICE", 1)
        monkeypatch.setattr(targets, "TARGETS_PER_BATCH", 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_partition_ever_has_two_owners_and_finally_each_has_one(seed: int) -> None:
    story = Story(seed)

    for _ in range(40):
        story.happen()

    for _ in range(SESSION_MS // 5_000 + 1):  # Sessions of those who crashed end.
        story.logged.pass_by(5_000)
        for client in story.clients():
            client.step()
            story.logged.check()
    story.logged.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_loading_the_log_restores_the_same_state(seed: int) -> None:
    story = Story(seed)
    for _ in range(20):
        story.happen()

    before = story.logged.shard.groups[GROUP]
    story.logged.lose()
    after = story.logged.shard.groups[GROUP]

    assert isinstance(before, ConsumerGroup)
    assert isinstance(after, ConsumerGroup)
    assert vars(before.state) == vars(after.state)

"""The runs of a broker with all of its clients, and the crashes of them that are checked."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.crash_states.bit_flips import SHARE, flipped
from tests.crash_states.broker_run import TWO_DIRECTORIES, BrokerRun
from tests.crash_states.check import committed, start_and_check
from tests.crash_states.disk import State
from tests.crash_states.driver import GROUPS, Driver
from tests.crash_states.expected_state import ExpectedState
from tests.crash_states.exploration import Bug, CrashState, Exploration, Place, exploring
from tests.crash_states.finding import Outcome
from tests.crash_states.record import Record

STEPS = 14
# What clients and operators do, and how often; each run leaves some of it out.
SCENARIOS = {
    "everything": {
        "produce": 10,
        "end_transaction": 3,
        "create_topic": 3,
        "enlarge_topic": 1,
        "delete_topic": 1,
        "recreate_topic": 1,
        "commit_offset": 2,
        "checkpoint": 2,
        "retain": 2,
        "delete_records": 1,
        "compact": 3,
        "rest": 1,
    },
    "topics": {
        "produce": 3,
        "create_topic": 3,
        "enlarge_topic": 3,
        "delete_topic": 3,
        "recreate_topic": 3,
        "checkpoint": 1,
        "retain": 1,
    },
    "transactions": {
        "transact": 8,
        "produce": 3,
        "create_topic": 2,
        "delete_topic": 1,
        "commit_offset": 1,
        "checkpoint": 2,
        "retain": 1,
        "compact": 1,
        "rest": 1,
    },
    "moves": {"produce": 3, "move": 3, "end_transaction": 1, "retain": 1, "rest": 1},
    "checkpoints": {"produce": 3, "checkpoint": 2},  # what a recovery point does not cover
    "tails": {"produce": 1},  # batches of one size in short runs, for what is rare elsewhere
}
# The scenarios, used by seeds in turn.
_SHARES = ("everything", "everything", "topics", "transactions")
_MOVES_OF_TEN = 7  # a tenth of the seeds, which have another directory


def scenario_of(seed: int) -> str:
    """The scenario of a seed's runs."""
    return "moves" if seed % 10 == _MOVES_OF_TEN else _SHARES[seed % len(_SHARES)]


def crash_states(
    seed: int,
    bug: Bug = Bug(),  # noqa: B008 (a tuple)
    only: int | None = None,
    scenario: str = "",
) -> Iterator[CrashState]:
    """Check the crash states of one seed; or one of them alone, or of another scenario."""
    with exploring(seed, bug) as place:
        run = _Run(seed, bug, place, only, scenario or scenario_of(seed))
        # Half of the seeds have another directory for partitions.
        yield from run.states(TWO_DIRECTORIES if seed % 2 else None, ExpectedState())


class _Run(Exploration[ExpectedState]):
    """All runs of a seed."""

    def __init__(self, seed: int, bug: Bug, place: Place, only: int | None, scenario: str) -> None:
        super().__init__(seed, bug, place, only)
        self.scenario = scenario

    def live(self, path: Path, record: Record, rng: Random, expected: ExpectedState) -> None:
        scenario = SCENARIOS[self.scenario]
        broker = BrokerRun(path, self.loop, record)
        driver = Driver(broker, record, rng, is_coordinated="transact" in scenario)
        driver.tell_what_was_found(expected)
        if broker.topics.get("__consumer_offsets") is not None:
            record.tell("groups_recovered", _known(committed(broker, GROUPS)))
        actions = [each for each in scenario if rng.random() < 0.8] or ["produce"]
        weights = [scenario[each] for each in actions]
        driver.create_topic()
        driver.is_uniform = self.scenario == "tails"
        steps = (1, 2) if driver.is_uniform else (4, STEPS)
        for action in rng.choices(actions, weights, k=rng.randint(*steps)):
            getattr(driver, action)()
        driver.close()
        record.drain()
        if rng.random() < 0.4:
            broker.stop()
        else:
            broker.kill()

    def check(
        self, state: State, expected: ExpectedState, rng: Random, *, is_power_cut: bool
    ) -> Outcome:
        flip = None
        if rng.random() < SHARE:
            state, flip = flipped(state, expected, rng)
        with self.made(state) as path:
            return start_and_check(path, expected, self.loop, is_power_cut=is_power_cut, flip=flip)


def _known(found: dict[str, int | None]) -> dict[str, int]:
    return {group: offset for group, offset in found.items() if offset is not None}

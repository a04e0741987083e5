"""What a crash leaves of streams of events: any state of the log beside any of SQLite's files.

pytest tests/crash_states --crash-states 1000000     more states than usual
pytest tests/crash_states/test_event_streams.py --crash-seed 4711     one of them again
"""

from contextlib import AbstractContextManager, ExitStack
from itertools import chain, count, islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from broker.protocols.cursus.event_streams import file, loading, tables
from broker.protocols.cursus.event_streams.file import StreamFile
from broker.protocols.cursus.event_streams.tables import EventStreams
from tests.crash_states import expected_streams
from tests.crash_states.disk import Operation
from tests.crash_states.exploration import STATES_PER_SEED, Bug
from tests.crash_states.stream_run import NOT_SERVED, stream_states
from tests.support.run_seed import seeds_of_run

SHARE = 10  # of the states that are asked for
SEEDS_PER_BUG = 60

pytestmark = pytest.mark.usefixtures("silent_log")
WRONG = {
    expected_streams.WRONG_VERSION,
    expected_streams.WRONG_EVENTS,
    expected_streams.VERSIONS,
    NOT_SERVED,
}


def test_every_start_finds_the_streams_of_its_log(pytestconfig: pytest.Config) -> None:
    only = pytestconfig.getoption("--crash-seed")
    if only is not None:
        for state in stream_states(only // STATES_PER_SEED, only=only):
            assert not state.findings, state.findings
        return
    first = seeds_of_run(pytestconfig, "stream_states")
    wanted = pytestconfig.getoption("--crash-states") // SHARE
    states = chain.from_iterable(stream_states(seed) for seed in count(first))
    for state in islice(states, wanted):
        assert not state.findings, f"--crash-seed {state.number}: {state.findings}"


# ---- bugs that are planted -----------------------------------------------------------------------


def _without_syncs_of_the_wal(operations: list[Operation]) -> list[Operation]:
    return [each for each in operations if each[0] != "sync_data" or not each[1].endswith("-wal")]


def _trusts_any_file() -> AbstractContextManager[object]:
    """The file may be ahead of its log, and nobody looks whether it is of that log."""

    async def is_durable(*_: object) -> bool:
        return True

    stack = ExitStack()
    stack.enter_context(patch.object(tables, "_is_durable", is_durable))
    stack.enter_context(patch.object(EventStreams, "_catch_up", _blind_catch_up))
    return stack


async def _blind_catch_up(self: Any, table: Any, folder: Path, end: int, *_: object) -> int:
    covered = await self.in_file(folder, StreamFile.covered)
    if not covered.topic_id:  # it is new, and nothing can be written to it before
        await self.in_file(folder, lambda file: file.begin(table.topic.topic_id.hex()))
    async for part in loading.parts(table.log, covered.offset, end):
        await self._file(table, folder, part.events, part.snapshots, part.end)
    return max(covered.offset, end)


def _skips_the_tail() -> AbstractContextManager[object]:
    """What is in no file yet is not read from the log after a start."""

    async def parts(_log: object, _start: int, end: int) -> Any:
        yield loading.Part({}, {}, end)

    return patch.object(loading, "parts", parts)


def _covers_before_it_writes() -> AbstractContextManager[object]:
    """The offset up to which the log is in the file is a transaction of its own, the first."""
    write = StreamFile.write

    def early(self: Any, events: Any, snapshots: Any, offset: int, epoch: int) -> None:
        self._row("UPDATE covered SET offset = ? RETURNING offset", (offset,))
        write(self, events, snapshots, offset, epoch)

    return patch.object(StreamFile, "write", early)


def _takes_every_key_for_new() -> AbstractContextManager[object]:
    """The keys of the file are not read into the filter of new keys."""
    return patch.object(StreamFile, "keys", lambda *_, **__: [])


def _moves_without_what_is_recent() -> AbstractContextManager[object]:
    """The file in a copy says that it covers events which only the memory has."""

    async def catch_up_copy(self: Any, table: Any, folder: Path, *_: object) -> int:
        await self._catch_up(table, folder, table.file_end)
        end: int = table.log.high_watermark
        await self._file(table, folder, {}, {}, end)
        return end

    return patch.object(EventStreams, "_catch_up_copy", catch_up_copy)


def _ignores_damage() -> AbstractContextManager[object]:
    return patch.object(file, "_DAMAGED", frozenset())


# The bug, and the first seed that is tried: each is found early from there on.
_PLANTED = {
    "does not sync SQLite's log before its pages are moved": (
        Bug(operations=_without_syncs_of_the_wal, patched=_ignores_damage),
        1,
    ),
    "trusts a file that is ahead of its log": (Bug(patched=_trusts_any_file), 23),
    "does not catch up with the log": (Bug(patched=_skips_the_tail), 1),
    "covers records before they are in the file": (Bug(patched=_covers_before_it_writes), 0),
    "moves a file without what is recent": (Bug(patched=_moves_without_what_is_recent), 7),
    "takes every key for new": (Bug(patched=_takes_every_key_for_new), 0),
}


@pytest.mark.control
@pytest.mark.parametrize("name", _PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    bug, first_seed = _PLANTED[name]

    for seed in range(first_seed, first_seed + SEEDS_PER_BUG):
        for state in stream_states(seed, bug):
            if {finding.what for finding in state.findings} & WRONG:
                return
    raise AssertionError(f"nothing was found of {WRONG}")

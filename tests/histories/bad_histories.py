"""Hand-made histories, each wrong in one way: the history → the finding and its operations."""

from tests.histories.notation import (
    HERE,
    Step,
    asked,
    beats,
    begin,
    commit,
    created,
    deleted,
    dirty,
    end,
    fetched,
    healed,
    killed,
    listed,
    loses,
    owns,
    read,
    refused,
    sent,
    shown,
    starts,
    step,
)

OTHER = ("t", 1)

BAD: dict[str, tuple[str, list[Step]]] = {
    # ---- 1
    "a record is gone and those behind it are there": (
        "lost acknowledged write",
        [sent("p", 0, "a", "b", "c"), starts("r", 0), read("r", (0, "a"), (2, "c"))],
    ),
    "the first record is gone after a kill": (
        "lost acknowledged write",
        [sent("p", 0, "a"), killed(), sent("p", 1, "b"), starts("r", 0), read("r", (1, "b"))],
    ),
    "a committed transaction is nowhere": (
        "lost acknowledged write",
        [
            begin("T1"),
            sent("p", 0, "a", transaction="T1"),
            end("T1"),
            sent("q", 2, "b"),
            starts("r", 0),
            read("r", (2, "b")),
        ],
    ),
    # ---- 2
    "two producers were told the same offset": (
        "inconsistent offset",
        [sent("p", 0, "a"), sent("q", 0, "b")],
    ),
    "two readers read different values at an offset": (
        "inconsistent offset",
        [
            asked("p", "a"),
            asked("q", "b", delivery="again"),
            read("r", (0, "a")),
            read("s", (0, "b")),
        ],
    ),
    "a reader finds another's record where a producer was told": (
        "inconsistent offset",
        [sent("p", 3, "a", delivery="again"), asked("q", "b"), read("r", (3, "b"))],
    ),
    # ---- 3
    "a batch that was sent again is there twice": (
        "duplicate in idempotent session",
        [asked("p", "a"), killed(), sent("p", 1, "a"), read("r", (0, "a"), (1, "a"))],
    ),
    "a batch of a session without order is there twice": (
        "duplicate in idempotent session",
        [asked("p", "a", delivery="unordered"), read("r", (0, "a"), (1, "a"))],
    ),
    "a batch was acknowledged at two offsets": (
        "duplicate in idempotent session",
        [sent("p", 0, "a"), sent("p", 5, "a")],
    ),
    "what was sent once is there twice": (
        "duplicate of a single send",
        [asked("p", "a", delivery="once"), read("r", (0, "a"), (1, "a"))],
    ),
    "batches of one session have overtaken each other": (
        "reordered in one session",
        [asked("p", "a"), asked("p", "b"), read("r", (0, "b"), (1, "a"))],
    ),
    "two producers have one id": (
        "producer id issued twice",
        [
            step("p", "init_producer", producer_id=7),
            killed(),
            step("q", "init_producer", producer_id=7),
        ],
    ),
    # ---- 4
    "the end comes before what was acknowledged": (
        "unseen tail",
        [sent("p", 0, "a", "b"), starts("r", 0), read("r", (0, "a"), end=True)],
    ),
    "a log is empty though something was acknowledged": (
        "unseen tail",
        [sent("p", 0, "a"), killed(), starts("r", 0), read("r", end=True)],
    ),
    "an acknowledgement without an offset is nowhere in the whole log": (
        "unseen tail",
        [
            asked("p", "a"),
            step("p", "send", values=["a"], delivery="again", topic=HERE[0], partition=HERE[1]),
            starts("r", 0),
            read("r", end=True),
        ],
    ),
    # ---- 5
    "a poll goes back behind the one before": (
        "non-monotonic poll",
        [sent("p", 0, "a", "b"), read("r", (0, "a"), (1, "b")), read("r", (0, "a"))],
    ),
    "a poll has its records in the wrong order": (
        "non-monotonic poll",
        [sent("p", 0, "a", "b"), starts("r", 0), read("r", (1, "b"), (0, "a"))],
    ),
    "a reader misses what another one reads": (
        "skipped record",
        [
            sent("p", 0, "a", "b", "c"),
            read("r", (0, "a"), (1, "b"), (2, "c")),
            read("s", (0, "a")),
            read("s", (2, "c")),
        ],
    ),
    "a reader begins behind where it was sent": (
        "skipped record",
        [
            sent("p", 0, "a", "b"),
            read("r", (0, "a"), (1, "b")),
            starts("s", 0),
            dirty("s", (1, "b")),
        ],
    ),
    # ---- 6
    "an aborted record is read": (
        "aborted read",
        [
            begin("T1"),
            sent("p", 0, "a", transaction="T1"),
            end("T1", commit=False),
            read("r", (0, "a")),
        ],
    ),
    "a transaction is read that another one of its id has ended": (
        "aborted read",
        [
            begin("T1"),
            sent("p", 0, "a", transaction="T1"),
            killed(),
            begin("T2", epoch=1),
            read("r", (0, "a")),
        ],
    ),
    "a record is read before its commit": (
        "dirty read",
        [
            begin("T1"),
            sent("p", 0, "a", transaction="T1"),
            read("r", (0, "a")),
            end("T1", "invoke"),
            end("T1"),
        ],
    ),
    "a refused record is there all the same": (
        "refused write was read",
        [asked("p", "a", delivery="once"), refused("p", "a"), read("r", (0, "a"))],
    ),
    # ---- 7
    "half of a committed transaction is there": (
        "torn transaction",
        [
            begin("T1"),
            sent("p", 0, "a", transaction="T1"),
            sent("p", 0, "b", place=OTHER, transaction="T1"),
            end("T1"),
            sent("q", 2, "c", place=OTHER),
            read("r", (0, "a")),
            starts("r", 0, OTHER),
            read("r", (2, "c"), place=OTHER),
        ],
    ),
    "half of a transaction of unknown end is there": (
        "torn transaction",
        [
            begin("T1"),
            sent("p", 0, "a", "b", transaction="T1"),
            end("T1", "invoke"),
            killed(),
            sent("q", 3, "c"),
            starts("r", 0),
            read("r", (0, "a"), (3, "c")),
        ],
    ),
    # ---- 8
    "two transactions have read each other": (
        "circular information flow",
        [
            begin("T1"),
            begin("U1", "U"),
            sent("p", 0, "a", transaction="T1"),
            sent("q", 0, "b", place=OTHER, transaction="U1"),
            end("T1", "invoke"),
            end("U1", "invoke"),
            read("p", (0, "b"), place=OTHER, transaction="T1"),
            read("q", (0, "a"), transaction="U1"),
            end("T1"),
            end("U1"),
        ],
    ),
    # ---- 9
    "the stable end stays behind when nothing is open": (
        "hanging transaction",
        [
            begin("T1"),
            sent("p", 0, "a", transaction="T1"),
            end("T1"),
            shown("r", 0, 2, stable=0),
        ],
    ),
    "a transaction is open for longer than it may be": (
        "hanging transaction",
        [
            begin("T1", timeout_s=30.0),
            sent("p", 0, "a", transaction="T1"),
            shown("r", 0, 1, stable=0, at=60),
        ],
    ),
    # ---- 10
    "an old epoch writes": (
        "zombie not fenced",
        [
            begin("T1"),
            begin("T2", epoch=1),
            asked("p", "a", transaction="T1"),
            sent("p", 0, "a", transaction="T1"),
        ],
    ),
    "an old epoch commits": (
        "zombie not fenced",
        [
            begin("T1"),
            sent("p", 0, "a", transaction="T1"),
            begin("T2", epoch=1),
            end("T1", "invoke"),
            end("T1"),
        ],
    ),
    # ---- 11
    "a committed offset falls": (
        "committed offset went back",
        [commit("c", 5), killed(), fetched("c", 3)],
    ),
    "a committed offset is none": (
        "committed offset forgotten",
        [commit("c", 0), commit("c", 5), killed(), fetched("d", -1)],
    ),
    "nobody has committed so much": (
        "committed offset out of nowhere",
        [commit("c", 5), fetched("c", 6)],
    ),
    # ---- 12
    "a request is not answered though the broker is there": (
        "stuck client",
        [killed(), healed(at=2), asked("p", "a"), sent("q", 0, "b"), shown("r", 0, 1, at=60)],
    ),
    # ---- 13
    "a member commits what nobody has read": (
        "commit ahead of reading",
        [
            sent("p", 0, "a", "b", "c"),
            starts("c", 0, group="g"),
            read("c", (0, "a")),
            commit("c", 3, "invoke"),
        ],
    ),
    "a member commits more than its transaction has read": (
        "commit ahead of reading",
        [starts("c", 4, group="g"), commit("c", 5, "invoke", transaction="T1"), commit("c", 5)],
    ),
    # ---- 14
    "a power cut takes what group-commit has acknowledged": (
        "acknowledged before it was durable",
        [sent("p", 0, "a", "b"), killed("power"), starts("r", 0), read("r", (0, "a"), end=True)],
    ),
    "a power cut takes from os more than its window": (
        "acknowledged before it was durable",
        [
            created(durability="os"),
            sent("p", 0, "a"),
            killed("power", window_s=5, at=60),
            sent("p", 0, "b"),
        ],
    ),
    # ---- 15
    "a bit of a record has changed": (
        "corrupt record",
        [sent("p", 0, "a"), read("r", (0, "A"))],
    ),
    "a record changes between two reads": (
        "corrupt record",
        [asked("p", "a"), read("r", (0, "a")), killed(), read("s", (0, "\x00"))],
    ),
    # ---- 18
    "a topic is not listed any more": (
        "topic vanished",
        [created(), killed(), listed()],
    ),
    "a deleted topic is listed": (
        "deleted topic is back",
        [created(), deleted(), killed(), listed("t")],
    ),
    # ---- 20
    "the end of a log falls": (
        "high watermark went back",
        [shown("r", 0, 5), killed(), shown("r", 0, 4)],
    ),
    # ---- 25
    "a record comes that nobody has sent": (
        "record out of nowhere",
        [sent("p", 0, "a"), killed(), read("r", (0, "a"), (1, "x"))],
    ),
    "an offset is empty": (
        "hole in the log",
        [
            asked("p", "a"),
            sent("p", 0, "a"),
            killed(),
            sent("p", 2, "b"),
            read("r", (0, "a"), (2, "b")),
        ],
    ),
    # ---- 26
    "compaction takes the last value of a key": (
        "last value of a key removed",
        [
            created("compact"),
            sent("p", 0, "a", "b", keys=["k", "l"]),
            starts("r", 0),
            read("r", (1, "b", "l")),
        ],
    ),
    "a second compaction takes what a first one has left": (
        "last value of a key removed",
        [
            created("compact"),
            sent("p", 0, "a", "b", keys=["k", "l"]),
            read("r", (0, "a", "k"), (1, "b", "l")),
            starts("s", 0),
            read("s", (1, "b", "l")),
        ],
    ),
    "a tombstone goes before what it has removed": (
        "removed key is back",
        [
            created("compact"),
            sent("p", 0, "a", None, "b", keys=["k", "k", "l"]),
            starts("r", 0),
            read("r", (0, "a", "k"), (2, "b", "l")),
        ],
    ),
    "a log that keeps everything begins later": (
        "live data removed",
        [sent("p", 0, "a", "b"), shown("r", 1, 2)],
    ),
    "what retention has removed is there again": (
        "log start went back",
        [
            created("delete"),
            sent("p", 0, "a", "b"),
            shown("r", 1, 2),
            killed(),
            read("r", (0, "a")),
        ],
    ),
    "a log begins earlier than it did": (
        "log start went back",
        [created("delete"), shown("r", 4, 9), killed(), shown("r", 2, 9)],
    ),
    # ---- 27
    "a record is in another partition": (
        "wrong place",
        [asked("p", "a"), read("r", (0, "a"), place=OTHER)],
    ),
    "a record is in another topic": (
        "wrong place",
        [
            asked("p", "a"),
            asked("p", "b"),
            read("r", (0, "b")),
            read("r", (0, "a"), place=("u", 0)),
        ],
    ),
    # ---- 28
    "two members have a partition in one generation": (
        "two owners",
        [owns("c", 1), owns("d", 1)],
    ),
    "a partition is given to another before it is given back": (
        "two owners",
        [owns("c", 1), owns("d", 2), owns("e", 2), loses("d"), beats("e", 2)],
    ),
    "an older generation's heartbeats are taken": (
        "stale commit accepted",
        [owns("c", 1), beats("c", 1), owns("d", 2, at=10), beats("c", 1, at=20)],
    ),
    "an older generation commits": (
        "stale commit accepted",
        [
            owns("c", 1),
            owns("d", 2),
            commit("c", 1, "invoke", generation=1),
            commit("c", 1, generation=1),
        ],
    ),
    "an older generation commits before the newer one gives back": (
        "stale commit accepted",
        [owns("c", 1), beats("c", 1), owns("d", 2), commit("c", 1, generation=1), loses("d")],
    ),
    # ---- 29
    "the end is before what was acknowledged to who asks": (
        "end before an acknowledged write",
        [sent("p", 0, "a", "b"), shown("p", 0, 1)],
    ),
}

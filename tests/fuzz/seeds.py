"""Inputs to begin with: Kafka's own bytes from tests/vectors, and those in corpus/.

corpus/TARGET.txt has one input a line, in hex; a line that begins with # says what is found in the
next one. Some once broke something, the others are what `make fuzz FUZZ=--keep` found to take most
edges with least bytes.
"""

from collections.abc import Iterator
from pathlib import Path

from broker.codec import schema
from broker.codec.compression import compress
from broker.model.compressions import GZIP, LZ4, SNAPPY, ZSTD
from tests.fuzz import compression_targets
from tests.fuzz.inputs import OPTIONS_SIZE
from tests.fuzz.message_targets import KEYS, RECORDS
from tests.vectors import vector_files

CORPUS = Path(__file__).parent / "corpus"
SEED_SIZE_MAX = 1024
WIDE = bytes.fromhex("013f0000000000 00")  # right CRCs, every column, no filter
TEXTS = [b"", b"a", b"polylog " * 60, bytes(range(256)), b"\0" * 500]


def corpus_file(target: str) -> Path:
    """Where the inputs of a target are kept."""
    return CORPUS / f"{target}.txt"


def kept(target: str) -> list[bytes]:
    """Return the inputs that are checked in."""
    file = corpus_file(target)
    if not file.exists():
        return []
    lines = file.read_text().splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def seeds(target: str) -> list[bytes]:
    """Return inputs that are known to mean something to a target."""
    match target:
        case "request" | "response" | "record":
            found = list(_messages(target))
        case "batch" | "message_set" | "compressed_batch" | "compressed_message_set":
            found = list(_batches(target))
        case _:
            found = list(_folded(target))
    return [*kept(target), *found]


def _messages(target: str) -> Iterator[bytes]:
    """Each message as it is set, in the versions that are the first with something new."""
    for release in vector_files.RELEASES:
        for line in vector_files.lines(release, "messages"):
            kind = line["kind"] if line["kind"] in {"request", "response"} else "record"
            if kind != target or line["filling"] != "set":
                continue
            names = RECORDS if kind == "record" else KEYS
            name = line["name"] if kind == "record" else line["api"]
            if name not in names:
                continue
            message = schema.record(name) if kind == "record" else schema.request(name)
            if line["version"] in {message.versions[0], message.first_flexible} or (
                line["version"] == message.versions[-1]
            ):
                place = line["version"] - message.versions[0]
                yield bytes([names.index(name), place]) + bytes.fromhex(line["hex"])


def _batches(target: str) -> Iterator[bytes]:
    """Batches for the batch targets, messages for those of message sets, compressed ones too."""
    wants_batches = target in {"batch", "compressed_batch"}
    for line in vector_files.lines(vector_files.NEWEST, "batches"):
        content = bytes.fromhex(line["hex"])
        is_batch = all(batch["magic"] > 1 for batch in line["batches"])
        if len(content) <= SEED_SIZE_MAX and is_batch == wants_batches:
            yield WIDE + content


def _folded(target: str) -> Iterator[bytes]:
    """What each of Kafka's batches and some other texts compress to."""
    numbers = {"gzip": GZIP, "snappy": SNAPPY, "xerial": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
    number = numbers[target].number
    for text in TEXTS:
        folded = compress(number, text)
        is_framed = folded.startswith(compression_targets.XERIAL_HEADER)
        yield options_of(is_framed=is_framed == (target == "xerial")) + folded
        if target == "snappy":
            yield options_of(is_framed=False) + folded[len(compression_targets.XERIAL_HEADER) + 4 :]


def options_of(*, is_framed: bool) -> bytes:
    """A limit of a mebibyte, a round trip, and the bytes as they are."""
    return bytes([20, 0, 1 | is_framed << 3]).ljust(OPTIONS_SIZE, b"\0")

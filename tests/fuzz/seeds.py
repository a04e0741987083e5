"""Initial inputs: Kafka's own bytes from tests/vectors, and those in corpus/.

corpus/TARGET.txt has one input a line, in hex; a line that begins with # describes the next one.
Some once caused a failure, the others are the smallest ones that `make fuzz FUZZ=--keep` found to
cover most edges.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from broker.codec import encode, messages, schema
from broker.codec.compression import compress
from broker.codec.schema import Message
from broker.model.compressions import GZIP, LZ4, SNAPPY, ZSTD
from tests.fuzz import (
    before_login_target,
    compression_targets,
    connection_target,
    cursus_target,
    encode_targets,
    login_target,
    rustlog_target,
)
from tests.fuzz.inputs import OPTIONS_SIZE
from tests.fuzz.message_targets import KEYS, RECORDS
from tests.support.broken_batches import CASES
from tests.vectors import vector_files

OWN_SEEDS = {
    "connection": connection_target.seeds,
    "rustlog": rustlog_target.seeds,
    "cursus_batch": cursus_target.seeds,
    "login": login_target.seeds,
    "before_login": before_login_target.seeds,
}
CORPUS = Path(__file__).parent / "corpus"
SEED_SIZE_MAX = 1024
WIDE = bytes.fromhex("017f000000000000")  # correct CRCs, every column, no filter, encoded again
HELD = bytes.fromhex("313f0000aa000000")  # into reused memory, every second array referenced
INT16 = struct.Struct(">h")
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
TEXTS = [b"", b"a", b"polylog " * 60, bytes(range(256)), b"\0" * 500]


def corpus_file(target: str) -> Path:
    """Return the file with the inputs of a target."""
    return CORPUS / f"{target}.txt"


def kept(target: str) -> list[bytes]:
    """Return the inputs that are checked in."""
    file = corpus_file(target)
    if not file.exists():
        return []
    lines = file.read_text().splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def seeds(target: str) -> list[bytes]:
    """Return valid inputs for a target."""
    match target:
        case "request" | "response" | "record":
            found = list(_messages(target))
        case "frame":
            found = list(_frames())
        case "coordinator_record":
            found = list(_coordinator_records())
        case "consumer_protocol":
            found = list(_consumer_protocol())
        case "encode_rows" | "encode_columns":
            found = list(encode_targets.seeds())
        case _ if target in OWN_SEEDS:
            found = list(OWN_SEEDS[target]())
        case "segment":
            found = list(_segments())
        case "batch" | "message_set" | "compressed_batch" | "compressed_message_set":
            found = list(_batches(target))
        case "compaction" | "preparation" | "conversion":
            found = [head + each for head in HEADS[target] for each in _without_options(target)]
        case _:
            found = list(_compressed(target))
    return [*kept(target), *found]


def _vectors(*kinds: str) -> Iterator[tuple[Message, int, bytes]]:
    """Return each message in its oldest, first flexible and newest version."""
    for release in vector_files.RELEASES:
        for line in vector_files.lines(release, "messages"):
            kind, version = line["kind"], line["version"]
            if line["filling"] != "set" or (kinds and kind not in kinds):
                continue
            find = {"request": schema.request, "response": schema.response}.get(kind)
            message = find(line["api"]) if find else schema.record(line["name"])
            if version in {message.versions[0], message.first_flexible, message.versions[-1]}:
                yield message, version, bytes.fromhex(line["hex"])


def _messages(target: str) -> Iterator[bytes]:
    for message, version, content in _vectors():
        is_record = message.kind not in {"request", "response"}
        if target == ("record" if is_record else message.kind):
            place = RECORDS.index(message.name) if is_record else KEYS.index(message.api_key or 0)
            yield bytes([place, version - message.versions[0]]) + content


def _frames() -> Iterator[bytes]:
    """A few requests, two at a time, and responses without their sizes."""
    found = []
    for message, version, content in _vectors("request", "response"):
        assert message.api_key is not None
        if message.api_key % 6 != 0:
            continue
        body, _ = message.decode(version, content)
        if message.kind == "request":
            found.append(messages.request_frame(message.api_key, version, body, client_id="me"))
            yield options(0xFF) + b"".join(found[-2:])
        else:
            place = version - message.versions[0]
            framed = messages.response_frame(message.api_key, version, body)
            yield options(0xFF, KEYS.index(message.api_key), place) + framed[4:]


def _coordinator_records() -> Iterator[bytes]:
    """Each key with the versions of its value."""
    keys = {message.name: (message, content) for message, _, content in _vectors("key")}
    for message, version, content in _vectors("value"):
        found = keys.get(message.name.removesuffix("Value") + "Key")
        if found is not None and found[0].api_key is not None:
            key = INT16.pack(found[0].api_key) + found[1]
            yield options(len(key)) + key + INT16.pack(version) + content


def _consumer_protocol() -> Iterator[bytes]:
    for message, version, content in _vectors("data"):
        if message.name.startswith("ConsumerProtocol"):
            yield INT16.pack(version) + content


def _segments() -> Iterator[bytes]:
    """Return three consecutive batches with their indexes."""
    for compression in ("none", "gzip", "lz4"):
        log = offsets = times = b""
        for base_offset in (0, 7, 20):
            [batch] = encode(
                [(b"key", b"value")] * 3,
                timestamp_ms=1000 + base_offset,
                base_offset=base_offset,
                compression=compression,
            )
            offsets += OFFSET_ENTRY.pack(base_offset + 2, len(log))
            times += TIME_ENTRY.pack(1000 + base_offset, base_offset + 2)
            log += batch
        yield options(3, 3, 15, 0xC5, 0xCA) + offsets + times + log
        yield options(0, 0, 8, 0xC5, 0xCA) + log + bytes(20)


def _without_options(target: str) -> Iterator[bytes]:
    """Batches of all codecs, and message sets for a target that takes both."""
    kinds = ("batch", "message_set") if target == "conversion" else ("batch",)
    yield from (each[OPTIONS_SIZE:] for kind in kinds for each in _batches(kind))
    if target == "preparation":
        yield from (case.batch() for case in CASES.values())


def _batches(target: str) -> Iterator[bytes]:
    """Return batches for batch targets, messages for message set targets, compressed ones too."""
    wants_batches = target in {"batch", "compressed_batch"}
    for line in vector_files.lines(vector_files.NEWEST, "batches"):
        content = bytes.fromhex(line["hex"])
        is_batch = all(batch["magic"] > 1 for batch in line["batches"])
        if len(content) <= SEED_SIZE_MAX and is_batch == wants_batches:
            yield WIDE + content
            yield HELD + content


def _compressed(target: str) -> Iterator[bytes]:
    """What each of Kafka's batches and some other texts compress to."""
    numbers = {"gzip": GZIP, "snappy": SNAPPY, "xerial": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
    number = numbers[target].number
    for text in TEXTS:
        compressed = compress(number, text)
        is_framed = compressed.startswith(compression_targets.XERIAL_HEADER)
        # A limit of 64 KiB, a round trip, and for xerial the bytes as they are.
        yield options(16, 0, 1 | (is_framed and target == "xerial") << 3) + compressed
        if target == "snappy":
            yield options(16, 0, 1) + compressed[len(compression_targets.XERIAL_HEADER) + 4 :]


def options(*values: int) -> bytes:
    """Return the options of an input."""
    return bytes(values).ljust(OPTIONS_SIZE, b"\0")


HEADS = {
    "compaction": [options(0, 40)],  # a map of that many slots
    "preparation": [options(config) for config in range(7)],
    "conversion": [options()],
}

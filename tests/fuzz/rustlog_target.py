"""RustLog's frames, JSON, record runs and responses: whatever a peer sends or a log has."""

import json
from collections.abc import Iterator

from broker._native.protocols.rustlog.answer import FetchAnswerWriter
from broker._native.protocols.rustlog.byte_arrays import JsonRecords, byte_array
from broker._native.protocols.rustlog.counters import RustLogCounters
from broker._native.protocols.rustlog.protocol import RustLog
from broker._native.protocols.rustlog.record_run import RunBatches, check_run
from broker.codec import encode, records
from broker.model.errors import CodecError, LimitExceeded
from broker.model.limits import RUSTLOG_FRAME_BYTES_MAX
from tests.fuzz.batch_targets import fit_crcs
from tests.fuzz.connection_target import Wires, end, send
from tests.fuzz.inputs import OPTIONS_SIZE, Options, outcome
from tests.support.native_wire import Wire
from tests.support.rustlog_client import PING, fetch, frame, produce

BATCH_BYTES_MAX = 300
KINDS = 4


def rustlog(data: bytes) -> None:
    """Feed one of the four; the first option selects it."""
    options = Options(data)
    feed = (_connection, _json, _run, _answer)[options.byte(0) % KINDS]
    feed(options)


def _ignore(*_: object) -> None:
    pass


def _serve(wire: Wire) -> None:
    protocol = RustLog(None, RustLogCounters(), write_failed=b"failed")
    wire.poller.serve_with({"rustlog": protocol}, wire.slow.extend, _ignore)


_WIRES = Wires(_serve)


def _connection(options: Options) -> None:
    """Send the bytes at once or in pieces, and close; Python does not answer."""
    wire = _WIRES.wire()
    client = wire.connect()
    send(client, options.content, is_in_pieces=options.flag(1, 0))
    client.frames()
    end(wire, client)


def _json(options: Options) -> None:
    """Parse records in steps of some size; the json library must parse the same, if anything."""
    body = options.content
    step = 1 + options.byte(1)

    def read() -> JsonRecords:
        found = JsonRecords(body, 1 << 16)
        while not found.step(step):
            pass
        return found

    found = outcome(len(body), read)
    if isinstance(found, CodecError):
        return
    assert check_run(found.run, 0, found.count) is None
    try:
        envelope = json.loads(found.envelope)
    except (ValueError, RecursionError):
        return
    if found.has_records and isinstance(envelope, dict) and len(envelope) == 1:
        [fields] = envelope.values()
        [whole] = json.loads(body).values()
        if isinstance(fields, dict) and fields.get("records") == 0:
            arrays = whole["records"]
            texts = b"".join(len(each).to_bytes(4) + bytes(each) for each in arrays)
            assert found.run == texts
            assert [json.loads(byte_array(bytes(each))) for each in arrays] == arrays


def _run(options: Options) -> None:
    """Make batches of as many records as an option says, if they are there."""
    count = options.byte(1)
    if check_run(options.content, 0, count) is not None:
        return
    made = RunBatches(options.content, 0, count, batch_bytes_max=BATCH_BYTES_MAX, timestamp_ms=1)
    values = []
    try:
        while (batch := made.next()) is not None:
            assert len(batch) <= BATCH_BYTES_MAX
            values += [each.value or b"" for each in records(batch)]
    except LimitExceeded:
        return
    run = b"".join(len(each).to_bytes(4) + each for each in values)
    assert options.content.startswith(run)
    assert len(values) == count


def _answer(options: Options) -> None:
    """Write a response from whatever has a batch's header and a correct CRC."""
    content = bytearray(options.content)
    fit_crcs(content)
    batch = bytes(content)
    for is_json in (False, True):
        answer = FetchAnswerWriter(options.byte(1), options.byte(2) << 4, is_json=is_json)
        answer.add(batch, bytes(batch[61:]))
        body = answer.finish(answer.next_offset & (2**64 - 1))
        assert len(body) <= RUSTLOG_FRAME_BYTES_MAX
        if is_json:
            assert len(json.loads(body)["Fetch"]["records"]) == answer.count
        else:
            assert int.from_bytes(body[1:5]) == answer.count


def seeds() -> Iterator[bytes]:
    """Return one input of each kind, and some more frames."""
    frames = frame(produce("topic", 0, [b"a", b"", b"c"])) + frame(fetch("topic", 0, 0, 99))
    for pieces in (0, 1):
        yield _head(0, pieces) + frames + frame(PING) + frame(b'{"OffsetFetch":{}}')
    yield _head(0) + frame(produce("topic", 1, [bytes(200)] * 3))[:-1] + bytes(4)
    body = b'{"Produce":{"topic":"t","partition":0,"records":[[1,22,255],[],[ 0 ]]}}'
    for step in (0, 3, 255):
        yield _head(1, step) + body
    yield _head(2, 3) + b"".join(len(each).to_bytes(4) + each for each in (b"a", b"", b"c" * 40))
    for compression in ("none", "gzip"):
        [batch] = encode([b"a", (b"k", None), b"c"], compression=compression, timestamp_ms=1)
        yield _head(3, 1, 255) + batch


def _head(*options: int) -> bytes:
    return bytes(options).ljust(OPTIONS_SIZE, b"\0")

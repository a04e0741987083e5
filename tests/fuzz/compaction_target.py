"""Compaction of arbitrary log bytes: some of their records, unchanged, or an error."""

from typing import Any, Final

from broker import codec
from broker._native.records.compaction import KeyCollector, RecordFilter
from broker._native.records.key_map import PLACE_BYTES, KeyMap
from broker.codec.compression import compress, decompress_into
from broker.model.errors import CodecError
from tests.fuzz.batch_targets import fit_crcs
from tests.fuzz.inputs import Options, exact, outcome

SECRET: Final = bytes(16)
PLACES_MIN = 4
BYTES_MAX = 4 << 20
END_OFFSET = 1 << 62


def compaction(data: bytes) -> None:
    """Use bytes as they are, or with correct CRCs: collect their keys, then filter them."""
    options = Options(data)
    content = bytearray(options.content)
    if not options.flag(0, 0):
        fit_crcs(content)
    given = bytes(content)
    producer = options.number(6)
    common: dict[str, Any] = {
        "decompress": decompress_into,
        "decompressed_bytes_max": BYTES_MAX,
        "aborted": [(producer, 0, END_OFFSET)] if options.flag(0, 1) else [],
    }
    key_map = KeyMap((PLACES_MIN + options.byte(1)) * PLACE_BYTES, SECRET)
    collector = KeyCollector(key_map, first_offset=options.byte(2), end_offset=END_OFFSET, **common)
    end = outcome(len(given), lambda: collector.add(exact(given)))
    assert isinstance(end, CodecError) or 0 <= end <= len(given)
    assert key_map.count <= key_map.capacity

    kept = filtered(given, key_map, options, common)

    if kept is not None:
        again = filtered(kept, key_map, options, common)
        assert again is not None, "what compaction writes it refuses"


def filtered(
    given: bytes, key_map: KeyMap, options: Options, common: dict[str, Any]
) -> bytes | None:
    """Return what remains of some bytes, or None when they are refused."""
    record_filter = RecordFilter(
        key_map,
        compress=compress,
        now_ms=options.number(3),
        delete_retention_ms=options.byte(4),
        producer_ends=[(options.number(5), 0, options.byte(7) - 1)],
        **common,
    )
    found = outcome(len(given), lambda: record_filter.filter(exact(given)))
    if isinstance(found, CodecError):
        return None
    kept, end = bytes(found[0]), found[1]
    before = outcome(end, lambda: rows(given[:end]))
    if not isinstance(before, CodecError):  # record headers are not interpreted here
        assert rows(kept).items() <= before.items()
    assert record_filter.records_kept <= record_filter.records_read
    return kept


def rows(batches: bytes) -> dict[int, tuple[Any, ...]]:
    """Return every record by its offset."""
    return {
        each.offset: (each.timestamp, each.key, each.value, tuple(each.headers))
        for each in codec.records(batches, bytes_max=BYTES_MAX)
    }

"""Protocol detection: which protocol of this port a connection speaks, by its first bytes.

    first bytes                                                               protocol
    16 03                                                                     TLS, not served
    a newline before the fourth byte                                          V1: a line too short
    GET_ POST HEAD                                                            HTTP
    four bytes of printable ASCII or white space: as a length, above all
      limits of frames                                                        V1
    a length, then BA7C; the magic of gzip, xerial snappy, lz4 or zstd        Cursus
    a length, then 00, a topic's length and its first character; or 00 00
      and the first byte of a batch or a command                              Cursus, in an envelope
    a length, then a word of letters and _, followed by white space or by
      the end of the frame                                                    Cursus
    a length, then a raw snappy block whose first bytes are BA7C              Cursus
    a length, then `{` or JSON's white space; a length of 0                   RustLog, JSON
    a length, then 01 to 09 or FF: the type of a request, whose first string
      fits into the frame                                                     RustLog, binary
    a length, then an int16 API key and an int16 version that are plausible   Kafka

The rows are tried in this order. A row that needs more bytes to decide makes the connection wait
for them. No row consumes bytes.

Kafka's third byte after the length is the upper half of a version, 00; an envelope has the first
character of a topic or of a command there. RustLog's types 01 to 09 and FF are tried after the raw
snappy block, since the length at the start of such a block may equal one of them; no request of
RustLog continues with BA7C.

An API key that Kafka does not have may begin with a request type of RustLog: 999 is 03 E7, -7 is FF
F9. In a frame that is long enough for a request of Kafka, a type with fields must therefore be
followed by a string that fits, and a type without fields by nothing. Otherwise no protocol is
served.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memchr, memcmp

from broker._native.kernel.cursor cimport (
    READ_DONE,
    READ_SHORT,
    Cursor,
    ReadStatus,
    cursor_take,
    cursor_unsigned_varint,
    load_int16,
    load_int32,
)
from broker._native.wire.frame cimport FRAME_HEAD_SIZE

from broker.model import protocol_names
from broker.model import limits

cdef enum:
    KAFKA_REQUEST_MIN = 10        # key, version, correlation id, client id length
    KAFKA_KEYS = 128              # above every key that exists (95 of them in Kafka 4.4)
    KAFKA_VERSIONS = 128          # Kafka 4.4 is at 18 after fifteen years
    RUSTLOG_TYPE_LAST = 0x09
    RUSTLOG_LIST_TOPICS = 0x06
    RUSTLOG_PING = 0xFF
    RUSTLOG_FIRST_TEXT = 7        # after the frame's length, the type and the length of a string
    NEWLINE = 10
    CURSUS_WORD_MAX = 19
    CURSUS_BATCH_MIN = 31         # a header with a topic and no acks
    SNAPPY_BATCH_MIN = 20         # such a batch does not compress to fewer bytes
    SNAPPY_LONG_LITERAL = 60      # from here on the tag is the number of length bytes

cdef int64_t CURSUS_FRAME_BYTES_MAX = limits.CURSUS_FRAME_BYTES_MAX

cdef enum Verdict:
    VERDICT_NO
    VERDICT_MORE
    VERDICT_YES

ctypedef Verdict (*Matcher)(const uint8_t* data, size_t size) noexcept nogil

cdef struct Row:
    Matcher matcher
    Protocol protocol


cdef inline bint is_text(uint8_t byte) noexcept nogil:
    return 0x20 <= byte < 0x7F or 0x09 <= byte <= 0x0D


cdef Verdict looks_like_tls(const uint8_t* data, size_t size) noexcept nogil:
    if data[0] != 0x16:
        return VERDICT_NO
    if size < 2:
        return VERDICT_MORE
    return VERDICT_YES if data[1] == 0x03 else VERDICT_NO


cdef Verdict looks_like_short_line(const uint8_t* data, size_t size) noexcept nogil:
    cdef size_t i
    for i in range(min(size, FRAME_HEAD_SIZE)):
        if not is_text(data[i]):
            return VERDICT_NO
        if data[i] == NEWLINE and i < FRAME_HEAD_SIZE - 1:
            return VERDICT_YES
    return VERDICT_NO if size >= FRAME_HEAD_SIZE else VERDICT_MORE


cdef Verdict looks_like_http(const uint8_t* data, size_t size) noexcept nogil:
    if size < FRAME_HEAD_SIZE:
        return VERDICT_MORE
    if not memcmp(data, b"GET ", 4) or not memcmp(data, b"POST", 4) or not memcmp(data, b"HEAD", 4):
        return VERDICT_YES
    return VERDICT_NO


cdef Verdict looks_like_line(const uint8_t* data, size_t size) noexcept nogil:
    cdef size_t i
    if size < FRAME_HEAD_SIZE:
        return VERDICT_MORE
    for i in range(FRAME_HEAD_SIZE):
        if not is_text(data[i]):
            return VERDICT_NO
    return VERDICT_YES


cdef inline bint is_letter(uint8_t byte) noexcept nogil:
    return 0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A


cdef inline bint is_blank(uint8_t byte) noexcept nogil:
    return byte == 0x20 or 0x09 <= byte <= 0x0D


cdef Verdict begins_with(
        Cursor frame, size_t whole, const char* magic, size_t magic_size) noexcept nogil:
    # `frame` is what has been received of a frame of `whole` bytes.
    cdef size_t size = min(frame.left, magic_size)
    if whole < magic_size or memcmp(frame.next, magic, size):
        return VERDICT_NO
    return VERDICT_YES if size == magic_size else VERDICT_MORE


cdef Verdict is_envelope(Cursor frame, size_t whole) noexcept nogil:
    cdef uint8_t first
    if whole < 3 or frame.next[0] != 0:
        return VERDICT_NO
    if frame.left < 3:
        return VERDICT_MORE
    first = frame.next[2]
    if frame.next[1] > 0:
        return (VERDICT_YES if is_letter(first) or 0x30 <= first <= 0x39
                or memchr(b"._=-*?", first, 6) != NULL else VERDICT_NO)
    return (VERDICT_YES if is_letter(first) or is_blank(first)
            or memchr(b"\xba\x1f\x82\x04\x28", first, 5) != NULL else VERDICT_NO)


cdef Verdict is_word(Cursor frame, size_t whole) noexcept nogil:
    cdef size_t i
    if not is_letter(frame.next[0]):
        return VERDICT_NO
    for i in range(min(frame.left, <size_t>CURSUS_WORD_MAX + 1)):
        if is_blank(frame.next[i]):
            return VERDICT_YES
        if not is_letter(frame.next[i]) and frame.next[i] != c"_":
            return VERDICT_NO
    if frame.left > CURSUS_WORD_MAX:
        return VERDICT_NO
    return VERDICT_YES if frame.left >= whole else VERDICT_MORE


cdef Verdict is_snappy_batch(Cursor frame, size_t whole) noexcept nogil:
    # Uncompressed length, tag of a literal, length of a long literal: then the first bytes of the
    # batch.
    cdef uint32_t plain = 0
    cdef const uint8_t* tag
    cdef ReadStatus status
    if whole < SNAPPY_BATCH_MIN:
        return VERDICT_NO
    status = cursor_unsigned_varint(&frame, &plain)
    if status != READ_DONE:
        return VERDICT_MORE if status == READ_SHORT else VERDICT_NO
    if not CURSUS_BATCH_MIN <= plain <= CURSUS_FRAME_BYTES_MAX:
        return VERDICT_NO
    tag = cursor_take(&frame, 1)
    if tag == NULL:
        return VERDICT_MORE
    if tag[0] & 3:
        return VERDICT_NO
    if tag[0] >> 2 >= SNAPPY_LONG_LITERAL and (
            cursor_take(&frame, (tag[0] >> 2) - SNAPPY_LONG_LITERAL + 1) == NULL):
        return VERDICT_MORE
    if frame.left == 0:
        return VERDICT_MORE
    return begins_with(frame, frame.left + 3, b"\xba\x7c\0", 3)


cdef Verdict looks_like_cursus(const uint8_t* data, size_t size) noexcept nogil:
    cdef Verdict verdict
    cdef Cursor frame
    cdef int32_t length
    if size < FRAME_HEAD_SIZE:
        return VERDICT_MORE
    length = load_int32(data)
    if not 0 < length <= CURSUS_FRAME_BYTES_MAX:
        return VERDICT_NO
    if size == FRAME_HEAD_SIZE:
        return VERDICT_MORE
    frame.next = data + FRAME_HEAD_SIZE
    frame.left = min(size - FRAME_HEAD_SIZE, <size_t>length)    # another frame may follow
    verdict = begins_with(frame, length, b"\xba\x7c", 2)
    if verdict == VERDICT_NO:
        verdict = begins_with(frame, length, b"\x1f\x8b", 2)
    if verdict == VERDICT_NO:
        verdict = begins_with(frame, length, b"\x82SNAPPY\0", 8)
    if verdict == VERDICT_NO:
        verdict = begins_with(frame, length, b"\x04\x22\x4d\x18", 4)
    if verdict == VERDICT_NO:
        verdict = begins_with(frame, length, b"\x28\xb5\x2f\xfd", 4)
    if verdict == VERDICT_NO:
        verdict = is_envelope(frame, length)
    if verdict == VERDICT_NO:
        verdict = is_word(frame, length)
    if verdict == VERDICT_NO:
        verdict = is_snappy_batch(frame, length)
    return verdict


cdef Verdict looks_like_rustlog(const uint8_t* data, size_t size) noexcept nogil:
    cdef uint8_t kind
    cdef int32_t text_size
    if size < FRAME_HEAD_SIZE:
        return VERDICT_MORE
    if load_int32(data) == 0:
        return VERDICT_YES      # of no other protocol; RustLog answers it with an error
    if size == FRAME_HEAD_SIZE:
        return VERDICT_MORE
    kind = data[FRAME_HEAD_SIZE]
    if memchr(b"{ \t\r\n", kind, 5) != NULL:
        return VERDICT_YES
    if kind != RUSTLOG_PING and not 0 < kind <= RUSTLOG_TYPE_LAST:
        return VERDICT_NO
    if load_int32(data) < KAFKA_REQUEST_MIN:
        return VERDICT_YES
    if kind == RUSTLOG_PING or kind == RUSTLOG_LIST_TOPICS:
        return VERDICT_NO       # they have no fields; METRICS, a tab, is taken for JSON above
    if size < RUSTLOG_FIRST_TEXT:
        return VERDICT_MORE
    text_size = <uint16_t>load_int16(data + RUSTLOG_FIRST_TEXT - 2)
    return VERDICT_YES if text_size <= load_int32(data) - 3 else VERDICT_NO


cdef Verdict looks_like_kafka(const uint8_t* data, size_t size) noexcept nogil:
    cdef int16_t key, version
    if load_int32(data) < KAFKA_REQUEST_MIN:
        return VERDICT_NO
    if size < FRAME_HEAD_SIZE + 4:
        return VERDICT_MORE
    key = load_int16(data + 4)
    version = load_int16(data + 6)
    return VERDICT_YES if 0 <= key < KAFKA_KEYS and 0 <= version < KAFKA_VERSIONS else VERDICT_NO


cdef Row table[8]
table[0] = Row(looks_like_tls, PROTOCOL_UNKNOWN)
table[1] = Row(looks_like_short_line, PROTOCOL_V1)
table[2] = Row(looks_like_http, PROTOCOL_HTTP)
table[3] = Row(looks_like_line, PROTOCOL_V1)
table[4] = Row(looks_like_cursus, PROTOCOL_CURSUS)
table[5] = Row(looks_like_rustlog, PROTOCOL_RUSTLOG)
table[6] = Row(looks_like_kafka, PROTOCOL_KAFKA)
table[7] = Row(NULL, PROTOCOL_UNKNOWN)

assert len(protocol_names.PROTOCOL_NAMES) == PROTOCOLS - PROTOCOL_KAFKA


cdef Protocol protocol_named(str name) except *:
    """Return the protocol of a name in model/protocol_names; raise ValueError for other names."""
    return <Protocol>(PROTOCOL_KAFKA + <int>protocol_names.PROTOCOL_NAMES.index(name))


cdef Protocol protocol_of(const uint8_t* data, size_t size) noexcept nogil:
    """Return the protocol of a connection's first bytes (docs/decisions/0003-one-port.md)."""
    cdef Row* row = table
    cdef Verdict verdict
    if size == 0:
        return PROTOCOL_UNDECIDED
    while row.matcher != NULL:
        verdict = row.matcher(data, size)
        if verdict == VERDICT_YES:
            return row.protocol
        if verdict == VERDICT_MORE:
            return PROTOCOL_UNDECIDED
        row += 1
    return row.protocol


def detect(bytes data not None):
    """Return the name of the protocol of a connection's first bytes; "" if none is served.

    None: more bytes are needed to decide.
    """
    cdef Protocol found = protocol_of(data, len(data))
    if found == PROTOCOL_UNDECIDED:
        return None
    return (
        protocol_names.PROTOCOL_NAMES[<int>found - PROTOCOL_KAFKA]
        if found >= PROTOCOL_KAFKA else "")

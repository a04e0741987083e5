"""First bytes → protocol: which of the dialects on this port a connection speaks.

    first bytes                                                               protocol
    16 03                                                                     TLS, not served yet
    a newline before the fourth byte                                          V1: a line too short
    GET_ POST HEAD                                                            HTTP
    four printable ASCII or white-space bytes: more than any frame may have   V1
    a length, then BA7C; the magic of gzip, xerial snappy, lz4 or zstd        Cursus
    a length, then 00, a topic's length and its first character, or 00 00
      and what else could begin here                                          Cursus, in an envelope
    a length, then a word of letters and _ behind which there is white space
      or the end                                                              Cursus
    a length, then a raw snappy block whose first bytes are BA7C              Cursus
    a length, then `{` or JSON's white space; a length of 0                   RustLog, JSON
    a length, then 01 to 09 or FF: the type of a request, whose first text
      has room in the frame                                                   RustLog, binary
    a length, then an int16 API key and an int16 version that are plausible   Kafka

The rows are tried in this order; one that cannot tell yet has the connection wait for more. A row
looks at the bytes and takes none of them.

Kafka's third byte behind the length is the upper half of a version, 00, where an envelope has the
first character of a topic or of a command. RustLog's requests of the types 01 to 09 and FF come
behind the raw snappy block, because the length that such a block begins with may be one of them:
no request of RustLog goes on with BA7C.

An API key that Kafka does not have may begin with the type of a request of RustLog: 999 is 03 E7,
-7 is FF F9. In a frame that is long enough for a request of Kafka, a type that has fields is
therefore followed by a text that fits, and one without fields by nothing; otherwise no protocol is
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
    RUSTLOG_FIRST_TEXT = 7        # behind the frame's length, the type and the length of a text
    NEWLINE = 10
    CURSUS_WORD_MAX = 19
    CURSUS_BATCH_MIN = 31         # a header with a topic and no acks
    SNAPPY_BATCH_MIN = 20         # such a batch is not folded smaller
    SNAPPY_LONG_LITERAL = 60      # from here on it is how many bytes the length has

cdef int64_t CURSUS_FRAME_BYTES_MAX = limits.CURSUS_FRAME_BYTES_MAX

cdef enum Verdict:
    VERDICT_NO
    VERDICT_MORE
    VERDICT_YES

ctypedef Verdict (*Look)(const uint8_t* data, size_t size) noexcept nogil

cdef struct Row:
    Look look
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
    # `frame` is what has come of a frame of `whole` bytes.
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
    # Plain length, a literal's tag, a long one's length: then the batch's first bytes.
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
    frame.left = min(size - FRAME_HEAD_SIZE, <size_t>length)    # another one may follow
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
        return VERDICT_YES      # nobody else's; RustLog has an answer to it
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
        return VERDICT_NO       # they have no fields; METRICS is a tab, taken for JSON above
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
    """The protocol of a name in model/protocol_names; raises ValueError for another one."""
    return <Protocol>(PROTOCOL_KAFKA + <int>protocol_names.PROTOCOL_NAMES.index(name))


cdef Protocol protocol_of(const uint8_t* data, size_t size) noexcept nogil:
    """Decide by a connection's first bytes what it speaks (design.md section 6)."""
    cdef Row* row = table
    cdef Verdict verdict
    if size == 0:
        return PROTOCOL_UNDECIDED
    while row.look != NULL:
        verdict = row.look(data, size)
        if verdict == VERDICT_YES:
            return row.protocol
        if verdict == VERDICT_MORE:
            return PROTOCOL_UNDECIDED
        row += 1
    return row.protocol


def detect(bytes data not None):
    """What a connection speaks that begins with these bytes: a name, "" for nothing that is served.

    None: they are too few to tell.
    """
    cdef Protocol found = protocol_of(data, len(data))
    if found == PROTOCOL_UNDECIDED:
        return None
    return protocol_names.PROTOCOL_NAMES[<int>found - PROTOCOL_KAFKA] if found >= PROTOCOL_KAFKA else ""

#include "wire/wire.h"

#include <sys/socket.h>

#include "kernel/crc32_hardware.h"
#include "kernel/crc32c_hardware.h"
#include "wire/tools.h"

enum {
    INBOX_BYTES_MIN = 4096,
    FRAME_BYTES_MAX = 256 << 20, /* a larger size is not that of a frame of ours */
};

static const int16_t versions[API_KEYS] = {
    [API_PRODUCE] = PRODUCE_VERSION,
    [API_FETCH] = FETCH_VERSION,
    [API_LIST_OFFSETS] = LIST_OFFSETS_VERSION,
    [API_METADATA] = METADATA_VERSION,
    [API_VERSIONS] = VERSIONS_VERSION,
    [API_CREATE_TOPICS] = CREATE_TOPICS_VERSION,
    [API_DELETE_TOPICS] = DELETE_TOPICS_VERSION,
};

/* ---- writing -------------------------------------------------------------------------------- */

static uint8_t *buffer_extend(struct buffer *buffer, size_t more)
{
    if (buffer->size + more > buffer->capacity) {
        buffer->capacity = 2 * buffer->capacity + more;
        buffer->bytes = realloc(buffer->bytes, buffer->capacity);
        if (buffer->bytes == NULL)
            die("no memory for a buffer of %zu bytes", buffer->capacity);
    }
    buffer->size += more;
    return buffer->bytes + buffer->size - more;
}

void set_int(uint8_t *at, int64_t value, size_t width)
{
    for (uint64_t rest = (uint64_t)value; width > 0; rest >>= 8)
        at[--width] = (uint8_t)rest;
}

void put_int(struct buffer *buffer, int64_t value, size_t width)
{
    set_int(buffer_extend(buffer, width), value, width);
}

void put_bytes(struct buffer *buffer, const void *bytes, size_t size)
{
    memcpy(buffer_extend(buffer, size), bytes, size);
}

void put_string(struct buffer *buffer, const char *text)
{
    if (text == NULL) {
        put_int(buffer, -1, 2);
        return;
    }
    put_int(buffer, (int64_t)strlen(text), 2);
    put_bytes(buffer, text, strlen(text));
}

void request_begin(struct buffer *buffer, enum api key)
{
    buffer->size = 0;
    put_int(buffer, 0, 4);
    put_int(buffer, key, 2);
    put_int(buffer, versions[key], 2);
    put_int(buffer, 0, 4);
    put_string(buffer, "benchmark");
}

size_t response_begin(struct buffer *buffer, int32_t correlation_id)
{
    size_t start = buffer->size;
    put_int(buffer, 0, 4);
    put_int(buffer, correlation_id, 4);
    return start;
}

void frame_end(struct buffer *buffer, size_t start, size_t bytes_after)
{
    size_t size = buffer->size - start - FRAME_SIZE_BYTES + bytes_after;
    set_int(buffer->bytes + start, (int64_t)size, 4);
}

/* ---- record batches ------------------------------------------------------------------------- */

/* Writes Kafka's signed varint: zigzag, seven bits per byte, the lowest first. */
static void put_varint(struct buffer *buffer, int32_t value)
{
    uint32_t zigzag = ((uint32_t)value << 1) ^ (uint32_t)(value >> 31);
    for (; zigzag > 127; zigzag >>= 7)
        put_int(buffer, (zigzag & 127) | 128, 1);
    put_int(buffer, zigzag, 1);
}

static void put_record(struct buffer *buffer, struct buffer *scratch, int offset_delta,
                       size_t value_size)
{
    scratch->size = 0;
    put_int(scratch, 0, 1);    /* attributes */
    put_varint(scratch, 0);    /* timestamp delta */
    put_varint(scratch, offset_delta);
    put_varint(scratch, -1);   /* no key */
    put_varint(scratch, (int32_t)value_size);
    memset(buffer_extend(scratch, value_size), 'a' + offset_delta % 26, value_size);
    put_varint(scratch, 0);    /* no headers */
    put_varint(buffer, (int32_t)scratch->size);
    put_bytes(buffer, scratch->bytes, scratch->size);
}

void put_batch(struct buffer *buffer, int record_count, size_t value_size)
{
    struct buffer scratch = {0};
    size_t start = buffer->size;
    int64_t timestamp_ms = clock_ns(CLOCK_REALTIME) / 1000000;
    put_int(buffer, 0, 8);                /* base offset: the broker's */
    put_int(buffer, 0, 4);                /* length, below */
    put_int(buffer, -1, 4);               /* leader epoch: the broker's */
    put_int(buffer, 2, 1);                /* magic */
    put_int(buffer, 0, 4);                /* CRC, below */
    put_int(buffer, 0, 2);                /* attributes */
    put_int(buffer, record_count - 1, 4); /* last offset delta */
    put_int(buffer, timestamp_ms, 8);
    put_int(buffer, timestamp_ms, 8);
    put_int(buffer, -1, 8);               /* producer id */
    put_int(buffer, -1, 2);               /* producer epoch */
    put_int(buffer, -1, 4);               /* base sequence */
    put_int(buffer, record_count, 4);
    for (int delta = 0; delta < record_count; delta++)
        put_record(buffer, &scratch, delta, value_size);
    free(scratch.bytes);
    uint8_t *batch = buffer->bytes + start;
    size_t size = buffer->size - start;
    set_int(batch + BATCH_LENGTH_POSITION, (int64_t)(size - BATCH_LENGTH_BASE), 4);
    uint32_t crc = crc32c_extend(0, batch + BATCH_CHECKED_POSITION, size - BATCH_CHECKED_POSITION);
    set_int(batch + BATCH_CRC_POSITION, crc, 4);
}

void put_message_set(struct buffer *buffer, int record_count, size_t value_size)
{
    for (int place = 0; place < record_count; place++) {
        size_t start = buffer->size;
        put_int(buffer, place, 8); /* offset: the broker's */
        put_int(buffer, (int64_t)(value_size + 14), 4);
        put_int(buffer, 0, 4);     /* CRC, below */
        put_int(buffer, 0, 2);     /* magic, attributes */
        put_int(buffer, -1, 4);    /* no key */
        put_int(buffer, (int64_t)value_size, 4);
        memset(buffer_extend(buffer, value_size), 'a' + place % 26, value_size);
        uint8_t *message = buffer->bytes + start;
        set_int(message + MESSAGE_CRC_POSITION,
                crc32_extend(0, message + MESSAGE_CHECKED_POSITION,
                             buffer->size - start - MESSAGE_CHECKED_POSITION),
                4);
    }
}

int records_that_fit(size_t batch_bytes, size_t value_size)
{
    struct buffer records = {0}, scratch = {0};
    int count = 0;
    while (BATCH_HEAD_BYTES + records.size <= batch_bytes)
        put_record(&records, &scratch, count++, value_size);
    free(records.bytes);
    free(scratch.bytes);
    return count > 2 ? count - 1 : 1;
}

/* ---- reading -------------------------------------------------------------------------------- */

int64_t get_int(const uint8_t *at, size_t width)
{
    uint64_t value = at[0] & 128 ? UINT64_MAX : 0;
    for (size_t i = 0; i < width; i++)
        value = value << 8 | at[i];
    return (int64_t)value;
}

const uint8_t *take_bytes(struct reader *reader, size_t size)
{
    if ((size_t)(reader->end - reader->next) < size)
        die("a frame of the peer is too short");
    reader->next += size;
    return reader->next - size;
}

int64_t take_int(struct reader *reader, size_t width)
{
    return get_int(take_bytes(reader, width), width);
}

struct text take_string(struct reader *reader)
{
    int64_t size = take_int(reader, 2);
    if (size < 0)
        return (struct text){NULL, 0};
    return (struct text){(const char *)take_bytes(reader, (size_t)size), (size_t)size};
}

/* Returns the size of the first frame with its prefix, or 0 if the prefix is incomplete. */
static size_t inbox_frame_size(const struct inbox *inbox)
{
    if (inbox->last - inbox->first < FRAME_SIZE_BYTES)
        return 0;
    int64_t size = get_int(inbox->bytes + inbox->first, FRAME_SIZE_BYTES);
    if (size < 4 || size > FRAME_BYTES_MAX)
        die("the peer sent a frame of %lld bytes", (long long)size);
    return (size_t)size + FRAME_SIZE_BYTES;
}

/* Allocates space for the rest of an incomplete frame, and for a second one of its size. */
static void inbox_make_room(struct inbox *inbox)
{
    size_t wanted = 2 * inbox_frame_size(inbox);
    if (inbox->first == inbox->last)
        inbox->first = inbox->last = 0;
    if (wanted < INBOX_BYTES_MIN)
        wanted = INBOX_BYTES_MIN;
    if (wanted > inbox->capacity) {
        inbox->bytes = realloc(inbox->bytes, wanted);
        if (inbox->bytes == NULL)
            die("no memory for a frame of %zu bytes", wanted / 2);
        inbox->capacity = wanted;
    }
    if (inbox->first > 0 && inbox->first + wanted / 2 > inbox->capacity) {
        memmove(inbox->bytes, inbox->bytes + inbox->first, inbox->last - inbox->first);
        inbox->last -= inbox->first;
        inbox->first = 0;
    }
}

ssize_t inbox_receive(struct inbox *inbox, int fd)
{
    inbox_make_room(inbox);
    if (inbox->last == inbox->capacity)
        return 0; /* full of frames that were not read yet */
    ssize_t size = recv(fd, inbox->bytes + inbox->last, inbox->capacity - inbox->last, 0);
    if (size > 0) {
        inbox->last += (size_t)size;
        return size;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return -1;
}

bool inbox_next(struct inbox *inbox, struct reader *frame)
{
    size_t size = inbox_frame_size(inbox);
    if (size == 0 || inbox->last - inbox->first < size)
        return false;
    frame->next = inbox->bytes + inbox->first + FRAME_SIZE_BYTES;
    frame->end = inbox->bytes + inbox->first + size;
    inbox->first += size;
    return true;
}

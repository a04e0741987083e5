/* Kafka's protocol as used by the load generator and the floor program: big-endian integers,
 * frames, request headers, record batches. Each API has one version: the last one before
 * flexible fields if Kafka 4 supports it. */
#ifndef BENCHMARK_WIRE_H
#define BENCHMARK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum api {
    API_PRODUCE = 0,
    API_FETCH = 1,
    API_LIST_OFFSETS = 2,
    API_METADATA = 3,
    API_VERSIONS = 18,
    API_CREATE_TOPICS = 19,
    API_DELETE_TOPICS = 20,
    API_KEYS = 21,
};

enum version {
    PRODUCE_VERSION = 7,
    FETCH_VERSION = 11,
    LIST_OFFSETS_VERSION = 1,
    METADATA_VERSION = 4,
    VERSIONS_VERSION = 0,
    CREATE_TOPICS_VERSION = 2,
    DELETE_TOPICS_VERSION = 1,
};

enum frame_position { /* of a request: int32 size, int16 key, int16 version, int32 correlation id */
    FRAME_SIZE_BYTES = 4,
    CORRELATION_POSITION = 8,
};

enum batch_position { /* of a record batch, magic 2 */
    BATCH_LENGTH_POSITION = 8,
    BATCH_EPOCH_POSITION = 12,
    BATCH_CRC_POSITION = 17,
    BATCH_CHECKED_POSITION = 21,
    BATCH_LAST_OFFSET_DELTA_POSITION = 23,
    BATCH_RECORDS_POSITION = 57,
    BATCH_HEAD_BYTES = 61,
    BATCH_LENGTH_BASE = 12, /* the bytes that the length field does not include */
    MESSAGE_CRC_POSITION = 12,
    MESSAGE_CHECKED_POSITION = 16,
};

enum list_offsets_timestamp { TIMESTAMP_LATEST = -1, TIMESTAMP_EARLIEST = -2 };

/* ---- writing -------------------------------------------------------------------------------- */

struct buffer {
    uint8_t *bytes;
    size_t size, capacity;
};

void set_int(uint8_t *at, int64_t value, size_t width);
void put_int(struct buffer *buffer, int64_t value, size_t width);
void put_bytes(struct buffer *buffer, const void *bytes, size_t size);
void put_string(struct buffer *buffer, const char *text); /* NULL is written as null */

/* Starts a request in an empty buffer; its size is set by frame_end. */
void request_begin(struct buffer *buffer, enum api key);

/* Starts a response at the end of the buffer and returns its position. */
size_t response_begin(struct buffer *buffer, int32_t correlation_id);

/* Sets the size of the frame that begins at start; bytes_after follow it from other memory. */
void frame_end(struct buffer *buffer, size_t start, size_t bytes_after);

/* Writes a batch of records without keys, with values of value_size bytes. */
void put_batch(struct buffer *buffer, int record_count, size_t value_size);

/* Writes the same records as a message set of magic 0, as producers before Kafka 0.10 sent. */
void put_message_set(struct buffer *buffer, int record_count, size_t value_size);

/* Returns how many such records fit into a batch of batch_bytes; at least one. */
int records_that_fit(size_t batch_bytes, size_t value_size);

/* ---- reading -------------------------------------------------------------------------------- */

/* Every read checks the end and exits if the peer has sent too little. */
struct reader {
    const uint8_t *next, *end;
};

struct text {
    const char *bytes;
    size_t size;
};

int64_t get_int(const uint8_t *at, size_t width);
int64_t take_int(struct reader *reader, size_t width);
const uint8_t *take_bytes(struct reader *reader, size_t size);
struct text take_string(struct reader *reader);

/* Received bytes of a connection that are not read yet. */
struct inbox {
    uint8_t *bytes;
    size_t first, last, capacity;
};

/* Receives available bytes; returns their number, 0 if there are none, -1 if the peer closed. */
ssize_t inbox_receive(struct inbox *inbox, int fd);

/* Returns the next whole frame without its size. It is valid until the next inbox_receive. */
bool inbox_next(struct inbox *inbox, struct reader *frame);

#endif

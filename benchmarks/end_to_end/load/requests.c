/* The requests of the load generator, and the parts of their responses that it reads. */
#include <inttypes.h>
#include <unistd.h>

#include "kernel/crc32c_hardware.h"
#include "load/load.h"
#include "wire/tools.h"

enum {
    REQUEST_TIMEOUT_MS = 30000,
    FETCH_WAIT_MS = 500,
    FETCH_BYTES_OF_RESPONSE = 1 << 30, /* the partition's limit applies */
    FETCH_TAIL_BYTES = 4 + 2,          /* forgotten topics, rack id */
    FETCH_PARTITION_BYTES = 4 + 4 + 8 + 8 + 4,
};

enum {
    VERSION_POSITION = 4 + 2, /* of a request, after its size and key */
    OLD_PRODUCE_VERSION = 1,
};

enum {
    ERROR_UNKNOWN_TOPIC_OR_PARTITION = 3,
    ERROR_LEADER_NOT_AVAILABLE = 5,
    ERROR_NOT_LEADER_OR_FOLLOWER = 6,
};

/* A new partition may not be served yet; all other errors end the program. */
static bool is_retriable(int64_t error)
{
    return error == ERROR_UNKNOWN_TOPIC_OR_PARTITION || error == ERROR_LEADER_NOT_AVAILABLE
        || error == ERROR_NOT_LEADER_OR_FOLLOWER;
}

static bool take_offsets(struct reader *response, const struct options *options, int64_t *offsets)
{
    take_int(response, 4); /* one topic */
    take_string(response);
    for (int64_t count = take_int(response, 4); count > 0; count--) {
        int64_t partition = take_int(response, 4);
        int64_t error = take_int(response, 2);
        take_int(response, 8); /* timestamp */
        int64_t offset = take_int(response, 8);
        if (is_retriable(error))
            return false;
        if (error != 0 || partition < 0 || partition >= options->partitions)
            die("ListOffsets of %s-%" PRId64 " failed: error %" PRId64, options->topic, partition,
                error);
        offsets[partition] = offset;
    }
    return true;
}

void ask_offsets(const struct options *options, int64_t timestamp, int64_t *offsets)
{
    struct connection connection;
    struct buffer request = {0};
    connection_open(&connection, options->host, options->port);
    request_begin(&request, API_LIST_OFFSETS);
    put_int(&request, -1, 4); /* replica id: a consumer */
    put_int(&request, 1, 4);
    put_string(&request, options->topic);
    put_int(&request, options->partitions, 4);
    for (int partition = 0; partition < options->partitions; partition++) {
        put_int(&request, partition, 4);
        put_int(&request, timestamp, 8);
    }
    struct reader response = connection_ask(&connection, &request);
    while (!take_offsets(&response, options, offsets)) {
        usleep(RETRY_US);
        response = connection_ask(&connection, &request);
    }
    free(request.bytes);
    connection_close(&connection);
}

void put_produce_head(struct buffer *request, const struct options *options, int partition,
                      size_t batch_bytes)
{
    request_begin(request, API_PRODUCE);
    if (options->old)
        set_int(request->bytes + VERSION_POSITION, OLD_PRODUCE_VERSION, 2);
    else
        put_string(request, NULL); /* transactional id */
    put_int(request, options->acks, 2);
    put_int(request, REQUEST_TIMEOUT_MS, 4);
    put_int(request, 1, 4);
    put_string(request, options->topic);
    put_int(request, 1, 4);
    put_int(request, partition, 4);
    put_int(request, (int64_t)batch_bytes, 4);
    frame_end(request, 0, batch_bytes);
}

int16_t take_produced(struct reader *response, int64_t *base_offset)
{
    take_int(response, 4); /* one topic */
    take_string(response);
    take_int(response, 4); /* one partition */
    take_int(response, 4);
    int64_t error = take_int(response, 2);
    *base_offset = take_int(response, 8);
    return (int16_t)error;
}

void put_fetch(struct buffer *request, const struct options *options, int first, int step)
{
    request_begin(request, API_FETCH);
    put_int(request, -1, 4); /* replica id: a consumer */
    put_int(request, FETCH_WAIT_MS, 4);
    put_int(request, 1, 4);  /* min bytes */
    put_int(request, FETCH_BYTES_OF_RESPONSE, 4);
    put_int(request, 0, 1);  /* read uncommitted */
    put_int(request, 0, 4);  /* session id */
    put_int(request, -1, 4); /* session epoch: no session */
    put_int(request, 1, 4);
    put_string(request, options->topic);
    put_int(request, (options->partitions - first + step - 1) / step, 4);
    for (int partition = first; partition < options->partitions; partition += step) {
        put_int(request, partition, 4);
        put_int(request, -1, 4); /* current leader epoch: unknown */
        put_int(request, 0, 8);  /* fetch offset, see set_fetch_offset */
        put_int(request, -1, 8); /* log start offset: a consumer's */
        put_int(request, (int64_t)options->fetch_bytes, 4);
    }
    put_int(request, 0, 4);
    put_string(request, "");
    frame_end(request, 0, 0);
}

void set_fetch_id(struct buffer *request, int32_t correlation_id)
{
    set_int(request->bytes + CORRELATION_POSITION, correlation_id, 4);
}

void set_fetch_offset(struct buffer *request, int count, int nth, int64_t offset)
{
    size_t distance_to_end = FETCH_TAIL_BYTES + (size_t)(count - nth) * FETCH_PARTITION_BYTES;
    set_int(request->bytes + request->size - distance_to_end + 8, offset, 8);
}

int64_t take_fetched_count(struct reader *response)
{
    take_int(response, 4); /* throttle time */
    int64_t error = take_int(response, 2);
    take_int(response, 4); /* session id */
    if (error != 0)
        die("Fetch failed: error %" PRId64, error);
    if (take_int(response, 4) == 0)
        return 0; /* no topic: no new records */
    take_string(response);
    return take_int(response, 4);
}

struct reader take_fetched(struct reader *response, int64_t *partition)
{
    *partition = take_int(response, 4);
    int64_t error = take_int(response, 2);
    if (error != 0)
        die("Fetch of partition %" PRId64 " failed: error %" PRId64, *partition, error);
    take_bytes(response, 8 + 8 + 8); /* high watermark, last stable and log start offset */
    int64_t aborted = take_int(response, 4);
    if (aborted > 0)
        take_bytes(response, (size_t)aborted * 16);
    take_int(response, 4); /* preferred read replica */
    int64_t size = take_int(response, 4);
    const uint8_t *records = take_bytes(response, size > 0 ? (size_t)size : 0);
    return (struct reader){records, records + (size > 0 ? size : 0)};
}

bool take_batch(struct reader *records, bool verify, struct batch_facts *batch)
{
    size_t left = (size_t)(records->end - records->next);
    if (left < BATCH_HEAD_BYTES)
        return false;
    const uint8_t *head = records->next;
    batch->size = (size_t)get_int(head + BATCH_LENGTH_POSITION, 4) + BATCH_LENGTH_BASE;
    if (left < batch->size)
        return false;
    batch->base_offset = get_int(head, 8);
    batch->last_offset = batch->base_offset + get_int(head + BATCH_LAST_OFFSET_DELTA_POSITION, 4);
    if (verify) {
        uint32_t crc = crc32c_extend(0, head + BATCH_CHECKED_POSITION,
                                     batch->size - BATCH_CHECKED_POSITION);
        if (crc != (uint32_t)get_int(head + BATCH_CRC_POSITION, 4))
            die("the batch at offset %" PRId64 " is corrupt", batch->base_offset);
    }
    records->next += batch->size;
    return true;
}

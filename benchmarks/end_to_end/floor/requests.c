/* The requests of the load generator, answered with minimal work. */
#include <inttypes.h>
#include <unistd.h>

#include "floor/requests.h"
#include "wire/tools.h"

enum {
    ERROR_CORRUPT_MESSAGE = 2,
    ERROR_UNKNOWN_TOPIC_OR_PARTITION = 3,
    NODE_ID = 1,
};

/* Returns the only topic of a request; exits if there is none or more than one. */
static struct topic *take_topic(struct reader *request)
{
    if (take_int(request, 4) != 1)
        die("floor: one topic per request");
    struct text name = take_string(request);
    struct topic *topic = topic_find(name);
    if (topic == NULL)
        die("floor: no topic %.*s", (int)name.size, name.bytes);
    return topic;
}

static int64_t take_index(struct reader *request, const struct topic *topic)
{
    int64_t index = take_int(request, 4);
    if (index < 0 || index >= topic->partition_count)
        die("floor: no partition %s-%" PRId64, topic->name, index);
    return index;
}

static void put_text(struct buffer *out, struct text text)
{
    put_int(out, (int64_t)text.size, 2);
    put_bytes(out, text.bytes, text.size);
}

/* ---- Produce and Fetch ---------------------------------------------------------------------- */

static void serve_produce(struct server *server, struct client *client, int32_t id,
                          struct reader *request)
{
    take_string(request); /* transactional id */
    take_bytes(request, 2 + 4);
    struct topic *topic = take_topic(request);
    if (take_int(request, 4) != 1)
        die("floor: one partition per Produce");
    int64_t index = take_index(request, topic);
    struct partition *partition = &topic->partitions[index];
    size_t size = (size_t)take_int(request, 4);
    uint8_t *batch = (uint8_t *)(uintptr_t)take_bytes(request, size);
    if (size < BATCH_HEAD_BYTES)
        die("floor: a batch of %zu bytes", size);
    int64_t base_offset = partition_append(&server->log, partition, batch, size);
    struct buffer *out = &client->out;
    size_t start = response_begin(out, id);
    put_int(out, 1, 4);
    put_string(out, topic->name);
    put_int(out, 1, 4);
    put_int(out, index, 4);
    put_int(out, base_offset < 0 ? ERROR_CORRUPT_MESSAGE : 0, 2);
    put_int(out, base_offset, 8);
    put_int(out, -1, 8); /* log append time */
    put_int(out, 0, 8);  /* log start offset */
    put_int(out, 0, 4);  /* throttle time */
    frame_end(out, start, 0);
    if (server->parked != NULL && base_offset >= 0)
        release_parked(server, partition, batch, size);
}

/* Starts a Fetch response; the caller appends the partitions. */
static size_t fetched_begin(struct client *client, int32_t id, const struct topic *topic,
                            int64_t count)
{
    struct buffer *out = &client->out;
    size_t start = response_begin(out, id);
    put_int(out, 0, 4); /* throttle time */
    put_int(out, 0, 2);
    put_int(out, 0, 4); /* session id */
    put_int(out, 1, 4);
    put_string(out, topic->name);
    put_int(out, count, 4);
    return start;
}

static void put_fetched(struct client *client, const struct topic *topic, int64_t index,
                        size_t bytes)
{
    struct buffer *out = &client->out;
    int64_t end = topic->partitions[index].next_offset;
    put_int(out, index, 4);
    put_int(out, 0, 2);
    put_int(out, end, 8); /* high watermark */
    put_int(out, end, 8); /* last stable offset */
    put_int(out, 0, 8);   /* log start offset */
    put_int(out, -1, 4);  /* no aborted transactions */
    put_int(out, -1, 4);  /* no preferred replica */
    put_int(out, (int64_t)bytes, 4);
}

/* Parks a request for one partition without new records (a consumer at the end of the log). */
static void fetch_park(struct server *server, struct client *client, int32_t id,
                       const struct topic *topic, int64_t index, int64_t wait_ms)
{
    client->parked_on = &topic->partitions[index];
    client->parked_id = id;
    client->parked_topic = topic;
    client->parked_index = index;
    client->parked_until_ns = now_ns() + wait_ms * 1000000;
    client->parked_next = server->parked;
    server->parked = client;
}

static void serve_fetch(struct server *server, struct client *client, int32_t id,
                        struct reader *request)
{
    take_int(request, 4); /* replica id */
    int64_t wait_ms = take_int(request, 4);
    take_bytes(request, 4 + 4 + 1 + 4 + 4); /* min and max bytes, isolation, session */
    const struct topic *topic = take_topic(request);
    int64_t count = take_int(request, 4);
    if (count > PIECES_MAX)
        die("floor: at most %d partitions per Fetch", PIECES_MAX);
    size_t bytes = 0, start = fetched_begin(client, id, topic, count);
    int64_t index = 0;
    for (int64_t nth = 0; nth < count; nth++) {
        index = take_index(request, topic);
        take_int(request, 4); /* current leader epoch */
        int64_t offset = take_int(request, 8);
        take_int(request, 8); /* log start offset */
        const struct partition *partition = &topic->partitions[index];
        struct span span = partition_slice(partition, offset, (size_t)take_int(request, 4));
        put_fetched(client, topic, index, span.size);
        client->pieces[client->piece_end++] =
            (struct piece){client->out.size, partition->fd, span};
        bytes += span.size;
    }
    frame_end(&client->out, start, bytes);
    if (bytes > 0 || count != 1 || wait_ms == 0)
        return;
    client->out.size = start;
    client->piece_end = 0;
    fetch_park(server, client, id, topic, index, wait_ms);
}

void release_parked(struct server *server, const struct partition *partition,
                    const uint8_t *batch, size_t size)
{
    for (struct client **link = &server->parked; *link != NULL;) {
        struct client *client = *link;
        bool is_news = batch != NULL && client->parked_on == partition;
        bool is_gone = batch == NULL && client->parked_on == partition;
        if (!is_news && !is_gone && now_ns() < client->parked_until_ns) {
            link = &client->parked_next;
            continue;
        }
        *link = client->parked_next;
        client->parked_on = NULL;
        size_t start = fetched_begin(client, client->parked_id, client->parked_topic, 1);
        put_fetched(client, client->parked_topic, client->parked_index, is_news ? size : 0);
        if (is_news)
            put_bytes(&client->out, batch, size); /* from memory, not from the file */
        frame_end(&client->out, start, 0);
        client_flush(server, client);
    }
}

/* ---- everything else ------------------------------------------------------------------------ */

static void serve_list_offsets(struct client *client, struct reader *request)
{
    take_int(request, 4); /* replica id */
    take_int(request, 4); /* one topic */
    struct text name = take_string(request);
    struct topic *topic = topic_find(name);
    int64_t count = take_int(request, 4);
    put_int(&client->out, 1, 4);
    put_text(&client->out, name);
    put_int(&client->out, count, 4);
    for (; count > 0; count--) {
        int64_t index = take_int(request, 4);
        bool is_latest = take_int(request, 8) == TIMESTAMP_LATEST;
        bool is_known = topic != NULL && index >= 0 && index < topic->partition_count;
        put_int(&client->out, index, 4);
        put_int(&client->out, is_known ? 0 : ERROR_UNKNOWN_TOPIC_OR_PARTITION, 2);
        put_int(&client->out, -1, 8);
        put_int(&client->out, is_latest && is_known ? topic->partitions[index].next_offset : 0, 8);
    }
}

static void serve_metadata(const struct server *server, struct client *client,
                           struct reader *request)
{
    struct buffer *out = &client->out;
    take_int(request, 4); /* one topic */
    struct text name = take_string(request);
    struct topic *topic = topic_find(name);
    put_int(out, 0, 4); /* throttle time */
    put_int(out, 1, 4);
    put_int(out, NODE_ID, 4);
    put_string(out, "127.0.0.1");
    put_int(out, server->port, 4);
    put_string(out, NULL); /* rack */
    put_string(out, NULL); /* cluster id */
    put_int(out, NODE_ID, 4);
    put_int(out, 1, 4);
    put_int(out, topic == NULL ? ERROR_UNKNOWN_TOPIC_OR_PARTITION : 0, 2);
    put_text(out, name);
    put_int(out, 0, 1); /* not internal */
    int count = topic == NULL ? 0 : topic->partition_count;
    put_int(out, count, 4);
    for (int index = 0; index < count; index++) {
        put_int(out, 0, 2);
        put_int(out, index, 4);
        put_int(out, NODE_ID, 4);
        for (int list = 0; list < 2; list++) { /* replicas, in-sync replicas */
            put_int(out, 1, 4);
            put_int(out, NODE_ID, 4);
        }
    }
}

static void serve_create_topics(const struct server *server, struct client *client,
                                struct reader *request)
{
    take_int(request, 4); /* one topic */
    struct text name = take_string(request);
    int64_t count = take_int(request, 4);
    if (topic_find(name) == NULL)
        topic_create(&server->log, name, (int)count);
    put_int(&client->out, 0, 4); /* throttle time */
    put_int(&client->out, 1, 4);
    put_text(&client->out, name);
    put_int(&client->out, 0, 2);
    put_string(&client->out, NULL); /* error message */
}

static void serve_delete_topics(struct server *server, struct client *client,
                                struct reader *request)
{
    take_int(request, 4); /* one topic */
    struct text name = take_string(request);
    struct topic *topic = topic_find(name);
    put_int(&client->out, 0, 4); /* throttle time */
    put_int(&client->out, 1, 4);
    put_text(&client->out, name);
    put_int(&client->out, topic == NULL ? ERROR_UNKNOWN_TOPIC_OR_PARTITION : 0, 2);
    if (topic == NULL)
        return;
    for (int index = 0; index < topic->partition_count; index++)
        release_parked(server, &topic->partitions[index], NULL, 0);
    topic_delete(&server->log, topic);
}

static void serve_versions(struct client *client)
{
    static const int16_t served[][2] = {
        {API_PRODUCE, PRODUCE_VERSION},
        {API_FETCH, FETCH_VERSION},
        {API_LIST_OFFSETS, LIST_OFFSETS_VERSION},
        {API_METADATA, METADATA_VERSION},
        {API_VERSIONS, VERSIONS_VERSION},
        {API_CREATE_TOPICS, CREATE_TOPICS_VERSION},
        {API_DELETE_TOPICS, DELETE_TOPICS_VERSION},
    };
    size_t count = sizeof served / sizeof *served;
    put_int(&client->out, 0, 2);
    put_int(&client->out, (int64_t)count, 4);
    for (size_t i = 0; i < count; i++) {
        put_int(&client->out, served[i][0], 2);
        put_int(&client->out, served[i][1], 2);
        put_int(&client->out, served[i][1], 2);
    }
}

void serve(struct server *server, struct client *client, struct reader *request)
{
    int64_t key = take_int(request, 2);
    take_int(request, 2); /* version: only one is supported */
    int32_t id = (int32_t)take_int(request, 4);
    take_string(request); /* client id */
    if (key == API_PRODUCE) {
        serve_produce(server, client, id, request);
        return;
    }
    if (key == API_FETCH) {
        serve_fetch(server, client, id, request);
        return;
    }
    size_t start = response_begin(&client->out, id);
    switch (key) {
    case API_LIST_OFFSETS: serve_list_offsets(client, request); break;
    case API_METADATA: serve_metadata(server, client, request); break;
    case API_VERSIONS: serve_versions(client); break;
    case API_CREATE_TOPICS: serve_create_topics(server, client, request); break;
    case API_DELETE_TOPICS: serve_delete_topics(server, client, request); break;
    default: die("floor: no API %" PRId64, key);
    }
    frame_end(&client->out, start, 0);
}

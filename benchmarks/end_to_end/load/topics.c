/* create, delete, idle, ready: the commands besides the loads. */
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "load/load.h"
#include "wire/tools.h"

enum {
    TOPIC_TIMEOUT_MS = 30000,
    SPARE_DESCRIPTORS = 64,
    ERROR_TOPIC_ALREADY_EXISTS = 36,
};

/* ---- create and delete ---------------------------------------------------------------------- */

/* Returns the only error code of a CreateTopics or DeleteTopics response. */
static int64_t take_topic_error(struct reader *response)
{
    take_int(response, 4); /* throttle time */
    take_int(response, 4); /* one topic */
    take_string(response);
    return take_int(response, 2);
}

/* Returns whether every partition of the topic has a leader. */
static bool topic_is_ready(const struct options *options, struct connection *connection)
{
    struct buffer request = {0};
    request_begin(&request, API_METADATA);
    put_int(&request, 1, 4);
    put_string(&request, options->topic);
    put_int(&request, 0, 1); /* no automatic creation */
    struct reader response = connection_ask(connection, &request);
    take_int(&response, 4);
    for (int64_t brokers = take_int(&response, 4); brokers > 0; brokers--) {
        take_int(&response, 4);
        take_string(&response);
        take_int(&response, 4);
        take_string(&response);
    }
    take_string(&response); /* cluster id */
    take_int(&response, 4); /* controller */
    take_int(&response, 4); /* one topic */
    bool is_ready = take_int(&response, 2) == 0;
    take_string(&response);
    take_int(&response, 1);
    int64_t partitions = take_int(&response, 4);
    is_ready = is_ready && partitions == options->partitions;
    for (; partitions > 0; partitions--) {
        is_ready = take_int(&response, 2) == 0 && is_ready;
        take_int(&response, 4);
        is_ready = take_int(&response, 4) >= 0 && is_ready;
        take_bytes(&response, (size_t)take_int(&response, 4) * 4);
        take_bytes(&response, (size_t)take_int(&response, 4) * 4);
    }
    free(request.bytes);
    return is_ready;
}

int64_t load_create(const struct options *options)
{
    struct connection connection;
    struct buffer request = {0};
    connection_open(&connection, options->host, options->port);
    request_begin(&request, API_CREATE_TOPICS);
    put_int(&request, 1, 4);
    put_string(&request, options->topic);
    put_int(&request, options->partitions, 4);
    put_int(&request, 1, 2); /* replication factor */
    put_int(&request, 0, 4); /* assignments: the broker's */
    put_int(&request, options->config_count, 4);
    for (int i = 0; i < options->config_count; i++) {
        char *name = strdup(options->configs[i]), *value = strchr(name, '=');
        if (value == NULL)
            die("--config takes NAME=VALUE, not %s", name);
        *value = '\0';
        put_string(&request, name);
        put_string(&request, value + 1);
        free(name);
    }
    put_int(&request, TOPIC_TIMEOUT_MS, 4);
    put_int(&request, 0, 1); /* do not only validate */
    struct reader response = connection_ask(&connection, &request);
    int64_t error = take_topic_error(&response);
    if (error != 0 && error != ERROR_TOPIC_ALREADY_EXISTS)
        die("CreateTopics of %s failed: error %" PRId64, options->topic, error);
    while (!topic_is_ready(options, &connection))
        usleep(RETRY_US);
    printf("{\"command\": \"create\", \"topic\": \"%s\"}\n", options->topic);
    return 0;
}

int64_t load_delete(const struct options *options)
{
    struct connection connection;
    struct buffer request = {0};
    connection_open(&connection, options->host, options->port);
    request_begin(&request, API_DELETE_TOPICS);
    put_int(&request, 1, 4);
    put_string(&request, options->topic);
    put_int(&request, TOPIC_TIMEOUT_MS, 4);
    struct reader response = connection_ask(&connection, &request);
    int64_t error = take_topic_error(&response);
    if (error != 0)
        die("DeleteTopics of %s failed: error %" PRId64, options->topic, error);
    printf("{\"command\": \"delete\", \"topic\": \"%s\"}\n", options->topic);
    return 0;
}

/* ---- idle ----------------------------------------------------------------------------------- */

static void allow_descriptors(int count)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t wanted = (rlim_t)count + SPARE_DESCRIPTORS;
    if (limit.rlim_max < wanted)
        die("%d connections need a hard limit of open files above %llu", count,
            (unsigned long long)limit.rlim_max);
    limit.rlim_cur = limit.rlim_cur < wanted ? wanted : limit.rlim_cur;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static bool greet(struct connection *connection)
{
    struct buffer request = {0};
    struct reader response;
    request_begin(&request, API_VERSIONS);
    bool is_answered = connection_try_ask(connection, &request, &response);
    free(request.bytes);
    return is_answered;
}

/* Opens connections, sends one request on each, and keeps them open until standard input ends. */
int64_t load_idle(const struct options *options)
{
    struct connection *connections =
        allocate((size_t)options->connections, sizeof *connections);
    allow_descriptors(options->connections);
    for (int i = 0; i < options->connections; i++) {
        connection_open(&connections[i], options->host, options->port);
        if (!greet(&connections[i]))
            die("connection %d was closed", i);
    }
    printf("{\"command\": \"idle\", \"connections\": %d}\n", options->connections);
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    return 0;
}

/* ---- ready ---------------------------------------------------------------------------------- */

static double seconds_since(const struct options *options)
{
    return (double)(now_ns() - options->since_ns) / 1e9;
}

static void connect_and_greet(struct connection *connection, const struct options *options)
{
    for (;; usleep(RETRY_US)) {
        if (!connection_try(connection, options->host, options->port))
            continue;
        if (greet(connection))
            return;
        connection_close(connection);
    }
}

/* Produces one record to a partition until it is accepted, with new connections if needed. */
static void produce_until_accepted(struct connection *connection, const struct options *options,
                                   int partition, const struct buffer *batch)
{
    struct buffer request = {0};
    struct reader response;
    int64_t base_offset;
    for (;; usleep(RETRY_US)) {
        put_produce_head(&request, options, partition, batch->size);
        put_bytes(&request, batch->bytes, batch->size);
        if (!connection_try_ask(connection, &request, &response)) {
            connection_close(connection);
            connect_and_greet(connection, options);
        } else if (take_produced(&response, &base_offset) == 0) {
            break;
        }
    }
    free(request.bytes);
}

/* Measures the seconds from --since (CLOCK_MONOTONIC) to the first response and, with a topic,
 * to the first accepted produce, and until every partition has accepted one. */
int64_t load_ready(const struct options *options)
{
    struct connection connection;
    struct buffer batch = {0};
    connect_and_greet(&connection, options);
    printf("{\"command\": \"ready\", \"first_reply_s\": %.6f", seconds_since(options));
    if (options->topic != NULL) {
        put_batch(&batch, 1, options->value_bytes);
        for (int partition = 0; partition < options->partitions; partition++) {
            produce_until_accepted(&connection, options, partition, &batch);
            if (partition == 0)
                printf(", \"first_accepted_s\": %.6f", seconds_since(options));
        }
        printf(", \"all_accepted_s\": %.6f", seconds_since(options));
    }
    printf("}\n");
    return 0;
}

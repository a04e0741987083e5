/* cursus: connections that send one frame of Cursus repeatedly, with --in-flight requests each.
 *
 * The frame is --line, in which @ is replaced by the topic, or without it a batch of --records. A
 * response is correct if it is a JSON object that begins with the status OK, or a batch with
 * records.
 */
#include <inttypes.h>
#include <sys/epoll.h>

#include "load/load.h"
#include "wire/tools.h"

enum { EVENTS_MAX = 256, MAGIC = 0xBA7C };

static const char GOOD[] = "{\"status\":\"OK\"";
enum { GOOD_SIZE = sizeof GOOD - 1 };

struct client {
    struct connection connection; /* first, because epoll returns its address */
    struct buffer request;
};

struct run {
    const struct options *options;
    int64_t requests_left, sent, answered, records, bytes, errors;
};

static void put_command(struct buffer *request, const struct options *options)
{
    for (const char *from = options->line; *from != '\0'; from++) {
        if (*from == '@')
            put_bytes(request, options->topic, strlen(options->topic));
        else
            put_bytes(request, from, 1);
    }
}

static void put_cursus_batch(struct buffer *request, const struct options *options, int partition)
{
    uint8_t *value = allocate(1, options->value_bytes);
    put_int(request, MAGIC, 2);
    put_string(request, options->topic); /* as in Kafka: uint16 length and bytes */
    put_int(request, partition, 4);
    put_int(request, 1, 1);
    put_bytes(request, "1", 1); /* acks */
    put_int(request, 0, 1);     /* not idempotent */
    put_int(request, 1, 8);
    put_int(request, options->records, 8);
    put_int(request, options->records, 4);
    for (int i = 0; i < options->records; i++) {
        put_int(request, 0, 8);
        put_int(request, i + 1, 8);
        put_string(request, "load");
        put_string(request, "");
        put_int(request, 1, 8); /* epoch */
        put_int(request, (int64_t)options->value_bytes, 4);
        put_bytes(request, value, options->value_bytes);
        put_string(request, "");
        put_int(request, 0, 4);
        put_int(request, 0, 8);
        put_string(request, "");
    }
    free(value);
}

static void client_send(struct run *run, struct client *client, int64_t count)
{
    for (; count > 0 && run->requests_left > 0; count--) {
        connection_queue(&client->connection, client->request.bytes, client->request.size);
        run->requests_left--;
        run->sent++;
    }
    connection_flush(&client->connection);
}

/* Returns the record count of a batch header, which must be of a response in the current layout. */
static int64_t take_count(struct reader *answer)
{
    take_int(answer, 2);
    take_string(answer);
    take_int(answer, 4);
    take_bytes(answer, (size_t)take_int(answer, 1));
    take_bytes(answer, 1 + 8 + 8);
    return take_int(answer, 4);
}

static void client_take(struct run *run, struct reader *answer)
{
    size_t size = (size_t)(answer->end - answer->next);
    int64_t records = 0;
    run->answered++;
    run->bytes += (int64_t)size;
    if (size >= GOOD_SIZE && memcmp(answer->next, GOOD, GOOD_SIZE) == 0)
        return;
    if (size > 2 && get_int(answer->next, 2) == (int16_t)MAGIC)
        records = take_count(answer);
    run->records += records;
    if (records == 0)
        run->errors++;
}

static void client_turn(struct run *run, struct client *client)
{
    struct reader answer;
    int64_t answered = run->answered;
    connection_receive(&client->connection);
    while (inbox_next(&client->connection.inbox, &answer))
        client_take(run, &answer);
    client_send(run, client, run->answered - answered);
}

static struct client *clients_open(const struct options *options, int epoll)
{
    struct client *clients = allocate((size_t)options->connections, sizeof *clients);
    for (int i = 0; i < options->connections; i++) {
        put_int(&clients[i].request, 0, 4);
        if (options->line != NULL)
            put_command(&clients[i].request, options);
        else
            put_cursus_batch(&clients[i].request, options, i % options->partitions);
        frame_end(&clients[i].request, 0, 0);
        connection_open(&clients[i].connection, options->host, options->port);
        connection_watch(&clients[i].connection, epoll);
    }
    return clients;
}

int64_t load_cursus(const struct options *options)
{
    struct run run = {.options = options, .requests_left = options->requests};
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (options->topic == NULL || options->requests < 1)
        die("cursus needs --topic and --requests");
    if (options->line == NULL && options->records < 1)
        die("cursus needs --line or --records");
    struct client *clients = clients_open(options, epoll);
    int64_t start_ns = now_ns(), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < options->connections; i++)
        client_send(&run, &clients[i], options->in_flight);
    while (run.answered < run.sent) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            client_turn(&run, events[i].data.ptr);
    }
    printf("{\"command\": \"cursus\", \"requests\": %" PRId64 ", \"records\": %" PRId64
           ", \"bytes\": %" PRId64 ", \"seconds\": %.6f, \"generator_cpu_s\": %.6f"
           ", \"errors\": %" PRId64 "}\n",
           run.answered, run.records, run.bytes, (double)(now_ns() - start_ns) / 1e9,
           (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns) / 1e9, run.errors);
    return run.errors;
}

/* cursus-events: connections that append events to streams of their own by Cursus's APPEND_STREAM.
 *
 * Each has --records streams and appends to them in turn, one event at a time. The topic must have
 * been created for events, and no run before must have used it.
 */
#include <inttypes.h>
#include <sys/epoll.h>

#include "load/load.h"
#include "wire/tools.h"

enum { EVENTS_MAX = 256, COMMAND_BYTES_MAX = 256 };

static const char GOOD[] = "OK version=";
enum { GOOD_SIZE = sizeof GOOD - 1 };

struct client {
    struct connection connection; /* first, because epoll returns its address */
    struct buffer request;
    int number;
    int64_t sent;
};

struct run {
    const struct options *options;
    uint8_t *value;
    int64_t requests_left, sent, answered, bytes, errors;
};

static void client_send(struct run *run, struct client *client)
{
    const struct options *options = run->options;
    char command[COMMAND_BYTES_MAX];
    if (run->requests_left == 0)
        return;
    int size = snprintf(command, sizeof command,
                        "APPEND_STREAM topic=%s key=c%d-%" PRId64 " version=%" PRId64
                        " event_type=Load schema_version=1 producerId=load message=",
                        options->topic, client->number, client->sent % options->records,
                        client->sent / options->records + 1);
    client->request.size = 0;
    put_int(&client->request, 0, 4);
    put_bytes(&client->request, command, (size_t)size);
    put_bytes(&client->request, run->value, options->value_bytes);
    frame_end(&client->request, 0, 0);
    connection_queue(&client->connection, client->request.bytes, client->request.size);
    connection_flush(&client->connection);
    client->sent++;
    run->requests_left--;
    run->sent++;
}

static void client_turn(struct run *run, struct client *client)
{
    struct reader answer;
    connection_receive(&client->connection);
    while (inbox_next(&client->connection.inbox, &answer)) {
        size_t size = (size_t)(answer.end - answer.next);
        run->answered++;
        run->bytes += (int64_t)size;
        if (size < GOOD_SIZE || memcmp(answer.next, GOOD, GOOD_SIZE) != 0)
            run->errors++;
        client_send(run, client);
    }
}

int64_t load_cursus_events(const struct options *options)
{
    struct run run = {.options = options, .requests_left = options->requests};
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (options->topic == NULL || options->requests < 1 || options->records < 1)
        die("cursus-events needs --topic, --requests and --records");
    run.value = allocate(1, options->value_bytes);
    memset(run.value, 'x', options->value_bytes);
    struct client *clients = allocate((size_t)options->connections, sizeof *clients);
    for (int i = 0; i < options->connections; i++) {
        clients[i].number = i;
        connection_open(&clients[i].connection, options->host, options->port);
        connection_watch(&clients[i].connection, epoll);
    }
    int64_t start_ns = now_ns(), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < options->connections; i++)
        client_send(&run, &clients[i]);
    while (run.answered < run.sent) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            client_turn(&run, events[i].data.ptr);
    }
    printf("{\"command\": \"cursus-events\", \"requests\": %" PRId64 ", \"records\": %" PRId64
           ", \"bytes\": %" PRId64 ", \"seconds\": %.6f, \"generator_cpu_s\": %.6f"
           ", \"errors\": %" PRId64 "}\n",
           run.answered, run.answered - run.errors, run.bytes,
           (double)(now_ns() - start_ns) / 1e9,
           (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns) / 1e9, run.errors);
    return run.errors;
}

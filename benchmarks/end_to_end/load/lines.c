/* lines: connections that send one line repeatedly and wait for one line per request.
 *
 * Each has --in-flight requests. A response is an error unless it begins like a successful response
 * to `V1|1|...`. The line is --line, in which @ is replaced by the topic.
 */
#include <inttypes.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "load/load.h"
#include "wire/tools.h"

enum { EVENTS_MAX = 256, LINE_MAX_BYTES = 64 << 10, RECEIVE_BYTES = 1 << 20 };

static const char GOOD[] = "V1|1|OK|";
enum { GOOD_SIZE = sizeof GOOD - 1 };

struct client {
    struct connection connection; /* first, because epoll returns its address */
    size_t column;                /* in the response that is being received */
};

struct run {
    const struct options *options;
    char line[LINE_MAX_BYTES];
    size_t line_size;
    char *received;
    int64_t requests_left, sent, answered, bytes, errors;
};

static void line_make(struct run *run)
{
    const char *from = run->options->line;
    size_t topic_size = strlen(run->options->topic);
    if (strlen(from) + topic_size + 2 > sizeof run->line)
        die("--line is too long");
    for (; *from != '\0'; from++) {
        if (*from == '@') {
            memcpy(run->line + run->line_size, run->options->topic, topic_size);
            run->line_size += topic_size;
        } else {
            run->line[run->line_size++] = *from;
        }
    }
    run->line[run->line_size++] = '\n';
}

static void client_send(struct run *run, struct client *client, int64_t count)
{
    for (; count > 0 && run->requests_left > 0; count--) {
        connection_queue(&client->connection, run->line, run->line_size);
        run->requests_left--;
        run->sent++;
    }
    connection_flush(&client->connection);
}

/* Counts the lines that end in these bytes, and those with a wrong beginning. */
static int64_t client_take(struct run *run, struct client *client, const char *bytes, size_t size)
{
    int64_t lines = 0;
    const char *end = bytes + size;
    while (bytes < end) {
        while (client->column < GOOD_SIZE && bytes < end && *bytes != '\n') {
            if (*bytes != GOOD[client->column])
                run->errors++;
            client->column++;
            bytes++;
        }
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        if (newline == NULL)
            break;
        client->column = 0;
        bytes = newline + 1;
        lines++;
    }
    return lines;
}

static void client_turn(struct run *run, struct client *client)
{
    ssize_t size = recv(client->connection.fd, run->received, RECEIVE_BYTES, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) {
        connection_flush(&client->connection);
        return;
    }
    if (size <= 0)
        die("the broker closed the connection");
    run->bytes += size;
    int64_t lines = client_take(run, client, run->received, (size_t)size);
    run->answered += lines;
    client_send(run, client, lines);
}

int64_t load_lines(const struct options *options)
{
    struct run *run = allocate(1, sizeof *run);
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (options->line == NULL || options->topic == NULL || options->requests <= 0)
        die("lines needs --line, --topic and --requests");
    run->options = options;
    run->requests_left = options->requests;
    run->received = allocate(1, RECEIVE_BYTES);
    line_make(run);
    struct client *clients = allocate((size_t)options->connections, sizeof *clients);
    for (int i = 0; i < options->connections; i++) {
        connection_open(&clients[i].connection, options->host, options->port);
        connection_watch(&clients[i].connection, epoll);
    }
    int64_t start_ns = now_ns(), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < options->connections; i++)
        client_send(run, &clients[i], options->in_flight);
    while (run->answered < run->sent) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            client_turn(run, events[i].data.ptr);
    }
    printf("{\"command\": \"lines\", \"requests\": %" PRId64 ", \"bytes\": %" PRId64
           ", \"seconds\": %.6f, \"generator_cpu_s\": %.6f, \"errors\": %" PRId64 "}\n",
           run->answered, run->bytes, (double)(now_ns() - start_ns) / 1e9,
           (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns) / 1e9, run->errors);
    return run->errors;
}

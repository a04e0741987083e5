/* rustlog-fetch: connections that read one partition each in RustLog's binary form from its start
 * to its end repeatedly, with one request in flight.
 *
 * As for its clients, record i of a response has the requested offset + i: the next offset of a
 * response must follow its last record.
 */
#include <inttypes.h>
#include <sys/epoll.h>

#include "load/load.h"
#include "wire/tools.h"

enum { EVENTS_MAX = 64, KIND_FETCH = 0x02, BEHIND_OFFSET = 8 + 4 /* offset, maximum bytes */ };

struct reading {
    struct connection connection; /* first, because epoll returns its address */
    struct buffer request;
    int64_t start, end, next;
};

struct run {
    const struct options *options;
    int64_t requests, records, bytes, errors, gaps, empty;
    int active;
};

static void put_request(struct buffer *request, const struct options *options, int partition)
{
    put_int(request, 0, 4);
    put_int(request, KIND_FETCH, 1);
    put_int(request, 0, 2); /* no group */
    put_string(request, options->topic);
    put_int(request, partition, 4);
    put_int(request, 0, 8); /* offset, see reading_ask */
    put_int(request, (int64_t)options->fetch_bytes, 4);
    frame_end(request, 0, 0);
}

static void reading_ask(struct reading *reading)
{
    struct buffer *request = &reading->request;
    if (reading->next >= reading->end)
        reading->next = reading->start;
    set_int(request->bytes + request->size - BEHIND_OFFSET, reading->next, 8);
    connection_queue(&reading->connection, request->bytes, request->size);
    connection_flush(&reading->connection);
}

static void reading_take(struct run *run, struct reading *reading, struct reader *response)
{
    run->requests++;
    if (take_int(response, 1) != KIND_FETCH) {
        run->errors++;
        return;
    }
    int64_t count = take_int(response, 4);
    for (int64_t i = 0; i < count; i++) {
        int64_t size = take_int(response, 4);
        take_bytes(response, (size_t)size);
        run->bytes += size;
    }
    run->records += count;
    if (count == 0)
        run->empty++;
    if (take_int(response, 8) != reading->next + count)
        run->gaps++;
    reading->next += count;
}

static void reading_turn(struct run *run, struct reading *reading)
{
    struct reader response;
    connection_receive(&reading->connection);
    while (inbox_next(&reading->connection.inbox, &response)) {
        reading_take(run, reading, &response);
        if (run->bytes >= run->options->bytes || run->errors > 0)
            run->active--;
        else
            reading_ask(reading);
    }
}

static struct reading *readings_open(const struct options *options, int epoll)
{
    struct reading *readings = allocate((size_t)options->connections, sizeof *readings);
    int64_t *starts = allocate((size_t)options->partitions, sizeof *starts);
    int64_t *ends = allocate((size_t)options->partitions, sizeof *ends);
    ask_offsets(options, TIMESTAMP_EARLIEST, starts);
    ask_offsets(options, TIMESTAMP_LATEST, ends);
    for (int i = 0; i < options->connections; i++) {
        int partition = i % options->partitions;
        if (starts[partition] >= ends[partition])
            die("partition %d of %s is empty", partition, options->topic);
        readings[i].start = readings[i].next = starts[partition];
        readings[i].end = ends[partition];
        connection_open(&readings[i].connection, options->host, options->port);
        connection_watch(&readings[i].connection, epoll);
        put_request(&readings[i].request, options, partition);
    }
    free(starts);
    free(ends);
    return readings;
}

int64_t load_rustlog_fetch(const struct options *options)
{
    struct run run = {.options = options, .active = options->connections};
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (options->bytes < 1)
        die("rustlog-fetch needs --bytes");
    struct reading *readings = readings_open(options, epoll);
    int64_t start_ns = now_ns(), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < options->connections; i++)
        reading_ask(&readings[i]);
    while (run.active > 0) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            reading_turn(&run, events[i].data.ptr);
    }
    printf("{\"command\": \"rustlog-fetch\", \"requests\": %" PRId64 ", \"records\": %" PRId64
           ", \"bytes\": %" PRId64 ", \"seconds\": %.6f, \"generator_cpu_s\": %.6f"
           ", \"errors\": %" PRId64 ", \"gaps\": %" PRId64 ", \"empty\": %" PRId64 "}\n",
           run.requests, run.records, run.bytes, (double)(now_ns() - start_ns) / 1e9,
           (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns) / 1e9, run.errors, run.gaps,
           run.empty);
    return run.errors + run.gaps + run.empty;
}

/* cursus-stream: connections that read one partition each by Cursus's STREAM from its start to its
 * end, and then again on a new connection.
 *
 * The bytes of payloads are counted. Offsets must follow each other without a gap.
 */
#include <inttypes.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "load/load.h"
#include "wire/tools.h"

enum {
    EVENTS_MAX = 64,
    COMMAND_MAX = 512,
    MAGIC = 0xBA7C,
    HEAD_BEHIND_ACKS = 1 + 8 + 8, /* idempotent, seqStart, seqEnd */
};

struct streaming {
    struct connection connection; /* first, because epoll returns its address */
    int index;
    int64_t start, end, next;
};

struct run {
    const struct options *options;
    int64_t frames, records, bytes, gaps;
    int epoll, active;
};

static void streaming_open(struct run *run, struct streaming *streaming)
{
    struct buffer request = {0};
    char command[COMMAND_MAX];
    int size = snprintf(command, sizeof command,
                        "STREAM topic=%s partition=%d group=g%d offset=%" PRId64,
                        run->options->topic, streaming->index % run->options->partitions,
                        streaming->index, streaming->start);
    connection_open(&streaming->connection, run->options->host, run->options->port);
    put_int(&request, size, 4);
    put_bytes(&request, command, (size_t)size);
    if (send(streaming->connection.fd, request.bytes, request.size, MSG_NOSIGNAL) < 0)
        die("send: %s", strerror(errno));
    free(request.bytes);
    connection_watch(&streaming->connection, run->epoll);
    streaming->next = streaming->start;
}

static void streaming_take(struct run *run, struct streaming *streaming, struct reader *frame)
{
    run->frames++;
    if (frame->next == frame->end)
        return; /* a keepalive */
    if ((uint16_t)get_int(frame->next, 2) != MAGIC)
        die("%.*s", (int)(frame->end - frame->next), (const char *)frame->next);
    take_bytes(frame, 2);
    take_bytes(frame, (size_t)take_int(frame, 2)); /* topic */
    take_bytes(frame, 4);                          /* partition */
    take_bytes(frame, (size_t)take_int(frame, 1)); /* acks */
    take_bytes(frame, HEAD_BEHIND_ACKS);
    int64_t count = take_int(frame, 4);
    for (int64_t i = 0; i < count; i++) {
        if (take_int(frame, 8) != streaming->next)
            run->gaps++;
        streaming->next++;
        take_bytes(frame, 8);                          /* sequence */
        take_bytes(frame, (size_t)take_int(frame, 2)); /* producer id */
        take_bytes(frame, (size_t)take_int(frame, 2)); /* key */
        take_bytes(frame, 8);                          /* epoch */
        int64_t size = take_int(frame, 4);
        take_bytes(frame, (size_t)size);
        run->bytes += size;
        take_bytes(frame, (size_t)take_int(frame, 2)); /* event type */
        take_bytes(frame, 4 + 8);                      /* versions */
        take_bytes(frame, (size_t)take_int(frame, 2)); /* metadata */
    }
    run->records += count;
}

static void streaming_turn(struct run *run, struct streaming *streaming)
{
    struct reader frame;
    connection_receive(&streaming->connection);
    while (inbox_next(&streaming->connection.inbox, &frame))
        streaming_take(run, streaming, &frame);
    if (streaming->next < streaming->end)
        return;
    connection_close(&streaming->connection);
    if (run->bytes >= run->options->bytes)
        run->active--;
    else
        streaming_open(run, streaming);
}

int64_t load_cursus_stream(const struct options *options)
{
    struct run run = {.options = options, .active = options->connections};
    struct epoll_event events[EVENTS_MAX];
    struct streaming *streamings = allocate((size_t)options->connections, sizeof *streamings);
    int64_t *starts = allocate((size_t)options->partitions, sizeof *starts);
    int64_t *ends = allocate((size_t)options->partitions, sizeof *ends);
    if (options->bytes < 1)
        die("cursus-stream needs --bytes");
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    ask_offsets(options, TIMESTAMP_EARLIEST, starts);
    ask_offsets(options, TIMESTAMP_LATEST, ends);
    int64_t start_ns = now_ns(), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < options->connections; i++) {
        streamings[i].index = i;
        streamings[i].start = starts[i % options->partitions];
        streamings[i].end = ends[i % options->partitions];
        if (streamings[i].start >= streamings[i].end)
            die("partition %d of %s is empty", i % options->partitions, options->topic);
        streaming_open(&run, &streamings[i]);
    }
    while (run.active > 0) {
        int ready = epoll_wait(run.epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            streaming_turn(&run, events[i].data.ptr);
    }
    printf("{\"command\": \"cursus-stream\", \"requests\": %" PRId64 ", \"records\": %" PRId64
           ", \"bytes\": %" PRId64 ", \"seconds\": %.6f, \"generator_cpu_s\": %.6f"
           ", \"gaps\": %" PRId64 "}\n",
           run.frames, run.records, run.bytes, (double)(now_ns() - start_ns) / 1e9,
           (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns) / 1e9, run.gaps);
    return run.gaps;
}

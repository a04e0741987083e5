/* fetch: connections that read partitions from their start to their end repeatedly.
 *
 * The partitions are divided among the connections; a request is for all partitions of a
 * connection, as in a consumer. Offsets of successive batches must follow each other without a gap.
 */
#include <inttypes.h>
#include <sys/epoll.h>

#include "load/load.h"
#include "wire/tools.h"

enum { EVENTS_MAX = 64 };

struct place { /* of one partition; one connection reads it */
    int64_t start, end, next;
};

struct consumer {
    struct connection connection; /* first, because epoll returns its address */
    struct buffer request;
    int index, partition_count;
    int32_t correlation_id;
};

struct run {
    const struct options *options;
    struct place *places;
    int64_t requests, records, bytes, deadline_ns, bytes_max;
    int64_t gaps, empty;
    int active;
};

static void consumer_ask(struct run *run, struct consumer *consumer)
{
    set_fetch_id(&consumer->request, ++consumer->correlation_id);
    for (int nth = 0; nth < consumer->partition_count; nth++) {
        struct place *place = &run->places[consumer->index + nth * run->options->connections];
        if (place->next >= place->end)
            place->next = place->start;
        set_fetch_offset(&consumer->request, consumer->partition_count, nth, place->next);
    }
    connection_queue(&consumer->connection, consumer->request.bytes, consumer->request.size);
    connection_flush(&consumer->connection);
}

/* Counts whole batches only: a broker may truncate the last one at its limit. */
static int64_t place_take(struct run *run, struct place *place, struct reader records)
{
    struct batch_facts batch;
    int64_t before = place->next;
    while (take_batch(&records, run->options->verify, &batch)) {
        if (batch.base_offset != place->next)
            run->gaps++;
        place->next = batch.last_offset + 1;
        run->bytes += (int64_t)batch.size;
    }
    return place->next - before;
}

static void consumer_take(struct run *run, struct consumer *consumer, struct reader *response)
{
    int64_t records = 0, partition;
    if (take_int(response, 4) != consumer->correlation_id)
        die("responses are out of order");
    for (int64_t count = take_fetched_count(response); count > 0; count--) {
        struct reader batches = take_fetched(response, &partition);
        if (partition < 0 || partition >= run->options->partitions)
            die("a response has partition %" PRId64, partition);
        records += place_take(run, &run->places[partition], batches);
    }
    run->requests++;
    run->records += records;
    if (records == 0)
        run->empty++;
}

static void consumer_turn(struct run *run, struct consumer *consumer)
{
    struct reader response;
    connection_receive(&consumer->connection);
    while (inbox_next(&consumer->connection.inbox, &response)) {
        consumer_take(run, consumer, &response);
        if (now_ns() >= run->deadline_ns || run->bytes >= run->bytes_max)
            run->active--;
        else
            consumer_ask(run, consumer);
    }
}

static struct consumer *consumers_open(const struct options *options, int epoll)
{
    struct consumer *consumers = allocate((size_t)options->connections, sizeof *consumers);
    for (int i = 0; i < options->connections; i++) {
        connection_open(&consumers[i].connection, options->host, options->port);
        connection_watch(&consumers[i].connection, epoll);
        put_fetch(&consumers[i].request, options, i, options->connections);
        consumers[i].index = i;
        consumers[i].partition_count =
            (options->partitions - i + options->connections - 1) / options->connections;
    }
    return consumers;
}

static void run_prepare(struct run *run)
{
    size_t partitions = (size_t)run->options->partitions;
    int64_t *starts = allocate(partitions, sizeof *starts);
    int64_t *ends = allocate(partitions, sizeof *ends);
    ask_offsets(run->options, TIMESTAMP_EARLIEST, starts);
    ask_offsets(run->options, TIMESTAMP_LATEST, ends);
    run->places = allocate(partitions, sizeof *run->places);
    for (size_t i = 0; i < partitions; i++) {
        if (starts[i] >= ends[i])
            die("partition %zu of %s is empty", i, run->options->topic);
        run->places[i] = (struct place){starts[i], ends[i], starts[i]};
    }
    free(starts);
    free(ends);
}

int64_t load_fetch(const struct options *options)
{
    struct run run = {.options = options, .active = options->connections};
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (options->connections > options->partitions)
        die("fetch needs a partition for each connection");
    run_prepare(&run);
    struct consumer *consumers = consumers_open(options, epoll);
    int64_t start_ns = now_ns(), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    run.deadline_ns = options->seconds > 0 ? start_ns + (int64_t)(options->seconds * 1e9)
                                           : INT64_MAX;
    run.bytes_max = options->bytes > 0 ? options->bytes : INT64_MAX;
    for (int i = 0; i < options->connections; i++)
        consumer_ask(&run, &consumers[i]);
    while (run.active > 0) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            consumer_turn(&run, events[i].data.ptr);
    }
    printf("{\"command\": \"fetch\", \"requests\": %" PRId64 ", \"records\": %" PRId64
           ", \"bytes\": %" PRId64 ", \"seconds\": %.6f, \"generator_cpu_s\": %.6f"
           ", \"gaps\": %" PRId64 ", \"empty\": %" PRId64 "}\n",
           run.requests, run.records, run.bytes, (double)(now_ns() - start_ns) / 1e9,
           (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns) / 1e9, run.gaps, run.empty);
    return run.gaps + run.empty;
}

/* rustlog: connections with --in-flight produce requests in RustLog's binary form.
 *
 * Responses have no number; they arrive in order. The number of acknowledged records must be that
 * between the ends of the partitions before and after, and successive offsets must differ.
 */
#include <inttypes.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "load/load.h"
#include "wire/tools.h"

enum { EVENTS_MAX = 256, KIND_PRODUCE = 0x01 };

struct producer {
    struct connection connection; /* first, because epoll returns its address */
    int64_t *sent_ns; /* of the requests in flight */
    int64_t last_offset;
    uint32_t sent, answered;
    int partition;
};

struct run {
    const struct options *options;
    struct buffer *requests; /* one per partition */
    struct histogram latency;
    int64_t requests_left, sent, answered, errors, misplaced;
};

static void put_request(struct buffer *request, const struct options *options, int partition)
{
    uint8_t *value = allocate(1, options->value_bytes);
    put_int(request, 0, 4);
    put_int(request, KIND_PRODUCE, 1);
    put_string(request, options->topic); /* as in Kafka: uint16 length and bytes */
    put_int(request, partition, 4);
    put_int(request, options->records, 4);
    for (int i = 0; i < options->records; i++) {
        put_int(request, (int64_t)options->value_bytes, 4);
        put_bytes(request, value, options->value_bytes);
    }
    frame_end(request, 0, 0);
    free(value);
}

static void producer_fill(struct run *run, struct producer *producer, int64_t now)
{
    uint32_t limit = (uint32_t)run->options->in_flight;
    const struct buffer *request = &run->requests[producer->partition];
    while (producer->sent - producer->answered < limit && run->requests_left > 0) {
        producer->sent_ns[producer->sent % limit] = now;
        connection_queue(&producer->connection, request->bytes, request->size);
        producer->sent++;
        run->sent++;
        run->requests_left--;
    }
    connection_flush(&producer->connection);
}

static void producer_take(struct run *run, struct producer *producer, struct reader *response,
                          int64_t now)
{
    uint32_t place = producer->answered % (uint32_t)run->options->in_flight;
    if (take_int(response, 1) != KIND_PRODUCE) {
        run->errors++;
    } else {
        int64_t base_offset = take_int(response, 8);
        if (base_offset <= producer->last_offset || take_int(response, 4) != run->options->records)
            run->misplaced++;
        producer->last_offset = base_offset;
        histogram_add(&run->latency, now - producer->sent_ns[place]);
    }
    producer->answered++;
    run->answered++;
}

static void producer_turn(struct run *run, struct producer *producer)
{
    struct reader response;
    connection_receive(&producer->connection);
    int64_t now = now_ns();
    while (inbox_next(&producer->connection.inbox, &response))
        producer_take(run, producer, &response, now);
    producer_fill(run, producer, now);
}

static int64_t records_in_log(const struct options *options)
{
    int64_t sum = 0, *ends = allocate((size_t)options->partitions, sizeof *ends);
    ask_offsets(options, TIMESTAMP_LATEST, ends);
    for (int partition = 0; partition < options->partitions; partition++)
        sum += ends[partition];
    free(ends);
    return sum;
}

static struct producer *run_prepare(struct run *run, int epoll)
{
    const struct options *options = run->options;
    struct producer *producers = allocate((size_t)options->connections, sizeof *producers);
    run->requests = allocate((size_t)options->partitions, sizeof *run->requests);
    run->requests_left = options->requests;
    for (int partition = 0; partition < options->partitions; partition++)
        put_request(&run->requests[partition], options, partition);
    for (int i = 0; i < options->connections; i++) {
        connection_open(&producers[i].connection, options->host, options->port);
        connection_watch(&producers[i].connection, epoll);
        producers[i].sent_ns = allocate((size_t)options->in_flight, sizeof(int64_t));
        producers[i].last_offset = -1;
        producers[i].partition = i % options->partitions;
    }
    return producers;
}

int64_t load_rustlog(const struct options *options)
{
    struct run *run = allocate(1, sizeof *run);
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (options->requests < 1 || options->records < 1)
        die("rustlog needs --requests and --records");
    run->options = options;
    struct producer *producers = run_prepare(run, epoll);
    int64_t before = records_in_log(options);
    int64_t start_ns = now_ns(), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < options->connections; i++)
        producer_fill(run, &producers[i], now_ns());
    while (run->answered < run->sent) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            producer_turn(run, events[i].data.ptr);
    }
    int64_t wall_ns = now_ns() - start_ns;
    int64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;
    int64_t records = run->answered * options->records;
    int64_t missing = llabs(records_in_log(options) - before - records);
    printf("{\"command\": \"rustlog\", \"requests\": %" PRId64 ", \"records\": %" PRId64
           ", \"bytes\": %" PRId64 ", \"seconds\": %.6f, \"generator_cpu_s\": %.6f"
           ", \"errors\": %" PRId64 ", \"missing\": %" PRId64 ", \"misplaced\": %" PRId64,
           run->answered, records, records * (int64_t)options->value_bytes, (double)wall_ns / 1e9,
           (double)cpu_ns / 1e9, run->errors, missing, run->misplaced);
    histogram_print("acknowledged", &run->latency);
    printf("}\n");
    return run->errors + missing + run->misplaced;
}

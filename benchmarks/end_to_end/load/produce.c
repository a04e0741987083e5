/* produce: connections with --in-flight requests of one batch each.
 *
 * A frame consists of a head of the connection, with the correlation id, and a batch or message set
 * that all share. Every acknowledged base offset is recorded: at the end, all offsets between the
 * end of the partition before and after the run must have been acknowledged, each once.
 */
#include <inttypes.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "load/load.h"
#include "wire/tools.h"

enum { EVENTS_MAX = 256 };

struct ledger { /* of one partition */
    int64_t first_offset;
    uint64_t *acknowledged; /* a bit for each batch from first_offset on */
    size_t words;
    int64_t batches;
};

struct slot { /* a request in flight */
    uint8_t *head;
    int64_t sent_ns;
    int partition;
};

struct producer {
    struct connection connection; /* first, because epoll returns its address */
    struct slot *slots;
    uint32_t sent, answered;
    int next_partition;
};

struct run {
    const struct options *options;
    struct buffer batch;
    int batch_records;
    struct buffer *heads; /* one per partition; all of the same size */
    struct ledger *ledgers;
    struct histogram latency;
    int64_t requests_left, sent, answered, deadline_ns;
    int64_t errors, first_error, duplicated, misplaced;
};

static void ledger_tick(struct run *run, int partition, int64_t base_offset)
{
    struct ledger *ledger = &run->ledgers[partition];
    int64_t distance = base_offset - ledger->first_offset;
    if (distance < 0 || distance % run->batch_records != 0 || distance / run->batch_records > run->sent) {
        run->misplaced++;
        return;
    }
    size_t index = (size_t)(distance / run->batch_records);
    if (index / 64 >= ledger->words) {
        size_t words = 2 * ledger->words + index / 64 + 1;
        ledger->acknowledged = realloc(ledger->acknowledged, words * sizeof(uint64_t));
        if (ledger->acknowledged == NULL)
            die("no memory for a ledger");
        memset(ledger->acknowledged + ledger->words, 0, (words - ledger->words) * 8);
        ledger->words = words;
    }
    uint64_t bit = UINT64_C(1) << (index % 64);
    if (ledger->acknowledged[index / 64] & bit)
        run->duplicated++;
    ledger->acknowledged[index / 64] |= bit;
    ledger->batches++;
}

/* Returns the number of offsets in the log that were not acknowledged, or the reverse. */
static int64_t ledgers_missing(const struct run *run)
{
    int count = run->options->partitions;
    int64_t missing = 0, *ends = allocate((size_t)count, sizeof *ends);
    ask_offsets(run->options, TIMESTAMP_LATEST, ends);
    for (int partition = 0; partition < count; partition++) {
        const struct ledger *ledger = &run->ledgers[partition];
        missing += llabs(ends[partition] - ledger->first_offset
                         - ledger->batches * run->batch_records);
    }
    free(ends);
    return missing;
}

static void producer_send(struct run *run, struct producer *producer, int64_t now)
{
    struct slot *slot = &producer->slots[producer->sent % (uint32_t)run->options->in_flight];
    const struct buffer *head = &run->heads[producer->next_partition];
    memcpy(slot->head, head->bytes, head->size);
    set_int(slot->head + CORRELATION_POSITION, producer->sent, 4);
    slot->sent_ns = now;
    slot->partition = producer->next_partition;
    connection_queue(&producer->connection, slot->head, head->size);
    connection_queue(&producer->connection, run->batch.bytes, run->batch.size);
    producer->next_partition = (producer->next_partition + 1) % run->options->partitions;
    producer->sent++;
    run->sent++;
    run->requests_left--;
}

static void producer_take(struct run *run, struct producer *producer, struct reader *response,
                          int64_t now)
{
    struct slot *slot = &producer->slots[producer->answered % (uint32_t)run->options->in_flight];
    int64_t base_offset;
    if ((uint32_t)take_int(response, 4) != producer->answered)
        die("responses are out of order");
    int16_t error = take_produced(response, &base_offset);
    if (error == 0) {
        ledger_tick(run, slot->partition, base_offset);
        histogram_add(&run->latency, now - slot->sent_ns);
    } else {
        run->errors++;
        run->first_error = run->first_error == 0 ? error : run->first_error;
    }
    producer->answered++;
    run->answered++;
}

static void producer_fill(struct run *run, struct producer *producer, int64_t now)
{
    uint32_t limit = (uint32_t)run->options->in_flight;
    while (producer->sent - producer->answered < limit && run->requests_left > 0
           && now < run->deadline_ns)
        producer_send(run, producer, now);
    connection_flush(&producer->connection);
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

static struct producer *producers_open(struct run *run, int epoll)
{
    const struct options *options = run->options;
    size_t in_flight = (size_t)options->in_flight;
    struct producer *producers = allocate((size_t)options->connections, sizeof *producers);
    for (int i = 0; i < options->connections; i++) {
        struct producer *producer = &producers[i];
        connection_open(&producer->connection, options->host, options->port);
        connection_watch(&producer->connection, epoll);
        producer->slots = allocate(in_flight, sizeof *producer->slots);
        for (size_t slot = 0; slot < in_flight; slot++)
            producer->slots[slot].head = allocate(1, run->heads[0].size);
        /* Start at different partitions, so that connections do not use the same one. */
        producer->next_partition =
            (int)((int64_t)i * options->partitions / options->connections);
    }
    return producers;
}

/* Reads a batch as sent by a producer, compressed or not; returns its number of records. */
static int read_batch(struct buffer *batch, const char *path)
{
    uint8_t part[4096];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        die("%s cannot be read", path);
    for (size_t size; (size = fread(part, 1, sizeof part, file)) > 0;)
        put_bytes(batch, part, size);
    fclose(file);
    if (batch->size < BATCH_HEAD_BYTES)
        die("%s is not a batch", path);
    struct reader count = {batch->bytes + BATCH_RECORDS_POSITION, batch->bytes + BATCH_HEAD_BYTES};
    return (int)take_int(&count, 4);
}

static void run_prepare(struct run *run)
{
    const struct options *options = run->options;
    size_t partitions = (size_t)options->partitions;
    if (options->batch_file != NULL) {
        run->batch_records = read_batch(&run->batch, options->batch_file);
    } else {
        run->batch_records = options->records > 0
            ? options->records
            : records_that_fit(options->batch_bytes, options->value_bytes);
        (options->old ? put_message_set : put_batch)(&run->batch, run->batch_records,
                                                     options->value_bytes);
    }
    run->heads = allocate(partitions, sizeof *run->heads);
    run->ledgers = allocate(partitions, sizeof *run->ledgers);
    int64_t *offsets = allocate(partitions, sizeof *offsets);
    ask_offsets(options, TIMESTAMP_LATEST, offsets);
    for (int partition = 0; partition < options->partitions; partition++) {
        put_produce_head(&run->heads[partition], options, partition, run->batch.size);
        run->ledgers[partition].first_offset = offsets[partition];
    }
    free(offsets);
    run->requests_left = options->requests > 0 ? options->requests : INT64_MAX;
    if (options->bytes > 0)
        run->requests_left = options->bytes / (int64_t)run->batch.size + 1;
}

static void run_print(const struct run *run, int64_t wall_ns, int64_t cpu_ns, int64_t missing)
{
    printf("{\"command\": \"produce\", \"requests\": %" PRId64 ", \"records\": %" PRId64
           ", \"bytes\": %" PRId64 ", \"batch_bytes\": %zu, \"seconds\": %.6f"
           ", \"generator_cpu_s\": %.6f, \"errors\": %" PRId64 ", \"first_error\": %" PRId64
           ", \"missing\": %" PRId64 ", \"duplicated\": %" PRId64 ", \"misplaced\": %" PRId64,
           run->answered, run->answered * run->batch_records,
           run->answered * (int64_t)run->batch.size, run->batch.size, (double)wall_ns / 1e9,
           (double)cpu_ns / 1e9, run->errors, run->first_error, missing, run->duplicated,
           run->misplaced);
    histogram_print("acknowledged", &run->latency);
    printf("}\n");
}

int64_t load_produce(const struct options *options)
{
    struct run *run = allocate(1, sizeof *run);
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    run->options = options;
    run_prepare(run);
    struct producer *producers = producers_open(run, epoll);
    int64_t start_ns = now_ns(), start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    run->deadline_ns = options->seconds > 0 ? start_ns + (int64_t)(options->seconds * 1e9)
                                            : INT64_MAX;
    for (int i = 0; i < options->connections; i++)
        producer_fill(run, &producers[i], now_ns());
    while (run->answered < run->sent) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++)
            producer_turn(run, events[i].data.ptr);
    }
    int64_t wall_ns = now_ns() - start_ns;
    int64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;
    int64_t missing = ledgers_missing(run);
    run_print(run, wall_ns, cpu_ns, missing);
    return run->errors + missing + run->duplicated + run->misplaced;
}

/* latency: requests of one record at a constant rate, and a consumer that polls for the records.
 *
 * Open loop: record n is due at start + n / rate, independent of earlier records, and its latency
 * is measured from then (no coordinated omission). Its number is its offset minus the end offset of
 * the partition at the start. With --spin the generator never sleeps, so that its wake-ups do not
 * add to the latency.
 */
#include <inttypes.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "load/load.h"
#include "wire/tools.h"

enum { EVENTS_MAX = 4, IN_FLIGHT_MAX = 256, START_DELAY_NS = 20000000 };

struct run {
    const struct options *options;
    struct connection producer, consumer;
    int timer;
    struct buffer batch, head, fetch;
    uint8_t *heads; /* IN_FLIGHT_MAX entries */
    int64_t first_offset, next_offset, start_ns;
    int64_t records, sent, answered, warm_up_records;
    int64_t errors, misplaced;
    int32_t fetch_correlation_id;
    struct histogram acknowledged, end_to_end;
};

static int64_t due_ns(const struct run *run, int64_t record)
{
    return run->start_ns + (int64_t)((double)record * 1e9 / run->options->rate);
}

static void timer_set(const struct run *run)
{
    int64_t due = due_ns(run, run->sent);
    struct itimerspec at = {.it_value = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000}};
    timerfd_settime(run->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static void send_due(struct run *run)
{
    int64_t now = now_ns();
    while (run->sent < run->records && due_ns(run, run->sent) <= now
           && run->sent - run->answered < IN_FLIGHT_MAX) {
        uint8_t *head = run->heads + (size_t)(run->sent % IN_FLIGHT_MAX) * run->head.size;
        set_int(head + CORRELATION_POSITION, run->sent, 4);
        connection_queue(&run->producer, head, run->head.size);
        connection_queue(&run->producer, run->batch.bytes, run->batch.size);
        run->sent++;
    }
    connection_flush(&run->producer);
    if (run->sent < run->records && run->sent - run->answered < IN_FLIGHT_MAX)
        timer_set(run);
}

static void producer_turn(struct run *run)
{
    struct reader response;
    connection_receive(&run->producer);
    int64_t now = now_ns(), base_offset;
    while (inbox_next(&run->producer.inbox, &response)) {
        if (take_int(&response, 4) != run->answered)
            die("responses are out of order");
        if (take_produced(&response, &base_offset) != 0)
            run->errors++;
        else if (base_offset != run->first_offset + run->answered)
            run->misplaced++;
        if (run->answered >= run->warm_up_records)
            histogram_add(&run->acknowledged, now - due_ns(run, run->answered));
        run->answered++;
    }
    if (run->sent < run->records)
        send_due(run);
}

static void consumer_ask(struct run *run)
{
    set_fetch_id(&run->fetch, ++run->fetch_correlation_id);
    set_fetch_offset(&run->fetch, 1, 0, run->next_offset);
    connection_queue(&run->consumer, run->fetch.bytes, run->fetch.size);
    connection_flush(&run->consumer);
}

static void consumer_turn(struct run *run)
{
    struct reader response;
    struct batch_facts batch;
    connection_receive(&run->consumer);
    if (!inbox_next(&run->consumer.inbox, &response))
        return;
    int64_t now = now_ns();
    if (take_int(&response, 4) != run->fetch_correlation_id)
        die("responses are out of order");
    int64_t partition, count = take_fetched_count(&response);
    struct reader records = {NULL, NULL};
    if (count > 0)
        records = take_fetched(&response, &partition);
    while (take_batch(&records, run->options->verify, &batch)) {
        if (batch.base_offset != run->next_offset)
            run->misplaced++;
        for (; run->next_offset <= batch.last_offset; run->next_offset++) {
            int64_t record = run->next_offset - run->first_offset;
            if (record >= run->warm_up_records)
                histogram_add(&run->end_to_end, now - due_ns(run, record));
        }
    }
    if (run->next_offset < run->first_offset + run->records)
        consumer_ask(run);
}

static void timer_turn(struct run *run)
{
    uint64_t expirations;
    if (read(run->timer, &expirations, sizeof expirations) > 0)
        send_due(run);
}

static void watch(int epoll, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

static int run_prepare(struct run *run)
{
    const struct options *options = run->options;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    ask_offsets(options, TIMESTAMP_LATEST, &run->first_offset);
    run->next_offset = run->first_offset;
    put_batch(&run->batch, 1, options->value_bytes);
    put_produce_head(&run->head, options, 0, run->batch.size);
    run->heads = allocate(IN_FLIGHT_MAX, run->head.size);
    for (size_t i = 0; i < IN_FLIGHT_MAX; i++)
        memcpy(run->heads + i * run->head.size, run->head.bytes, run->head.size);
    put_fetch(&run->fetch, options, 0, 1);
    connection_open(&run->producer, options->host, options->port);
    connection_open(&run->consumer, options->host, options->port);
    connection_watch(&run->producer, epoll);
    connection_watch(&run->consumer, epoll);
    run->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    watch(epoll, run->timer, &run->timer);
    run->warm_up_records = (int64_t)(options->warm_up_seconds * options->rate);
    run->records = run->warm_up_records + (int64_t)(options->seconds * options->rate);
    return epoll;
}

int64_t load_latency(const struct options *options)
{
    struct run *run = allocate(1, sizeof *run);
    struct epoll_event events[EVENTS_MAX];
    if (options->partitions != 1 || options->rate <= 0 || options->seconds <= 0)
        die("latency needs --partitions 1, --rate and --seconds");
    run->options = options;
    int epoll = run_prepare(run);
    run->start_ns = now_ns() + START_DELAY_NS;
    consumer_ask(run);
    timer_set(run);
    while (run->answered < run->records
           || run->next_offset < run->first_offset + run->records) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, options->spin ? 0 : -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr == &run->consumer)
                consumer_turn(run);
            else if (events[i].data.ptr == &run->producer)
                producer_turn(run);
            else
                timer_turn(run);
        }
    }
    printf("{\"command\": \"latency\", \"requests\": %" PRId64 ", \"records\": %" PRId64
           ", \"bytes\": %" PRId64 ", \"seconds\": %.6f, \"generator_cpu_s\": %.6f"
           ", \"errors\": %" PRId64 ", \"misplaced\": %" PRId64,
           run->answered, run->answered, run->answered * (int64_t)run->batch.size,
           (double)(now_ns() - run->start_ns) / 1e9,
           (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9, run->errors, run->misplaced);
    histogram_print("acknowledged", &run->acknowledged);
    histogram_print("end_to_end", &run->end_to_end);
    printf("}\n");
    return run->errors + run->misplaced;
}

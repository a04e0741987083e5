/* The commands of the load generator and what they are told. */
#ifndef BENCHMARK_LOAD_H
#define BENCHMARK_LOAD_H

#include "connection.h"

enum { TOPIC_CONFIGS_MAX = 16, RETRY_US = 1000 };

struct options {
    const char *host, *topic, *line;
    const char *batch_file; /* what is produced, instead of a batch of our own */
    int port, partitions, connections, in_flight, acks, records;
    size_t value_bytes, batch_bytes, fetch_bytes;
    double seconds, warm_up_seconds, rate;
    int64_t requests, bytes, since_ns;
    bool verify, spin, old; /* old: message sets in a Produce of version 1 */
    const char *configs[TOPIC_CONFIGS_MAX]; /* NAME=VALUE */
    int config_count;
};

/* Each prints one JSON object of facts and returns how many of them are wrong. */
int64_t load_produce(const struct options *options);
int64_t load_fetch(const struct options *options);
int64_t load_rustlog(const struct options *options);
int64_t load_rustlog_fetch(const struct options *options);
int64_t load_cursus(const struct options *options);
int64_t load_cursus_stream(const struct options *options);
int64_t load_latency(const struct options *options);
int64_t load_lines(const struct options *options);
int64_t load_create(const struct options *options);
int64_t load_delete(const struct options *options);
int64_t load_idle(const struct options *options);
int64_t load_ready(const struct options *options);

/* ---- what they share ------------------------------------------------------------------------ */

/* The offset of every partition at a timestamp, TIMESTAMP_LATEST or TIMESTAMP_EARLIEST. */
void ask_offsets(const struct options *options, int64_t timestamp, int64_t *offsets);

/* A Produce request up to, not including, the batch that follows it. */
void put_produce_head(struct buffer *request, const struct options *options, int partition,
                      size_t batch_bytes);
/* What the Produce response says of its one partition: an error, and the base offset. */
int16_t take_produced(struct reader *response, int64_t *base_offset);

/* A Fetch request for a partition and every step-th behind it. Offsets are set in place: that of
 * the nth one before each sending. */
void put_fetch(struct buffer *request, const struct options *options, int first, int step);
void set_fetch_id(struct buffer *request, int32_t correlation_id);
void set_fetch_offset(struct buffer *request, int count, int nth, int64_t offset);
/* The number of partitions that a Fetch response has, and then the records of each. An error
 * code ends the program. */
int64_t take_fetched_count(struct reader *response);
struct reader take_fetched(struct reader *response, int64_t *partition);

/* Takes one whole batch from fetched records, or returns false; a cut one at the end is left. */
struct batch_facts {
    int64_t base_offset, last_offset;
    size_t size;
};
bool take_batch(struct reader *records, bool verify, struct batch_facts *batch);

#endif

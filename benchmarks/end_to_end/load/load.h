/* The commands of the load generator and their options. */
#ifndef BENCHMARK_LOAD_H
#define BENCHMARK_LOAD_H

#include "load/connection.h"

enum { TOPIC_CONFIGS_MAX = 16, RETRY_US = 1000 };

struct options {
    const char *host, *topic, *line;
    const char *batch_file; /* a file with the batch to produce, instead of a generated one */
    int port, partitions, connections, in_flight, acks, records;
    size_t value_bytes, batch_bytes, fetch_bytes;
    double seconds, warm_up_seconds, rate;
    int64_t requests, bytes, since_ns;
    bool verify, spin, old; /* old: message sets in a Produce of version 1 */
    const char *configs[TOPIC_CONFIGS_MAX]; /* NAME=VALUE */
    int config_count;
};

/* Each prints one JSON object of facts and returns the number of errors found. */
int64_t load_produce(const struct options *options);
int64_t load_fetch(const struct options *options);
int64_t load_rustlog(const struct options *options);
int64_t load_rustlog_fetch(const struct options *options);
int64_t load_cursus(const struct options *options);
int64_t load_cursus_events(const struct options *options);
int64_t load_cursus_stream(const struct options *options);
int64_t load_latency(const struct options *options);
int64_t load_lines(const struct options *options);
int64_t load_create(const struct options *options);
int64_t load_delete(const struct options *options);
int64_t load_idle(const struct options *options);
int64_t load_ready(const struct options *options);

/* ---- shared functions ----------------------------------------------------------------------- */

/* Requests the offset of every partition at TIMESTAMP_LATEST or TIMESTAMP_EARLIEST. */
void ask_offsets(const struct options *options, int64_t timestamp, int64_t *offsets);

/* Writes a Produce request up to the batch, which the caller sends after it. */
void put_produce_head(struct buffer *request, const struct options *options, int partition,
                      size_t batch_bytes);
/* Reads the error and the base offset of the only partition in a Produce response. */
int16_t take_produced(struct reader *response, int64_t *base_offset);

/* Writes a Fetch request for a partition and every step-th one after it. The caller sets the
 * offset of the nth one before each sending. */
void put_fetch(struct buffer *request, const struct options *options, int first, int step);
void set_fetch_id(struct buffer *request, int32_t correlation_id);
void set_fetch_offset(struct buffer *request, int count, int nth, int64_t offset);
/* Read the number of partitions of a Fetch response, then the records of each. Exit on an error
 * code. */
int64_t take_fetched_count(struct reader *response);
struct reader take_fetched(struct reader *response, int64_t *partition);

/* Reads one whole batch of fetched records; returns false if there is none or it is incomplete. */
struct batch_facts {
    int64_t base_offset, last_offset;
    size_t size;
};
bool take_batch(struct reader *records, bool verify, struct batch_facts *batch);

#endif

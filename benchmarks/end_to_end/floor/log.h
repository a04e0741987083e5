/* The floor program: files of topics and partitions. */
#ifndef BENCHMARK_FLOOR_LOG_H
#define BENCHMARK_FLOOR_LOG_H

#include "wire/wire.h"

struct batch_place {
    int64_t base_offset, position;
};

struct partition {
    int fd;
    int64_t next_offset, position, allocated, allocated_last;
    struct batch_place *places; /* of every batch */
    size_t place_count, place_capacity;
};

struct topic {
    char *name;
    int partition_count;
    struct partition *partitions;
    struct topic *next;
};

struct log_options {
    const char *folder;
    bool recycles; /* overwrites old files, whose pages are in memory, instead of new ones */
};

struct span { /* of a partition's file */
    int64_t position;
    size_t size;
};

struct topic *topic_find(struct text name);
void topic_create(const struct log_options *options, struct text name, int partition_count);
void topic_delete(const struct log_options *options, struct topic *topic);
/* Assigns the next offsets to the batch, checks its CRC and writes it; -1 if the CRC is wrong. */
int64_t partition_append(const struct log_options *options, struct partition *partition,
                         uint8_t *batch, size_t size);
/* Returns whole batches from an offset on: up to bytes_max, but at least one. */
struct span partition_slice(const struct partition *partition, int64_t offset, size_t bytes_max);

#endif

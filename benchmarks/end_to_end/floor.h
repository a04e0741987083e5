/* The floor program, a minimal server: declarations of its parts. */
#ifndef BENCHMARK_FLOOR_H
#define BENCHMARK_FLOOR_H

#include "wire.h"

/* ---- files (floor_log.c) -------------------------------------------------------------------- */

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

/* ---- requests (floor_requests.c) ------------------------------------------------------------ */

enum { PIECES_MAX = 64 }; /* partitions with records in one response */

struct piece { /* of a file, to be sent after the bytes of out up to out_end */
    size_t out_end;
    int file;
    struct span span;
};

struct client {
    int fd;
    struct inbox inbox;
    struct buffer out;
    size_t out_sent;
    struct piece pieces[PIECES_MAX];
    size_t piece_first, piece_end;
    bool waits_to_write;
    struct partition *parked_on; /* for a waiting fetch, with all fields below; or NULL */
    int32_t parked_id;
    const struct topic *parked_topic;
    int64_t parked_index, parked_until_ns;
    struct client *parked_next;
};

struct server {
    struct log_options log;
    int epoll, port;
    struct client *parked;
};

/* Serves one request: appends to client->out and pieces, or parks the client. */
void serve(struct server *server, struct client *client, struct reader *request);
/* Answers waiting fetches that have expired and, after an append, those of its partition. */
void release_parked(struct server *server, const struct partition *partition,
                    const uint8_t *batch, size_t size);
/* Sends queued bytes; returns false if the socket is full (epoll reports when it is not). */
bool client_flush(struct server *server, struct client *client);

/* ---- the loop of durable writes (floor_sync.c) ---------------------------------------------- */

int sync_loop(const char *folder, size_t write_bytes, double seconds);

#endif

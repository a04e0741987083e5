/* The floor program: its clients, and sending to them. */
#ifndef BENCHMARK_FLOOR_CLIENT_H
#define BENCHMARK_FLOOR_CLIENT_H

#include "floor/log.h"
#include "wire/wire.h"

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

/* Registers what to wait for with epoll: to read, or to write while the socket is full. */
void client_events(struct server *server, struct client *client, int operation);
/* Sends queued bytes; returns false if the socket is full (epoll reports when it is not). */
bool client_flush(struct server *server, struct client *client);

#endif

/* A connection of the load generator: asked and answered in turn, or queued frames under epoll. */
#ifndef BENCHMARK_CONNECTION_H
#define BENCHMARK_CONNECTION_H

#include <sys/uio.h>

#include "wire.h"

enum { QUEUE_PIECES_MAX = 1024 }; /* what one sendmsg takes (UIO_MAXIOV) */

struct connection {
    int fd;
    int epoll; /* that it is registered with, or -1 */
    bool waits_to_write;
    struct inbox inbox;
    struct iovec *queue; /* pieces of frames to send; they stay where they are until sent */
    size_t queue_first, queue_end, queue_capacity;
};

/* Connects, or returns false. */
bool connection_try(struct connection *connection, const char *host, int port);
void connection_open(struct connection *connection, const char *host, int port);
void connection_close(struct connection *connection);

/* Sends one whole request and waits for its response, whose body it returns. */
struct reader connection_ask(struct connection *connection, struct buffer *request);
/* The same, but false when the peer closes the connection. */
bool connection_try_ask(struct connection *connection, struct buffer *request, struct reader *reply);

/* Makes the connection non-blocking and reports its events with the address of itself. */
void connection_watch(struct connection *connection, int epoll);
void connection_queue(struct connection *connection, const void *bytes, size_t size);
/* Sends what the socket takes; epoll reports when it takes more. */
void connection_flush(struct connection *connection);
/* Receives what is there; a peer that closes ends the program. */
void connection_receive(struct connection *connection);

#endif

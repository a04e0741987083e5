/* A connection of the load generator: blocking requests, or queued frames under epoll. */
#ifndef BENCHMARK_CONNECTION_H
#define BENCHMARK_CONNECTION_H

#include <sys/uio.h>

#include "wire/wire.h"

enum { QUEUE_PIECES_MAX = 1024 }; /* the maximum of one sendmsg (UIO_MAXIOV) */

struct connection {
    int fd;
    int epoll; /* the epoll instance it is registered with, or -1 */
    bool waits_to_write;
    struct inbox inbox;
    struct iovec *queue; /* pieces of frames to send; their memory must stay valid until then */
    size_t queue_first, queue_end, queue_capacity;
};

/* Connects, or returns false. */
bool connection_try(struct connection *connection, const char *host, int port);
void connection_open(struct connection *connection, const char *host, int port);
void connection_close(struct connection *connection);

/* Sends one whole request, waits for its response and returns the body. */
struct reader connection_ask(struct connection *connection, struct buffer *request);
/* The same, but returns false if the peer closes the connection. */
bool connection_try_ask(struct connection *connection, struct buffer *request, struct reader *reply);

/* Makes the connection non-blocking and registers it; events have the address of the connection. */
void connection_watch(struct connection *connection, int epoll);
void connection_queue(struct connection *connection, const void *bytes, size_t size);
/* Sends as much as the socket accepts; epoll reports when it accepts more. */
void connection_flush(struct connection *connection);
/* Receives available bytes; exits if the peer closes the connection. */
void connection_receive(struct connection *connection);

#endif

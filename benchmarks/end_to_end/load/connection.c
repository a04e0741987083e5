#include "load/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/tools.h"

/* A connect to a free port of the ephemeral range may connect to itself. */
static bool connected_to_itself(int fd)
{
    struct sockaddr_in here = {0}, there = {0};
    socklen_t here_size = sizeof here, there_size = sizeof there;
    getsockname(fd, (struct sockaddr *)&here, &here_size);
    getpeername(fd, (struct sockaddr *)&there, &there_size);
    return here.sin_port == there.sin_port && here.sin_addr.s_addr == there.sin_addr.s_addr;
}

bool connection_try(struct connection *connection, const char *host, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die("%s is not an IPv4 address", host);
    *connection = (struct connection){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                                      .epoll = -1};
    if (connection->fd < 0)
        die("socket: %s", strerror(errno));
    int on = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) == 0
        && !connected_to_itself(connection->fd))
        return true;
    connection_close(connection);
    return false;
}

void connection_open(struct connection *connection, const char *host, int port)
{
    if (!connection_try(connection, host, port))
        die("cannot connect to %s:%d: %s", host, port, strerror(errno));
}

void connection_close(struct connection *connection)
{
    close(connection->fd);
    free(connection->inbox.bytes);
    free(connection->queue);
    *connection = (struct connection){.fd = -1, .epoll = -1};
}

bool connection_try_ask(struct connection *connection, struct buffer *request, struct reader *reply)
{
    frame_end(request, 0, 0);
    for (size_t sent = 0; sent < request->size;) {
        ssize_t size = send(connection->fd, request->bytes + sent, request->size - sent,
                            MSG_NOSIGNAL);
        if (size < 0)
            return false;
        sent += (size_t)size;
    }
    while (!inbox_next(&connection->inbox, reply))
        if (inbox_receive(&connection->inbox, connection->fd) < 0)
            return false;
    if (take_int(reply, 4) != get_int(request->bytes + CORRELATION_POSITION, 4))
        die("the response does not belong to the request");
    return true;
}

struct reader connection_ask(struct connection *connection, struct buffer *request)
{
    struct reader reply;
    if (!connection_try_ask(connection, request, &reply))
        die("the broker closed the connection");
    return reply;
}

static void connection_control(struct connection *connection, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    if (epoll_ctl(connection->epoll, operation, connection->fd, &event) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

void connection_watch(struct connection *connection, int epoll)
{
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    connection->epoll = epoll;
    connection_control(connection, EPOLL_CTL_ADD, EPOLLIN);
}

void connection_queue(struct connection *connection, const void *bytes, size_t size)
{
    if (connection->queue_end == connection->queue_capacity) {
        connection->queue_capacity = 2 * connection->queue_capacity + 16;
        connection->queue = realloc(connection->queue,
                                    connection->queue_capacity * sizeof *connection->queue);
        if (connection->queue == NULL)
            die("no memory for a queue");
    }
    connection->queue[connection->queue_end++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
}

static void connection_drop_sent(struct connection *connection, size_t size)
{
    while (size > 0) {
        struct iovec *piece = &connection->queue[connection->queue_first];
        size_t taken = size < piece->iov_len ? size : piece->iov_len;
        piece->iov_base = (uint8_t *)piece->iov_base + taken;
        piece->iov_len -= taken;
        size -= taken;
        if (piece->iov_len == 0)
            connection->queue_first++;
    }
    if (connection->queue_first == connection->queue_end)
        connection->queue_first = connection->queue_end = 0;
}

void connection_flush(struct connection *connection)
{
    bool is_full = false;
    while (connection->queue_end > connection->queue_first && !is_full) {
        size_t count = connection->queue_end - connection->queue_first;
        struct msghdr message = {
            .msg_iov = connection->queue + connection->queue_first,
            .msg_iovlen = count < QUEUE_PIECES_MAX ? count : QUEUE_PIECES_MAX,
        };
        ssize_t size = sendmsg(connection->fd, &message, MSG_NOSIGNAL);
        if (size < 0 && errno != EAGAIN)
            die("send: %s", strerror(errno));
        is_full = size < 0;
        connection_drop_sent(connection, size < 0 ? 0 : (size_t)size);
    }
    if (is_full == connection->waits_to_write)
        return;
    connection->waits_to_write = is_full;
    connection_control(connection, EPOLL_CTL_MOD, is_full ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void connection_receive(struct connection *connection)
{
    if (inbox_receive(&connection->inbox, connection->fd) < 0)
        die("the broker closed the connection");
}

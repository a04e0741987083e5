/* Sending to a client: bytes of responses, and pieces of files between them. */
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "floor/client.h"
#include "wire/tools.h"

void client_events(struct server *server, struct client *client, int operation)
{
    struct epoll_event event = {.events = client->waits_to_write ? EPOLLOUT : EPOLLIN,
                                .data.ptr = client};
    if (epoll_ctl(server->epoll, operation, client->fd, &event) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

/* Sends responses up to a position; returns false if the socket is full. */
static bool client_send_out(struct client *client, size_t end, bool has_more)
{
    while (client->out_sent < end) {
        ssize_t size = send(client->fd, client->out.bytes + client->out_sent,
                            end - client->out_sent, MSG_NOSIGNAL | (has_more ? MSG_MORE : 0));
        if (size < 0)
            return false;
        client->out_sent += (size_t)size;
    }
    return true;
}

static bool client_send_piece(struct client *client, struct piece *piece)
{
    while (piece->span.size > 0) {
        off_t position = piece->span.position;
        ssize_t size = sendfile(client->fd, piece->file, &position, piece->span.size);
        if (size <= 0)
            return false;
        piece->span.position += size;
        piece->span.size -= (size_t)size;
    }
    return true;
}

static bool client_send(struct client *client)
{
    for (; client->piece_first < client->piece_end; client->piece_first++) {
        struct piece *piece = &client->pieces[client->piece_first];
        if (!client_send_out(client, piece->out_end, true) || !client_send_piece(client, piece))
            return false;
    }
    if (!client_send_out(client, client->out.size, false))
        return false;
    client->out.size = client->out_sent = 0;
    client->piece_first = client->piece_end = 0;
    return true;
}

bool client_flush(struct server *server, struct client *client)
{
    bool is_sent = client_send(client);
    if (client->waits_to_write == is_sent) {
        client->waits_to_write = !is_sent;
        client_events(server, client, EPOLL_CTL_MOD);
    }
    return is_sent;
}

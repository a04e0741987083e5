/* A minimal server as a lower bound for the costs of a broker.
 *
 *     floor FOLDER [--port PORT] [--recycle]         serve the load generator
 *     floor FOLDER --sync-loop SECONDS [--bytes N]   write and fdatasync in a loop
 *
 * One thread with epoll: it reads whole frames, computes the CRC-32C of the batch, writes it by one
 * pwrite to a file reserved with fallocate, and sends a response of 60 bytes; fetches use sendfile.
 * There are no other checks, no indexes on disk, no replication, and files are not read at a start.
 * Files are new unless --recycle is given.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor/client.h"
#include "floor/requests.h"
#include "floor/sync.h"
#include "kernel/crc32c_hardware.h"
#include "wire/tools.h"

enum {
    EVENTS_MAX = 256,
    OUT_BYTES_MAX = 64 << 10,  /* of unsent responses; above it no more requests are served */
    PARKED_TICK_MS = 50,       /* interval of checks for expired fetches */
    BACKLOG = 4096,
};

static void client_open(struct server *server, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct client *client = allocate(1, sizeof *client);
    client->fd = fd;
    client_events(server, client, EPOLL_CTL_ADD);
}

static void client_close(struct server *server, struct client *client)
{
    for (struct client **link = &server->parked; *link != NULL; link = &(*link)->parked_next)
        if (*link == client) {
            *link = client->parked_next;
            break;
        }
    close(client->fd);
    free(client->inbox.bytes);
    free(client->out.bytes);
    free(client);
}

static void client_turn(struct server *server, struct client *client, bool is_broken)
{
    struct reader request;
    if (client->waits_to_write && !is_broken && !client_flush(server, client))
        return;
    if (is_broken || inbox_receive(&client->inbox, client->fd) < 0) {
        client_close(server, client);
        return;
    }
    for (bool has_served = true; has_served;) {
        has_served = false;
        while (client->piece_end == 0 && client->parked_on == NULL
               && client->out.size < OUT_BYTES_MAX && inbox_next(&client->inbox, &request)) {
            serve(server, client, &request);
            has_served = true;
        }
        if (has_served && !client_flush(server, client))
            return;
    }
}

static int listen_on(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)server->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, BACKLOG) < 0)
        die("cannot listen on port %d: %s", server->port, strerror(errno));
    getsockname(listener, (struct sockaddr *)&address, &size);
    server->port = ntohs(address.sin_port);
    printf("floor on 127.0.0.1:%d\n", server->port);
    fflush(stdout);
    return listener;
}

static _Noreturn void run(struct server *server)
{
    struct epoll_event events[EVENTS_MAX], accepting = {.events = EPOLLIN, .data.ptr = server};
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_on(server);
    epoll_ctl(server->epoll, EPOLL_CTL_ADD, listener, &accepting);
    for (;;) {
        int ready = epoll_wait(server->epoll, events, EVENTS_MAX,
                               server->parked != NULL ? PARKED_TICK_MS : -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr == server)
                client_open(server, listener);
            else
                client_turn(server, events[i].data.ptr,
                            (events[i].events & (EPOLLERR | EPOLLHUP)) != 0);
        }
        if (ready == 0)
            release_parked(server, NULL, NULL, 0);
    }
}

static void allow_descriptors(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int count, char **words)
{
    static const struct option names[] = {
        {"port", required_argument, NULL, 'p'},
        {"recycle", no_argument, NULL, 'r'},
        {"sync-loop", required_argument, NULL, 's'},
        {"bytes", required_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    struct server server = {0};
    double sync_seconds = 0;
    size_t sync_bytes = 170;
    for (int name; (name = getopt_long(count, words, "", names, NULL)) != -1;) {
        switch (name) {
        case 'p': server.port = atoi(optarg); break;
        case 'r': server.log.recycles = true; break;
        case 's': sync_seconds = atof(optarg); break;
        case 'b': sync_bytes = (size_t)atol(optarg); break;
        default: die("floor FOLDER [--port N] [--recycle] | FOLDER --sync-loop SECONDS [--bytes N]");
        }
    }
    if (optind != count - 1)
        die("floor: expected one folder for its files");
    server.log.folder = words[optind];
    if (sync_seconds > 0)
        return sync_loop(server.log.folder, sync_bytes, sync_seconds);
    allow_descriptors();
    crc32c_init();
    run(&server);
}

/* The floor program: responses to requests. */
#ifndef BENCHMARK_FLOOR_REQUESTS_H
#define BENCHMARK_FLOOR_REQUESTS_H

#include "floor/client.h"
#include "wire/wire.h"

/* Serves one request: appends to client->out and pieces, or parks the client. */
void serve(struct server *server, struct client *client, struct reader *request);
/* Answers waiting fetches that have expired and, after an append, those of its partition. */
void release_parked(struct server *server, const struct partition *partition,
                    const uint8_t *batch, size_t size);

#endif

/* XXH3, 64 bits, seed 0, default secret (xxHash specification, "XXH3 Algorithm Overview"). */
#ifndef BROKER_XXH3_H
#define BROKER_XXH3_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t xxh3_function(const uint8_t *bytes, size_t size);

struct xxh3_implementation {
    const char *name;
    xxh3_function *hash;
};

/* Picks the fastest implementation this processor has. Call once, first. */
void xxh3_init(void);

uint64_t xxh3_64(const uint8_t *bytes, size_t size);

/* The same hash of bytes that come in pieces: begin, add each, end. */
struct xxh3_stream {
    uint64_t lanes[8];
    uint64_t size;         /* bytes so far */
    size_t waiting;        /* bytes behind the last stripe that was taken in: 1 to 64, 0 at first */
    uint8_t last[128];     /* that stripe, and those */
    uint8_t start[240];    /* the first bytes: short inputs are hashed otherwise */
};

void xxh3_begin(struct xxh3_stream *stream);
void xxh3_add(struct xxh3_stream *stream, const uint8_t *bytes, size_t size);
uint64_t xxh3_end(const struct xxh3_stream *stream);

/* What this processor can run, fastest first, "portable" last; a name of NULL ends the list. They
 * differ in inputs of more than 240 bytes. */
const struct xxh3_implementation *xxh3_implementations(void);

#endif

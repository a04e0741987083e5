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

/* What this processor can run, fastest first, "portable" last; a name of NULL ends the list. They
 * differ in inputs of more than 240 bytes. */
const struct xxh3_implementation *xxh3_implementations(void);

#endif

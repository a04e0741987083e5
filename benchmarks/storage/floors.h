/* What an append cannot be cheaper than: the CRC of a batch, and its bytes moved to where they go. */
#ifndef BENCHMARK_STORAGE_FLOORS_H
#define BENCHMARK_STORAGE_FLOORS_H

#include <stddef.h>
#include <stdint.h>

typedef struct FloorLoad {
    const uint8_t *batches; /* `distinct` batches of `size` bytes, used in turn */
    size_t size;
    size_t distinct;
    size_t count;           /* how many are appended */
    size_t per_turn;        /* those that share a write, where writes are shared */
} FloorLoad;

typedef struct FloorCost {
    int64_t thread_ns;      /* processor time of the thread that appends */
    int64_t process_ns;     /* of all threads */
} FloorCost;

/* Each returns 0 or -errno. `fd` is a file with no bytes yet; the CRCs are part of each. */
int floor_memory(const FloorLoad *load, FloorCost *cost); /* memcpy to memory that stays warm */
int floor_pwrite(const FloorLoad *load, int fd, FloorCost *cost);
int floor_staged(const FloorLoad *load, int fd, FloorCost *cost); /* one pwrite per turn */
int floor_mapped(const FloorLoad *load, int fd, FloorCost *cost); /* pages populated by a thread */

#endif

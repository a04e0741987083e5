/* Lower bounds of an append: the CRC of a batch, and a copy of its bytes to the target. */
#ifndef BENCHMARK_STORAGE_FLOORS_H
#define BENCHMARK_STORAGE_FLOORS_H

#include <stddef.h>
#include <stdint.h>

typedef struct FloorLoad {
    const uint8_t *batches; /* `distinct` batches of `size` bytes, used in turn */
    size_t size;
    size_t distinct;
    size_t count;           /* number of appended batches */
    size_t per_turn;        /* batches in one write, for floor_staged */
} FloorLoad;

typedef struct FloorCost {
    int64_t thread_ns;      /* processor time of the thread that appends */
    int64_t process_ns;     /* of all threads */
} FloorCost;

/* Each returns 0 or -errno. `fd` is an empty file; each includes the CRCs. */
int floor_memory(const FloorLoad *load, FloorCost *cost); /* memcpy to cached memory */
int floor_pwrite(const FloorLoad *load, int fd, FloorCost *cost);
int floor_staged(const FloorLoad *load, int fd, FloorCost *cost); /* one pwrite per turn */
int floor_mapped(const FloorLoad *load, int fd, FloorCost *cost); /* pages populated by a thread */

#endif

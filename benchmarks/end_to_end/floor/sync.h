/* The floor program: a loop of durable writes. */
#ifndef BENCHMARK_FLOOR_SYNC_H
#define BENCHMARK_FLOOR_SYNC_H

#include <stddef.h>

int sync_loop(const char *folder, size_t write_bytes, double seconds);

#endif

/* The mapped floor: one thread populates the pages of the next few MiB (MADV_POPULATE_WRITE), the
 * other writes to populated pages. It waits when it catches up, because waiting takes no processor
 * time and a page fault does. */
#include "floors.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kernel/crc32c_hardware.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    WARM_BYTES = 256 << 10,     /* fits into a core's cache */
    POPULATED_BYTES = 256 << 10, /* per call of madvise */
    AHEAD_BYTES = 4 << 20,      /* populated ahead of the writer */
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void cost_begin(FloorCost *cost)
{
    cost->process_ns = -clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    cost->thread_ns = -clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void cost_end(FloorCost *cost)
{
    cost->thread_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID);
    cost->process_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static volatile uint32_t checked; /* so that the CRCs are not optimized away */

static const uint8_t *batch_checked(const FloorLoad *load, size_t place)
{
    const uint8_t *batch = load->batches + place % load->distinct * load->size;
    checked = crc32c_extend(0, batch, load->size);
    return batch;
}

static int write_whole(int fd, const uint8_t *bytes, size_t size, size_t position)
{
    ssize_t written = pwrite(fd, bytes, size, (off_t)position);
    if (written < 0)
        return -errno;
    return (size_t)written == size ? 0 : -EIO;
}

static int reserve(const FloorLoad *load, int fd)
{
    return fallocate(fd, 0, 0, (off_t)(load->count * load->size)) < 0 ? -errno : 0;
}

int floor_memory(const FloorLoad *load, FloorCost *cost)
{
    uint8_t *warm = calloc(1, WARM_BYTES);
    size_t position = 0;
    if (!warm)
        return -ENOMEM;
    cost_begin(cost);
    for (size_t i = 0; i < load->count; i++) {
        if (position + load->size > WARM_BYTES)
            position = 0;
        memcpy(warm + position, batch_checked(load, i), load->size);
        position += load->size;
    }
    cost_end(cost);
    free(warm);
    return 0;
}

int floor_pwrite(const FloorLoad *load, int fd, FloorCost *cost)
{
    int result = reserve(load, fd);
    cost_begin(cost);
    for (size_t i = 0; i < load->count && result == 0; i++)
        result = write_whole(fd, batch_checked(load, i), load->size, i * load->size);
    cost_end(cost);
    return result;
}

int floor_staged(const FloorLoad *load, int fd, FloorCost *cost)
{
    size_t staged = 0, written = 0;
    uint8_t *buffer = malloc(load->per_turn * load->size);
    if (!buffer)
        return -ENOMEM;
    int result = reserve(load, fd);
    cost_begin(cost);
    for (size_t i = 0; i < load->count && result == 0; i++) {
        memcpy(buffer + staged, batch_checked(load, i), load->size);
        staged += load->size;
        if ((i + 1) % load->per_turn == 0 || i + 1 == load->count) {
            result = write_whole(fd, buffer, staged, written);
            written += staged;
            staged = 0;
        }
    }
    cost_end(cost);
    free(buffer);
    return result;
}

/* ---- the mapping ---------------------------------------------------------------------------- */

struct tail {
    uint8_t *bytes;
    size_t size;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    size_t populated;
    size_t written;
    bool is_over;
    int result;
};

static void *populate(void *argument)
{
    struct tail *tail = argument;
    pthread_mutex_lock(&tail->lock);
    while (tail->populated < tail->size && tail->result == 0 && !tail->is_over) {
        if (tail->populated - tail->written >= AHEAD_BYTES) {
            pthread_cond_wait(&tail->changed, &tail->lock);
            continue;
        }
        uint8_t *next = tail->bytes + tail->populated;
        size_t left = tail->size - tail->populated;
        size_t size = left < POPULATED_BYTES ? left : POPULATED_BYTES;
        pthread_mutex_unlock(&tail->lock);
        int result = madvise(next, size, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
        pthread_mutex_lock(&tail->lock);
        tail->populated += size;
        tail->result = result;
        pthread_cond_signal(&tail->changed);
    }
    pthread_mutex_unlock(&tail->lock);
    return NULL;
}

/* Reports the writer's position, and waits until pages are populated up to `end`; returns up to
 * where they are populated. */
static size_t wait_for_pages(struct tail *tail, size_t written, size_t end)
{
    pthread_mutex_lock(&tail->lock);
    tail->written = written;
    pthread_cond_signal(&tail->changed);
    while (tail->populated < end && tail->result == 0)
        pthread_cond_wait(&tail->changed, &tail->lock);
    size_t populated = tail->populated;
    pthread_mutex_unlock(&tail->lock);
    return populated;
}

static void store(const FloorLoad *load, struct tail *tail)
{
    size_t position = 0, populated = 0, reported = 0;
    for (size_t i = 0; i < load->count && tail->result == 0; i++) {
        size_t end = position + load->size;
        if (end > populated || position - reported >= POPULATED_BYTES) {
            populated = wait_for_pages(tail, position, end);
            reported = position;
        }
        memcpy(tail->bytes + position, batch_checked(load, i), load->size);
        position = end;
    }
}

int floor_mapped(const FloorLoad *load, int fd, FloorCost *cost)
{
    struct tail tail = {.size = load->count * load->size};
    pthread_t thread;
    int result = reserve(load, fd);
    if (result < 0)
        return result;
    tail.bytes = mmap(NULL, tail.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (tail.bytes == MAP_FAILED)
        return -errno;
    pthread_mutex_init(&tail.lock, NULL);
    pthread_cond_init(&tail.changed, NULL);
    cost_begin(cost);
    result = -pthread_create(&thread, NULL, populate, &tail);
    if (result == 0) {
        store(load, &tail);
        pthread_mutex_lock(&tail.lock);
        tail.is_over = true;
        pthread_cond_signal(&tail.changed);
        pthread_mutex_unlock(&tail.lock);
        pthread_join(thread, NULL);
        result = tail.result;
    }
    cost_end(cost);
    munmap(tail.bytes, tail.size);
    pthread_cond_destroy(&tail.changed);
    pthread_mutex_destroy(&tail.lock);
    return result;
}

/* Utilities of both programs: errors, clocks, memory, a latency histogram. */
#ifndef BENCHMARK_TOOLS_H
#define BENCHMARK_TOOLS_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(2);
}

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Returns zeroed memory for count items; exits if there is none. */
static inline void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size);
    if (memory == NULL)
        die("no memory for %zu x %zu bytes", count, size);
    return memory;
}

/* Counts of values in buckets that are 1/128 of their value wide: an error below 1 %, no limit. */
enum { HISTOGRAM_STEPS = 128, HISTOGRAM_BUCKETS = 58 * HISTOGRAM_STEPS };

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total;
    int64_t max;
};

static inline void histogram_add(struct histogram *histogram, int64_t value)
{
    uint64_t positive = value > 0 ? (uint64_t)value : 0;
    int shift = positive < HISTOGRAM_STEPS ? 0 : 56 - __builtin_clzll(positive);
    size_t bucket = positive < HISTOGRAM_STEPS
        ? (size_t)positive
        : (size_t)shift * HISTOGRAM_STEPS + (size_t)(positive >> shift);
    histogram->counts[bucket]++;
    histogram->total++;
    if (value > histogram->max)
        histogram->max = value;
}

/* Returns the quantile: the value that a given share of all values does not exceed. */
static inline int64_t histogram_quantile(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->total), seen = 0;
    for (size_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->counts[bucket];
        if (seen <= wanted)
            continue;
        if (bucket < 2 * HISTOGRAM_STEPS)
            return (int64_t)bucket;
        size_t shift = bucket / HISTOGRAM_STEPS - 1;
        return (int64_t)((bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS) << shift);
    }
    return histogram->max;
}

/* Prints a histogram of nanoseconds as members of a JSON object, in microseconds. */
static inline void histogram_print(const char *name, const struct histogram *histogram)
{
    static const struct { const char *name; double share; } shares[] = {
        {"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999},
    };
    printf(", \"%s_us\": {\"count\": %llu", name, (unsigned long long)histogram->total);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        printf(", \"%s\": %.1f", shares[i].name,
               (double)histogram_quantile(histogram, shares[i].share) / 1e3);
    printf(", \"max\": %.1f}", (double)histogram->max / 1e3);
}

#endif

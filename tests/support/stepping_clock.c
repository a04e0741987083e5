/* A wall clock that steps: loaded before libc, it adds to CLOCK_REALTIME the nanoseconds (an int64)
   in the file that POLYLOG_TEST_CLOCK names. The file is mapped, so a step is one store. Every other
   clock is as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step_ns;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("POLYLOG_TEST_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file < 0)
        return;
    void *place = mmap(NULL, sizeof *step_ns, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (place != MAP_FAILED)
        step_ns = place;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real_clock_gettime)
        begin();
    int failed = real_clock_gettime(clock, now);
    if (failed == 0 && clock == CLOCK_REALTIME && step_ns) {
        int64_t ns = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *step_ns;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *place)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (place)
        *place = precise.tv_sec;
    return precise.tv_sec;
}

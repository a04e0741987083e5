/* A loop of write and fdatasync: the maximum rate of durable writes of one record at a time. */
#include <fcntl.h>
#include <unistd.h>

#include "floor/sync.h"
#include "wire/tools.h"

enum { ALLOCATE_BYTES = 16 << 20, PATH_BYTES_MAX = 4096 };

int sync_loop(const char *folder, size_t write_bytes, double seconds)
{
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/sync-loop.log", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || fallocate(fd, 0, 0, ALLOCATE_BYTES) < 0 || fsync(fd) < 0)
        die("%s: %s", path, strerror(errno));
    unlink(path);
    struct histogram *latency = allocate(1, sizeof *latency);
    uint8_t *bytes = allocate(write_bytes, 1);
    int64_t start_ns = now_ns(), end_ns = start_ns + (int64_t)(seconds * 1e9), now = start_ns;
    int64_t position = 0;
    while (now < end_ns) {
        int64_t before = now;
        if (pwrite(fd, bytes, write_bytes, position) < 0 || fdatasync(fd) < 0)
            die("%s: %s", path, strerror(errno));
        position = (position + (int64_t)write_bytes) % (ALLOCATE_BYTES - (int64_t)write_bytes);
        now = now_ns();
        histogram_add(latency, now - before);
    }
    printf("{\"command\": \"sync-loop\", \"requests\": %llu, \"seconds\": %.6f"
           ", \"generator_cpu_s\": %.6f",
           (unsigned long long)latency->total, (double)(now - start_ns) / 1e9,
           (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9);
    histogram_print("acknowledged", latency);
    printf("}\n");
    return 0;
}

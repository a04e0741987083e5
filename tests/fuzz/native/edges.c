/* Which edges of a compiled module were taken, told to libFuzzer and to a file.
 *
 * Linked into every module of a build with BROKER_FUZZ. gcc cannot keep libFuzzer's inline counters,
 * but with -fsanitize-coverage=trace-pc it calls __sanitizer_cov_trace_pc at the head of every basic
 * block. The calls are found in the machine code when the module is loaded, so that their number is
 * known and none shares a counter with another:
 *
 *     counter_of[place]   the number of the call that returns there, 0 for none
 *     counters[number]    how often in this input; libFuzzer reads and clears them
 *     taken[number]       1 once it was; a file under $BROKER_FUZZ_EDGES that a crash leaves behind,
 *                         one byte per edge, so that several runs can be counted together
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum { CALL = 0xe8, CALL_SIZE = 5 }; /* x86-64: opcode, then an int32 relative to what follows */

/* This module, from its first byte to the end of its code; the linker knows them. */
extern const uint8_t __ehdr_start[] HIDDEN;
extern const uint8_t etext[] HIDDEN;

/* libFuzzer's, when it is there (see forward.c). */
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *end) __attribute__((weak));
void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *end) __attribute__((weak));

void __sanitizer_cov_trace_pc(void) HIDDEN;

static uint32_t *counter_of;
static uint8_t *counters;
static uint8_t *taken;
static size_t code_size;

void __sanitizer_cov_trace_pc(void)
{
    size_t place = (size_t)((const uint8_t *)__builtin_return_address(0) - __ehdr_start);
    if (place < code_size && counter_of) {
        uint32_t number = counter_of[place];
        counters[number]++;
        taken[number] = 1;
    }
}

static void *need(void *memory)
{
    if (!memory || memory == MAP_FAILED) {
        perror("fuzz: edges");
        abort();
    }
    return memory;
}

/* Number the calls from 1 on; the number 0 takes those that were not found, which is none. */
static uint32_t find_calls(void)
{
    uint32_t count = 0;
    for (size_t place = 0; place + CALL_SIZE <= code_size; place++) {
        int32_t distance;
        if (__ehdr_start[place] != CALL)
            continue;
        memcpy(&distance, __ehdr_start + place + 1, sizeof distance);
        uintptr_t after = (uintptr_t)__ehdr_start + place + CALL_SIZE;
        if (after + (uintptr_t)(intptr_t)distance == (uintptr_t)__sanitizer_cov_trace_pc)
            counter_of[place + CALL_SIZE] = ++count;
    }
    return count;
}

/* Memory that outlives the process, in a file named as the module is in its package. */
static uint8_t *taken_file(size_t size)
{
    const char *folder = getenv("BROKER_FUZZ_EDGES");
    char path[4096];
    Dl_info module;
    if (!folder || !dladdr(__ehdr_start, &module))
        return need(calloc(size, 1));
    const char *name = strstr(module.dli_fname, "/_native/");
    name = name ? name + strlen("/_native/") : "module";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/'));)
        *slash = '.';
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)size)) {
        perror(path);
        abort();
    }
    uint8_t *memory = need(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    return memory;
}

__attribute__((constructor)) static void start(void)
{
    code_size = (size_t)(etext - __ehdr_start);
    counter_of = need(calloc(code_size + 1, sizeof *counter_of));
    size_t count = find_calls() + 1u;
    uintptr_t *places = need(calloc(2 * count, sizeof *places)); /* (address, flags) each */
    for (size_t place = 0; place < code_size; place++)
        if (counter_of[place])
            places[2 * counter_of[place]] = (uintptr_t)__ehdr_start + place;
    counters = need(calloc(count, 1));
    taken = taken_file(count);
    if (__sanitizer_cov_8bit_counters_init && __sanitizer_cov_pcs_init) {
        __sanitizer_cov_8bit_counters_init(counters, counters + count);
        __sanitizer_cov_pcs_init(places, places + 2 * count);
    }
}

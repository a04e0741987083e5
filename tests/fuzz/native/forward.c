/* What compiled code and atheris tell a fuzzer, passed on to libFuzzer.
 *
 * The sanitizer's library has empty functions of these names, and must come before everything else
 * in a process; libFuzzer comes late, inside of a Python module that nobody else can see into. So this
 * library is loaded before both and passes the calls on. Compare functions are jumped to, not called:
 * libFuzzer looks at the return address to know what compares.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

/* The functions of the module under $BROKER_FUZZ_LIBFUZZER, once it is loaded. */
static void *find(const char *name)
{
    static void *libfuzzer;
    const char *path = getenv("BROKER_FUZZ_LIBFUZZER");
    if (!libfuzzer && path)
        libfuzzer = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    return libfuzzer ? dlsym(libfuzzer, name) : NULL;
}

#define PASS_ON(NAME, PARAMETERS, ARGUMENTS)                    \
    void NAME PARAMETERS;                                       \
    static void drop_##NAME PARAMETERS {}                       \
    static void (*pass_##NAME) PARAMETERS = drop_##NAME;        \
    void NAME PARAMETERS { pass_##NAME ARGUMENTS; }             \
    static void find_##NAME(void)                               \
    {                                                           \
        void *found = find(#NAME);                              \
        if (found)                                              \
            pass_##NAME = (void(*) PARAMETERS)(uintptr_t)found; \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
PASS_ON(__sanitizer_cov_trace_cmp1, (uint8_t a, uint8_t b), (a, b))
PASS_ON(__sanitizer_cov_trace_cmp2, (uint16_t a, uint16_t b), (a, b))
PASS_ON(__sanitizer_cov_trace_cmp4, (uint32_t a, uint32_t b), (a, b))
PASS_ON(__sanitizer_cov_trace_cmp8, (uint64_t a, uint64_t b), (a, b))
PASS_ON(__sanitizer_cov_trace_const_cmp1, (uint8_t a, uint8_t b), (a, b))
PASS_ON(__sanitizer_cov_trace_const_cmp2, (uint16_t a, uint16_t b), (a, b))
PASS_ON(__sanitizer_cov_trace_const_cmp4, (uint32_t a, uint32_t b), (a, b))
PASS_ON(__sanitizer_cov_trace_const_cmp8, (uint64_t a, uint64_t b), (a, b))
PASS_ON(__sanitizer_cov_trace_switch, (uint64_t value, uint64_t *cases), (value, cases))

void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *end);
void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *end);
/* Floating point has no place in libFuzzer's table. */
void __sanitizer_cov_trace_cmpf(float a, float b);
void __sanitizer_cov_trace_cmpd(double a, double b);
void __sanitizer_cov_trace_cmpf(float a, float b) {}
void __sanitizer_cov_trace_cmpd(double a, double b) {}

/* Each module that counts comes by here first, so the others can be found now. */
void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *end)
{
    void *found = find("__sanitizer_cov_8bit_counters_init");
    if (!found)
        return;
    find___sanitizer_cov_trace_cmp1();
    find___sanitizer_cov_trace_cmp2();
    find___sanitizer_cov_trace_cmp4();
    find___sanitizer_cov_trace_cmp8();
    find___sanitizer_cov_trace_const_cmp1();
    find___sanitizer_cov_trace_const_cmp2();
    find___sanitizer_cov_trace_const_cmp4();
    find___sanitizer_cov_trace_const_cmp8();
    find___sanitizer_cov_trace_switch();
    ((void (*)(uint8_t *, uint8_t *))(uintptr_t)found)(start, end);
}

void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *end)
{
    void *found = find("__sanitizer_cov_pcs_init");
    if (found)
        ((void (*)(const uintptr_t *, const uintptr_t *))(uintptr_t)found)(start, end);
}

/* CRC-32C at the speed of the processor's own instruction, or faster.
 *
 * One crc32 instruction has a latency of three cycles and a throughput of one, so three
 * independent chains run over three neighbouring blocks and are joined afterwards: a CRC moves over
 * the blocks behind its own by one carry-less multiplication and one more crc32 instruction. That
 * instruction, fed with eight bytes, multiplies by x^32, and the product has a factor of x too many
 * (crc_folding.h); the constant for n words of eight bytes is therefore x^(64n-33).
 *
 * Multiplying and crc32 instructions use different units. Where two products come at a time, a
 * fourth block is folded by them while the three chains run.
 */
#include "crc32c_hardware.h"

#if defined(__x86_64__)
#include "crc_folding.h"
#define HAS_INSTRUCTION 1
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HAS_INSTRUCTION 1
#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0x82F63B78u

static uint32_t table[CRC_SLICES][256];
static struct crc_implementation runnable[4];
static crc_function *extend;

static uint32_t extend_table(uint32_t crc, const uint8_t *bytes, size_t size)
{
    return ~crc_by_table(table, ~crc, bytes, size);
}

#if defined(HAS_INSTRUCTION)

#if defined(__x86_64__)
#define HARDWARE __attribute__((target("sse4.2,pclmul")))
#define STEP8(state, word) ((uint32_t)_mm_crc32_u64((state), (word)))
#define STEP4(state, word) _mm_crc32_u32((state), (word))
#define STEP2(state, word) _mm_crc32_u16((state), (word))
#define STEP1(state, byte) _mm_crc32_u8((state), (byte))
#define NAME "sse4.2"
#else
#define HARDWARE __attribute__((target("+crc+crypto")))
#define STEP8(state, word) __crc32cd((state), (word))
#define STEP4(state, word) __crc32cw((state), (word))
#define STEP2(state, word) __crc32ch((state), (word))
#define STEP1(state, byte) __crc32cb((state), (byte))
#define NAME "armv8"
#endif

enum {
    CHAINS_MIN = 96,     /* bytes from which on three chains and their joining beat one */
    BLOCK_MAX = 8192,    /* bytes of one chain before it is joined */
    JOIN_WORDS = 2 * BLOCK_MAX / 8,
};

static uint32_t join_key[JOIN_WORDS + 1]; /* by the number of words to move over */

HARDWARE static inline uint64_t multiply(uint32_t left, uint32_t right)
{
#if defined(__x86_64__)
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)left),
                                           _mm_cvtsi32_si128((int)right), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
#else
    return (uint64_t)vmull_p64(left, right);
#endif
}

/* A state on its way over so many bytes, a multiple of eight; STEP8(0, sum of such) completes it. */
HARDWARE static inline uint64_t moved(uint32_t state, size_t bytes)
{
    return multiply(state, join_key[bytes / 8]);
}

/* One step of each of three chains over neighbouring blocks. */
HARDWARE static inline void step_three(uint32_t chain[3], const uint8_t *bytes, size_t block)
{
    chain[0] = STEP8(chain[0], load64_little(bytes));
    chain[1] = STEP8(chain[1], load64_little(bytes + block));
    chain[2] = STEP8(chain[2], load64_little(bytes + 2 * block));
}

HARDWARE static inline uint32_t one_chain(uint32_t state, const uint8_t *bytes, size_t size)
{
    for (; size >= 8; size -= 8, bytes += 8)
        state = STEP8(state, load64_little(bytes));
    if (size & 4) {
        uint32_t word;
        memcpy(&word, bytes, sizeof word);
        state = STEP4(state, word);
        bytes += 4;
    }
    if (size & 2) {
        uint16_t word;
        memcpy(&word, bytes, sizeof word);
        state = STEP2(state, word);
        bytes += 2;
    }
    return size & 1 ? STEP1(state, *bytes) : state;
}

HARDWARE static uint32_t three_chains(uint32_t state, const uint8_t *bytes, size_t size)
{
    while (size >= CHAINS_MIN) {
        const size_t block = size < 3 * BLOCK_MAX ? size / 24 * 8 : BLOCK_MAX;
        uint32_t chain[3] = {state, 0, 0};
        for (size_t position = 0; position < block; position += 8)
            step_three(chain, bytes + position, block);
        state = STEP8(0, moved(chain[0], 2 * block) ^ moved(chain[1], block)) ^ chain[2];
        bytes += 3 * block;
        size -= 3 * block;
    }
    return one_chain(state, bytes, size);
}

HARDWARE static uint32_t extend_chains(uint32_t crc, const uint8_t *bytes, size_t size)
{
    return ~three_chains(~crc, bytes, size);
}

static int has_chains(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
#else
    const unsigned long wanted = (1ul << 4) | (1ul << 7); /* HWCAP_PMULL, HWCAP_CRC32 */
    return (getauxval(AT_HWCAP) & wanted) == wanted;
#endif
}

static void fill_join_keys(void)
{
    static const uint8_t word[8];
    join_key[1] = crc_power(64 - 33, POLYNOMIAL); /* no key for 0 words: a block is never empty */
    for (int words = 2; words <= JOIN_WORDS; words++)
        join_key[words] = crc_by_table(table, join_key[words - 1], word, sizeof word);
}

#endif

#if defined(__x86_64__)

#define FUSED __attribute__((target("avx2,sse4.2,pclmul,vpclmulqdq")))

enum {
    FOLDED = 128,         /* bytes folded in one round */
    CHAIN_WORDS = 6,      /* of eight bytes each chain takes meanwhile: what keeps both units busy */
    CHAINED = 8 * CHAIN_WORDS,
    ROUND = FOLDED + 3 * CHAINED,
    ROUNDS_MIN = 3,       /* below, joining costs more than folding gains */
    ROUNDS_MAX = JOIN_WORDS / (3 * CHAIN_WORDS),
};

static struct crc_fold_key key_16, key_32, key_128;

/* The state after so many rounds: the folded block stands first, the chains' blocks behind it. */
FUSED static inline uint32_t fused(uint32_t state, const uint8_t *bytes, size_t rounds)
{
    const size_t block = rounds * CHAINED;
    const uint8_t *chained = bytes + rounds * FOLDED;
    const __m256i far = _mm256_broadcastsi128_si256(crc_load_key(&key_128));
    const __m256i near = _mm256_broadcastsi128_si256(crc_load_key(&key_32));
    uint32_t chain[3] = {0, 0, 0};
    __m256i a = crc_load_wide(bytes), b = crc_load_wide(bytes + 32);
    __m256i c = crc_load_wide(bytes + 64), d = crc_load_wide(bytes + 96);
    a = _mm256_xor_si256(a, _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)state)));
    for (;;) {
        for (int word = 0; word < CHAIN_WORDS; word++)
            step_three(chain, chained + 8 * word, block);
        if (--rounds == 0)
            break;
        chained += CHAINED;
        bytes += FOLDED;
        a = crc_fold_wide(a, far, crc_load_wide(bytes));
        b = crc_fold_wide(b, far, crc_load_wide(bytes + 32));
        c = crc_fold_wide(c, far, crc_load_wide(bytes + 64));
        d = crc_fold_wide(d, far, crc_load_wide(bytes + 96));
    }
    d = crc_fold_wide(crc_fold_wide(crc_fold_wide(a, near, b), near, c), near, d);
    __m128i folded = crc_fold(_mm256_castsi256_si128(d), crc_load_key(&key_16),
                              _mm256_extracti128_si256(d, 1));
    state = STEP8(0, (uint64_t)_mm_cvtsi128_si64(folded));
    state = STEP8(state, (uint64_t)_mm_extract_epi64(folded, 1));
    return STEP8(0, moved(state, 3 * block) ^ moved(chain[0], 2 * block) ^ moved(chain[1], block))
         ^ chain[2];
}

FUSED static uint32_t extend_fused(uint32_t crc, const uint8_t *bytes, size_t size)
{
    if (size < ROUNDS_MIN * ROUND)
        return extend_chains(crc, bytes, size);
    uint32_t state = ~crc;
    while (size >= ROUNDS_MIN * ROUND) {
        const size_t rounds = size < ROUNDS_MAX * ROUND ? size / ROUND : ROUNDS_MAX;
        state = fused(state, bytes, rounds);
        bytes += rounds * ROUND;
        size -= rounds * ROUND;
    }
    _mm256_zeroupper(); /* gcc does not in a function with a target of its own; SSE code waits */
    return ~three_chains(state, bytes, size);
}

static int has_fused(void)
{
    return has_chains() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

#endif

void crc32c_init(void)
{
    struct crc_implementation *next = runnable;
    crc_fill_table(table, POLYNOMIAL);
#if defined(__x86_64__)
    key_16 = crc_fold_key(16, POLYNOMIAL);
    key_32 = crc_fold_key(32, POLYNOMIAL);
    key_128 = crc_fold_key(128, POLYNOMIAL);
    if (has_fused())
        *next++ = (struct crc_implementation){"vpclmul", extend_fused};
#endif
#if defined(HAS_INSTRUCTION)
    fill_join_keys();
    if (has_chains())
        *next++ = (struct crc_implementation){NAME, extend_chains};
#endif
    *next++ = (struct crc_implementation){"table", extend_table};
    *next = (struct crc_implementation){NULL, NULL};
    extend = runnable[0].extend;
}

uint32_t crc32c_extend(uint32_t crc, const uint8_t *bytes, size_t size)
{
    return extend(crc, bytes, size);
}

const struct crc_implementation *crc32c_implementations(void)
{
    return runnable;
}

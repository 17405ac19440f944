/* isa.c: which instructions this CPU has.
 *
 * Owns:  the feature mask, found once per process, and LEVELS, the usual names for sets of features.
 * Rules: a bit is set only when the CPU has the instructions, the operating system saves their registers (XCR0; HWCAP
 *        on ARM) and this build has code for them. INFER_CPU_LEVEL in the environment clears bits, never sets any; a
 *        name it does not know clears none.
 *        AMX needs a permission from the operating system, which is requested when a level with AMX is first needed: on
 *        Linux a process that has it can no longer set signal stacks below about 11 KiB (sigaltstack). Features are a
 *        mask, not a ladder: Skylake-X has AVX-512 without VNNI, Alder Lake AVX-VNNI without AVX-512.
 * Start: infer__cpu_levels, then infer__cpu_detect.
 * Source: Intel SDM vol. 1 chapter 14 and vol. 2 CPUID; Linux arch/arm64/include/uapi/asm/hwcap.h and
 *         Documentation/arch/x86/xstate.rst.
 */
#include "backend.h"
#include "products/amx.h"
#include <stdlib.h>
#if defined(INFER__SIMD_X86)
#  if defined(_MSC_VER) && !defined(__clang__)
#    include <intrin.h>
#  else
#    include <cpuid.h>
#  endif
#elif defined(INFER__SIMD_ARM) && defined(__linux__)
#  include <sys/auxv.h>
#endif

static const struct infer__cpu_row {
    const char *name;
    int32_t level; /* infer_cpu_level */
    uint32_t mask; /* everything up to and including the level */
} infer__cpu_levels[] = {
    {"scalar", INFER_CPU_SCALAR, 0},
    {"sse41", INFER_CPU_SSE41, INFER__CPU_SSE41},
    {"avx2", INFER_CPU_AVX2, INFER__CPU_SSE41 | INFER__CPU_AVX2},
    {"avxvnni", INFER_CPU_AVXVNNI, INFER__CPU_SSE41 | INFER__CPU_AVX2 | INFER__CPU_AVXVNNI},
    {"avx512", INFER_CPU_AVX512, INFER__CPU_SSE41 | INFER__CPU_AVX2 | INFER__CPU_AVX512},
    {"avx512vnni", INFER_CPU_AVX512VNNI,
     INFER__CPU_SSE41 | INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512VNNI},
    {"avx512bf16", INFER_CPU_AVX512BF16,
     INFER__CPU_SSE41 | INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512VNNI | INFER__CPU_AVX512BF16},
    {"amxint8", INFER_CPU_AMXINT8,
     INFER__CPU_SSE41 | INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512VNNI | INFER__CPU_AVX512BF16 |
         INFER__CPU_AMXINT8},
    {"amxbf16", INFER_CPU_AMXBF16,
     INFER__CPU_SSE41 | INFER__CPU_AVX2 | INFER__CPU_AVX512 | INFER__CPU_AVX512VNNI | INFER__CPU_AVX512BF16 |
         INFER__CPU_AMXINT8 | INFER__CPU_AMXBF16},
    {"neon", INFER_CPU_NEON, INFER__CPU_NEON},
    {"dotprod", INFER_CPU_DOTPROD, INFER__CPU_NEON | INFER__CPU_DOTPROD},
    {"i8mm", INFER_CPU_I8MM, INFER__CPU_NEON | INFER__CPU_DOTPROD | INFER__CPU_I8MM},
    {"rvv", INFER_CPU_RVV, INFER__CPU_RVV},
    {"simd128", INFER_CPU_SIMD128, INFER__CPU_SIMD128},
};

static const char *infer__cpu_level_name(int32_t level, uint32_t *need) {
    size_t i;
    for (i = 0; i < INFER__COUNT(infer__cpu_levels); i++) {
        if (infer__cpu_levels[i].level != level) continue;
        if (need) *need = infer__cpu_levels[i].mask;
        return infer__cpu_levels[i].name;
    }
    return NULL;
}

#if defined(INFER__SIMD_X86)
/* out = eax, ebx, ecx, edx of a leaf; zeros when the CPU does not have the leaf. */
static void infer__cpuid(uint32_t leaf, uint32_t sub, uint32_t out[4]) {
    memset(out, 0, 4 * sizeof *out);
#  if defined(_MSC_VER) && !defined(__clang__)
    {
        int r[4];
        __cpuidex(r, 0, 0);
        if ((uint32_t)r[0] < leaf) return;
        __cpuidex(r, (int)leaf, (int)sub);
        memcpy(out, r, sizeof r);
    }
#  else
    if ((uint32_t)__get_cpuid_max(0, NULL) < leaf) return;
    __cpuid_count(leaf, sub, out[0], out[1], out[2], out[3]);
#  endif
}

#  if defined(INFER__SIMD_AVX2)
/* Which registers the operating system saves; call only when CPUID says OSXSAVE. */
static uint32_t infer__xcr0(void) {
#    if defined(_MSC_VER) && !defined(__clang__)
    return (uint32_t)_xgetbv(0);
#    else
    uint32_t a, d;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" /* xgetbv, which old assemblers lack */ : "=a"(a), "=d"(d) : "c"(0));
    (void)d;
    return a;
#    endif
}

static int infer__bits_set(uint32_t value, uint32_t bits) { return (value & bits) == bits; }

/* AVX2 and higher levels; features: ECX of leaf 1. */
static uint32_t infer__cpu_detect_avx(uint32_t features) {
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    uint32_t seven[4], seven1[4] = {0, 0, 0, 0}, xcr0, found = 0;
    infer__cpuid(7, 0, seven);
    if (seven[0] >= 1) infer__cpuid(7, 1, seven1);
    if (!infer__bits_set(features, osxsave | avx | fma | f16c) || !(seven[1] & 1u << 5)) return found;
    xcr0 = infer__xcr0();
    if (!infer__bits_set(xcr0, 0x6)) return found; /* XMM and YMM */
    found |= INFER__CPU_AVX2;
#    if defined(INFER__HAS_AVXVNNI)
    if (seven1[0] & 1u << 4) found |= INFER__CPU_AVXVNNI;
#    endif
#    if defined(INFER__SIMD_AVX512)
    if (!infer__bits_set(xcr0, 0xe6)) return found; /* and masks, ZMM */
    if (!infer__bits_set(seven[1], 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)) return found; /* F DQ BW VL */
    found |= INFER__CPU_AVX512;
    if (seven[2] & 1u << 11) found |= INFER__CPU_AVX512VNNI;
    if (seven1[0] & 1u << 5) found |= INFER__CPU_AVX512BF16;
#      if defined(INFER__AMX_TWIN)
    found |= INFER__CPU_AMXINT8 | (found & INFER__CPU_AVX512BF16 ? INFER__CPU_AMXBF16 : 0);
#      elif defined(INFER__AMX)
    if (infer__bits_set(xcr0, 0x60000) && seven[3] & 1u << 24) { /* tiles and their configuration */
        if (seven[3] & 1u << 25) found |= INFER__CPU_AMXINT8;
        if (seven[3] & 1u << 22) found |= INFER__CPU_AMXBF16;
    }
#      endif
#    endif
    return found;
}
#  endif

static uint32_t infer__cpu_detect(void) {
    uint32_t one[4], found;
    infer__cpuid(1, 0, one);
    found = one[2] & 1u << 19 ? INFER__CPU_SSE41 : 0;
#  if defined(INFER__SIMD_AVX2)
    found |= infer__cpu_detect_avx(one[2]);
#  endif
    return found;
}

#  if defined(INFER__AMX) && !defined(INFER__AMX_TWIN)
/* Ask for permission to use tiles in this process: 1 = granted. */
static int infer__amx_ask(void) {
#    if defined(_WIN32)
    int (*enable)(uint64_t) = NULL; /* on x86-64 there is one calling convention */
    void *lib = infer__lib_open("kernel32.dll"),
         *fn = lib ? infer__lib_symbol(lib, "EnableProcessOptionalXStateFeatures") : NULL;
    int given;
    memcpy(&enable, &fn, sizeof enable);
    given = enable != NULL && enable((uint64_t)1 << 18) != 0;
    if (lib) infer__lib_close(lib);
    return given;
#    else
    long result; /* arch_prctl(ARCH_REQ_XCOMP_PERM, 18), which is no function of libc */
    __asm__ volatile("syscall" : "=a"(result) : "a"(158L), "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
    return result == 0;
#    endif
}
#  endif

#elif defined(INFER__SIMD_ARM)
/* NEON is part of the architecture. The rest: from the kernel on Linux, elsewhere the compiler's target. */
static uint32_t infer__cpu_detect(void) {
    uint32_t found = INFER__CPU_NEON;
#  if defined(__linux__)
    if (getauxval(16) & 1ul << 20) found |= INFER__CPU_DOTPROD; /* AT_HWCAP, ASIMDDP */
    if (getauxval(26) & 1ul << 13) found |= INFER__CPU_I8MM;    /* AT_HWCAP2, I8MM */
#  else
#    if defined(__ARM_FEATURE_DOTPROD)
    found |= INFER__CPU_DOTPROD;
#    endif
#    if defined(__ARM_FEATURE_MATMUL_INT8)
    found |= INFER__CPU_I8MM;
#    endif
#  endif
    return found;
}

#elif defined(INFER__SIMD_RVV)
/* The compiler uses them everywhere, so the CPU has them; vectors of fewer than 128 bits are not used. */
static uint32_t infer__cpu_detect(void) { return __riscv_v_min_vlen >= 128 ? INFER__CPU_RVV : 0; }
#elif defined(INFER__SIMD_WASM)
static uint32_t infer__cpu_detect(void) { return INFER__CPU_SIMD128; }
#else
static uint32_t infer__cpu_detect(void) { return 0; }
#endif

static infer__once infer__cpu_once;
static uint32_t infer__cpu_bits; /* written under infer__cpu_once only */

static void infer__cpu_init(void) {
    uint32_t found = infer__cpu_detect();
#if !defined(INFER_NO_SIMD) /* else there is only one level, and perhaps no environment */
    const char *name = getenv("INFER_CPU_LEVEL");
    size_t i;
    for (i = 0; name && i < INFER__COUNT(infer__cpu_levels); i++)
        if (strcmp(name, infer__cpu_levels[i].name) == 0) found &= infer__cpu_levels[i].mask;
#endif
    infer__cpu_bits = found;
}

static infer__once infer__amx_once;
static uint32_t infer__amx_bits; /* written under infer__amx_once only: what the operating system permits */

static void infer__amx_init(void) {
#if defined(INFER__AMX_TWIN)
    infer__amx_bits = INFER__CPU_AMX;
#elif defined(INFER__AMX)
    if (infer__cpu_bits & INFER__CPU_AMX && infer__amx_ask()) infer__amx_bits = INFER__CPU_AMX;
#endif
}

static uint32_t infer__cpu_allowed(uint32_t allowed) {
    infer__call_once(&infer__cpu_once, infer__cpu_init);
    if (!(allowed & INFER__CPU_AMX)) return infer__cpu_bits & allowed;
    infer__call_once(&infer__amx_once, infer__amx_init);
    return infer__cpu_bits & allowed & (infer__amx_bits | ~(uint32_t)INFER__CPU_AMX);
}

static uint32_t infer__cpu_found(void) { return infer__cpu_allowed(UINT32_MAX); }

static uint32_t infer__cpu_mask(int32_t level) {
    uint32_t allowed = UINT32_MAX;
    infer__cpu_level_name(level, &allowed);
    return infer__cpu_allowed(allowed);
}

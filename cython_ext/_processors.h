/* Compiles KERNEL, a header, once for each kind of processor. The program chooses one when
   it runs: `CHOSEN(name)` is the function `name` of the fastest that this processor has.

   A kernel names its functions and types NAME(...), and computes with vectors of LANES
   numbers (_lanes.h). */

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors as arguments, always inlined */

#define INLINE static inline __attribute__((always_inline))
#define ALL(number) ((lanes){} + (number))

/* x where the mask is -1, 0 where it is 0 */
#define WHERE(mask, x) ((lanes)((mask) & (whole_lanes)(x)))

/* Numbers of two vectors, at the places that follow. */
#ifdef __clang__
#define MIX(kind, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(kind, a, b, ...) __builtin_shuffle(a, b, (kind){__VA_ARGS__})
#endif

/* Eight numbers on any processor. */
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t whole_eight __attribute__((vector_size(32)));

/* The next number, for whichever thread asks. */
static ptrdiff_t next_number(ptrdiff_t *counter) {
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#define PASTED(name, suffix) name##_##suffix
#define PASTE(name, suffix) PASTED(name, suffix)
#define NAME(name) PASTE(name, SUFFIX)

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && defined(__x86_64__) && \
    defined(__linux__)
#include <immintrin.h>
#define SUFFIX avx512
#define LANES 16
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#include KERNEL
#pragma GCC pop_options
#undef SUFFIX
#undef LANES
#define SUFFIX avx2
#define LANES 8
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#include KERNEL
#pragma GCC pop_options
#undef SUFFIX
#undef LANES
#define CHOSEN(name)                                                  \
    (__builtin_cpu_supports("x86-64-v4")   ? PASTED(name, avx512)     \
     : __builtin_cpu_supports("x86-64-v3") ? PASTED(name, avx2)       \
                                           : PASTED(name, any))
#else
#define CHOSEN(name) PASTED(name, any)
#endif
#define SUFFIX any
#define LANES 4
#include KERNEL
#undef SUFFIX
#undef LANES

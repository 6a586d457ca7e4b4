/* Eight numbers at a time. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8 /* numbers of a vector */

#if defined(__GNUC__) /* and clang; others have no vector types */
#define HAS_VECTORS 1

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors as arguments, always inlined */

typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t whole_lanes __attribute__((vector_size(32), aligned(4)));
typedef uint32_t bit_lanes __attribute__((vector_size(32), aligned(4)));

/* GCC also makes a version for processors with AVX2 and FMA, and the program chooses one
   when it starts. */
#if !defined(__clang__) && __GNUC__ >= 12 && defined(__x86_64__) && defined(__linux__)
#define CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

#define ALL(number) ((lanes){} + (number))

/* x where the mask is -1, 0 where it is 0 */
#define WHERE(mask, x) ((lanes)((mask) & (whole_lanes)(x)))

INLINE lanes larger(lanes one, lanes other) { /* NaN in `other` stays */
    whole_lanes mask = other < one;
    return (lanes)((whole_lanes)WHERE(mask, one) | (whole_lanes)WHERE(~mask, other));
}

/* exp(x) for x <= 0, relative error below 2e-7; 0 below -87; NaN stays NaN. */
INLINE lanes exp_of_negative(lanes x) {
    whole_lanes tiny = x < -87.0f;
    whole_lanes n;
    lanes whole, rest, power;
    x = larger(ALL(-87.0f), x);
    n = __builtin_convertvector(x * 1.44269504f - 0.5f, whole_lanes); /* nearest */
    whole = __builtin_convertvector(n, lanes);
    rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    power = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    power = power * rest + 8.3334519073e-3f;
    power = power * rest + 4.1665795894e-2f;
    power = power * rest + 1.6666665459e-1f;
    power = power * rest + 5.0000001201e-1f;
    power = power * rest * rest + rest + 1.0f;
    return WHERE(~tiny, power * (lanes)((n + 127) << 23));
}

/* sum over c of x[c] * y[c] */
INLINE lanes product(const lanes *x, const lanes *y, ptrdiff_t d) {
    lanes sum = {0};
    for (ptrdiff_t c = 0; c < d; c++) sum += x[c] * y[c];
    return sum;
}

/* sum[c] += factor * x[c] */
INLINE void add(lanes *sum, lanes factor, const lanes *x, ptrdiff_t d) {
    for (ptrdiff_t c = 0; c < d; c++) sum[c] += factor * x[c];
}

/* The next number, for whichever thread asks. */
static ptrdiff_t next_number(ptrdiff_t *counter) {
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}
#else /* nothing of this is called */
#define HAS_VECTORS 0
typedef struct {
    float head[LANES];
} lanes;
#define next_number(counter) 0
#endif

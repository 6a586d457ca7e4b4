/* Eight numbers at a time, one per attention head. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8 /* of a vector: heads that are computed together */

#if defined(__GNUC__) /* and clang; others have no vector types */
#define HAS_VECTORS 1

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors as arguments, always inlined */

typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t whole_lanes __attribute__((vector_size(32), aligned(4)));
typedef uint32_t bit_lanes __attribute__((vector_size(32), aligned(4)));

/* A sequence of random numbers per lane; see `random_bits`. */
typedef struct {
    bit_lanes start, step;
} streams;

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

INLINE uint64_t mixed64(uint64_t x) { /* SplitMix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Streams first .. first + 7 of a seed. */
static streams streams_of(uint64_t seed, uint64_t first) {
    streams result;
    for (int h = 0; h < LANES; h++) {
        uint64_t key = mixed64(seed + (first + h + 1) * 0x9e3779b97f4a7c15u);
        result.start[h] = (uint32_t)key;
        result.step[h] = (uint32_t)(key >> 32) | 1;
    }
    return result;
}

/* 32 bits of each stream: start + number * step, mixed. They depend on nothing that was
   drawn before, so that a backward pass draws those of its forward pass again, and
   threads do not matter. */
INLINE bit_lanes random_bits(const streams *streams, uint32_t number) {
    bit_lanes x = streams->start + number * streams->step;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* from[0], from[stride], .. from[7 * stride] */
INLINE lanes every(const float *from, ptrdiff_t stride) {
    const float *middle = from + 4 * stride;
    return (lanes){
        from[0], from[stride], from[2 * stride], from[3 * stride],
        middle[0], middle[stride], middle[2 * stride], middle[3 * stride],
    };
}

/* Rows of each head -> [rows, d] lanes, with zeros for missing heads. */
CLONES static void to_lanes(
    const float *source, ptrdiff_t head_stride, ptrdiff_t row_stride, ptrdiff_t rows,
    ptrdiff_t d, ptrdiff_t heads, float scale, lanes *target
) {
    for (ptrdiff_t row = 0; row < rows; row++, source += row_stride)
        for (ptrdiff_t c = 0; c < d; c++, target++) {
            if (heads == LANES) {
                *target = scale * every(source + c, head_stride);
                continue;
            }
            *target = ALL(0);
            for (ptrdiff_t h = 0; h < heads; h++)
                (*target)[h] = scale * source[h * head_stride + c];
        }
}

/* The inverse of `to_lanes`. */
CLONES static void from_lanes(
    const lanes *source, ptrdiff_t head_stride, ptrdiff_t row_stride, ptrdiff_t rows,
    ptrdiff_t d, ptrdiff_t heads, float scale, float *target
) {
    for (ptrdiff_t row = 0; row < rows; row++, source += d)
        for (ptrdiff_t h = 0; h < heads; h++) {
            const float *from = (const float *)source + h;
            float *to = target + row * row_stride + h * head_stride;
            ptrdiff_t c = 0;
            for (; c + LANES <= d; c += LANES)
                *(lanes *)(to + c) = scale * every(from + c * LANES, LANES);
            for (; c < d; c++) to[c] = scale * from[c * LANES];
        }
}
#else /* nothing of this is called */
#define HAS_VECTORS 0
typedef struct {
    float head[LANES];
} lanes;
typedef struct {
    uint32_t start, step;
} streams;
#define streams_of(seed, first) ((streams){0, 0})
#define to_lanes(...)
#define from_lanes(...)
#endif

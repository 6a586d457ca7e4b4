/* Attention with relations of one graph, for eight heads at a time; _attention.pyx calls
   it, and attention.py documents it.

   Heads are the last axis of every array, so that a pair's look-up of its relation is one
   read of eight neighbouring numbers, one per head. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8

#if defined(__GNUC__) /* and clang; others have no vector types */
#define HAS_VECTORS 1

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors as arguments, always inlined */

typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t whole_lanes __attribute__((vector_size(32)));

/* GCC also makes a version for processors with AVX2 and FMA, and the program chooses one
   when it starts. */
#if !defined(__clang__) && __GNUC__ >= 12 && defined(__x86_64__) && defined(__linux__)
#define CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE lanes larger(lanes one, lanes other) { /* NaN in `other` stays */
    whole_lanes mask = other < one;
    return (lanes)((mask & (whole_lanes)one) | (~mask & (whole_lanes)other));
}

/* exp(x) for x <= 0, relative error below 2e-7; NaN stays NaN. */
INLINE lanes exp_of_negative(lanes x) {
    whole_lanes n;
    lanes whole, rest, power;
    x = larger((lanes){-87, -87, -87, -87, -87, -87, -87, -87}, x);
    n = __builtin_convertvector(x * 1.44269504f - 0.5f, whole_lanes); /* nearest */
    whole = __builtin_convertvector(n, lanes);
    rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    power = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    power = power * rest + 8.3334519073e-3f;
    power = power * rest + 4.1665795894e-2f;
    power = power * rest + 1.6666665459e-1f;
    power = power * rest + 5.0000001201e-1f;
    power = power * rest * rest + rest + 1.0f;
    return power * (lanes)((n + 127) << 23);
}

/* sum over c of x[c] * y[c] */
INLINE lanes product(const lanes *x, const lanes *y, ptrdiff_t d) {
    lanes sum = {0};
    for (ptrdiff_t c = 0; c < d; c++) sum += x[c] * y[c];
    return sum;
}

/* q, k, v, out [T, d]; tables [R, d] without the forbidden relation, which is R; relation
   [T, T]; scratch: query [R], key [T, R], scores [T], sums [R]. q and key_table include
   the factor 1 / sqrt(d). */
CLONES static void attend_lanes(
    const lanes *q, const lanes *k, const lanes *v, const lanes *query_table,
    const lanes *key_table, const lanes *value_table, const int64_t *relation,
    const uint8_t *occurs, ptrdiff_t nodes, ptrdiff_t relations, ptrdiff_t d,
    int key_from_row, lanes *query, lanes *key, lanes *scores, lanes *sums, lanes *out
) {
    for (ptrdiff_t j = 0; j < nodes && !key_from_row; j++)
        for (ptrdiff_t r = 0; r < relations; r++)
            if (occurs[r])
                key[j * relations + r] = product(k + j * d, key_table + r * d, d);
    for (ptrdiff_t i = 0; i < nodes; i++) {
        const int64_t *to = relation + i * nodes;
        const lanes *qi = q + i * d;
        lanes *outi = out + i * d;
        lanes largest = {-3e38f, -3e38f, -3e38f, -3e38f, -3e38f, -3e38f, -3e38f, -3e38f};
        lanes total = {0};
        for (ptrdiff_t r = 0; r < relations; r++) {
            if (!occurs[r]) continue;
            query[r] = product(qi, query_table + r * d, d);
            if (key_from_row) query[r] += product(k + i * d, key_table + r * d, d);
            sums[r] = total;
        }
        for (ptrdiff_t j = 0; j < nodes; j++) {
            lanes score;
            if (to[j] == relations) continue;
            score = query[to[j]] + product(qi, k + j * d, d);
            if (!key_from_row) score += key[j * relations + to[j]];
            scores[j] = score;
            largest = larger(largest, score);
        }
        memset(outi, 0, d * sizeof(lanes));
        for (ptrdiff_t j = 0; j < nodes; j++) {
            lanes weight;
            if (to[j] == relations) continue;
            weight = exp_of_negative(scores[j] - largest);
            total += weight;
            sums[to[j]] += weight;
            for (ptrdiff_t c = 0; c < d; c++) outi[c] += weight * v[j * d + c];
        }
        for (ptrdiff_t r = 0; r < relations; r++)
            if (occurs[r])
                for (ptrdiff_t c = 0; c < d; c++)
                    outi[c] += sums[r] * value_table[r * d + c];
        /* 0 where all pairs are forbidden; else the largest weight is 1, or NaN */
        total = larger((lanes){1, 1, 1, 1, 1, 1, 1, 1} * 0.5f, total);
        for (ptrdiff_t c = 0; c < d; c++) outi[c] /= total;
    }
}

static void attend_graph(
    const float *q, const float *k, const float *v, const float *query_table,
    const float *key_table, const float *value_table, const int64_t *relation,
    const uint8_t *occurs, ptrdiff_t nodes, ptrdiff_t relations, ptrdiff_t d,
    int key_from_row, float *query, float *key, float *scores, float *sums, float *out
) {
    attend_lanes(
        (const lanes *)q, (const lanes *)k, (const lanes *)v,
        (const lanes *)query_table, (const lanes *)key_table,
        (const lanes *)value_table, relation, occurs, nodes, relations, d, key_from_row,
        (lanes *)query, (lanes *)key, (lanes *)scores, (lanes *)sums, (lanes *)out
    );
}
#else
#define HAS_VECTORS 0
#define attend_graph(...)
#endif

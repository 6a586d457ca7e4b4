/* LANES numbers at a time; included once for each kind of processor (_processors.h). */

#define lanes NAME(lanes)
#define whole_lanes NAME(whole_lanes)
#define bit_lanes NAME(bit_lanes)
#define larger NAME(larger)
#define largest_of NAME(largest_of)
#define sum_of NAME(sum_of)
#undef AT
#undef TURNED
#define exp_of_negative NAME(exp_of_negative)
#define exponentials NAME(exponentials)
#define turn_eight NAME(turn_eight)
#undef CLAMP
#define CLAMP 5.0f /* of scores */

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t whole_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t bit_lanes __attribute__((vector_size(4 * LANES), aligned(4)));

INLINE lanes larger(lanes one, lanes other) { /* NaN in `other` stays */
    whole_lanes mask = other < one;
    return (lanes)((whole_lanes)WHERE(mask, one) | (whole_lanes)WHERE(~mask, other));
}

/* The vector turned by n places. */
#if LANES == 16
#define AT(i, n) (n + i) % 16, (n + i + 1) % 16, (n + i + 2) % 16, (n + i + 3) % 16
#define TURNED(x, n) MIX(whole_lanes, x, x, AT(0, n), AT(4, n), AT(8, n), AT(12, n))
#elif LANES == 8
#define AT(i, n) (n + i) % 8, (n + i + 1) % 8, (n + i + 2) % 8, (n + i + 3) % 8
#define TURNED(x, n) MIX(whole_lanes, x, x, AT(0, n), AT(4, n))
#else
#define TURNED(x, n) MIX(whole_lanes, x, x, n % 4, (n + 1) % 4, (n + 2) % 4, (n + 3) % 4)
#endif

/* The largest number, in each lane. */
INLINE lanes largest_of(lanes x) {
    if (LANES > 8) x = larger(x, TURNED(x, 8));
    if (LANES > 4) x = larger(x, TURNED(x, 4));
    x = larger(x, TURNED(x, 2));
    return larger(x, TURNED(x, 1));
}

/* The sum of all numbers, in each lane. */
INLINE lanes sum_of(lanes x) {
    if (LANES > 8) x += TURNED(x, 8);
    if (LANES > 4) x += TURNED(x, 4);
    x += TURNED(x, 2);
    return x + TURNED(x, 1);
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

/* Scores [N, H], up to whole vectors, become exp(score - CLAMP), once they are clamped to
   +-CLAMP; `inverse` the reciprocals of `epsilon` plus the sums of exp(score), so scaled. */
INLINE void exponentials(
    float *weights, ptrdiff_t N, ptrdiff_t H, float epsilon, float *inverse
) {
    lanes *vectors = (lanes *)weights;
    for (ptrdiff_t n = 0; n * LANES < N * H; n++) {
        /* from below, then from above; NaN stays */
        const lanes x = larger(ALL(-CLAMP), vectors[n]);
        vectors[n] = exp_of_negative(-larger(ALL(-CLAMP), -x) - CLAMP);
    }
    for (ptrdiff_t h = 0; h < H; h++) {
        float total = epsilon * exp_of_negative(ALL(-CLAMP))[0];
        for (ptrdiff_t j = 0; j < N; j++) total += weights[j * H + h];
        inverse[h] = 1 / total;
    }
}

/* Transposes eight vectors. */
INLINE void turn_eight(eight *x) {
    eight y[8];
    for (int i = 0; i < 8; i += 2) {
        y[i] = MIX(whole_eight, x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        y[i + 1] = MIX(whole_eight, x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            x[i + 2 * k] = MIX(whole_eight, y[i + k], y[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            x[i + 2 * k + 1] = MIX(whole_eight, y[i + k], y[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        y[i] = MIX(whole_eight, x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        y[i + 4] = MIX(whole_eight, x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i++) x[i] = y[i];
}

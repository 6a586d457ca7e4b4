/* LANES numbers at a time; included once for each kind of processor (_processors.h). */

#define lanes NAME(lanes)
#define whole_lanes NAME(whole_lanes)
#define bit_lanes NAME(bit_lanes)
#define larger NAME(larger)
#define nonzero NAME(nonzero)
#define part NAME(part)
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
#if LANES == 16
    return (lanes)_mm512_max_ps((__m512)one, (__m512)other);
#endif
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

/* Numbers from[0 .. n - 1] of a vector, then `rest`; reads nothing from `end` on. */
INLINE lanes part(const float *from, const float *end, ptrdiff_t n, float rest) {
    whole_lanes places, inside;
    lanes x = ALL(0);
    if (n >= LANES) return *(const lanes *)from;
#if LANES == 16
    return (lanes)_mm512_mask_loadu_ps((__m512)ALL(rest), n < 0 ? 0 : (1 << n) - 1, from);
#endif
    for (int lane = 0; lane < LANES; lane++) places[lane] = lane;
    inside = places < (int32_t)n;
    if (end - from >= LANES)
        x = *(const lanes *)from;
    else if (n > 0)
        memcpy(&x, from, n * sizeof(float));
    return (lanes)((inside & (whole_lanes)x) | (~inside & (whole_lanes)ALL(rest)));
}

/* Bits of the numbers that are neither 0 nor -0, of from[0 .. n - 1] and at most LANES. */
INLINE uint32_t nonzero(const float *from, const float *end, ptrdiff_t n) {
#if LANES == 16
    const __mmask16 inside = n < 16 ? (1 << n) - 1 : 0xffff;
    return _mm512_mask_cmp_ps_mask(
        inside, _mm512_maskz_loadu_ps(inside, from), _mm512_setzero_ps(), _CMP_NEQ_UQ
    );
#elif defined(__AVX2__) && LANES == 8
    return _mm256_movemask_ps((__m256)(part(from, end, n, 0) != 0));
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < (n < LANES ? n : LANES); lane++)
        bits |= (uint32_t)(from[lane] != 0) << lane;
    return bits;
#endif
}

/* exp(x) for x <= 0, relative error below 2e-7; 0 below -105, or below -87 without AVX-512;
   NaN stays NaN. The polynomial is a minimax of degree five between +-log(2) / 2. */
INLINE lanes exp_of_negative(lanes x) {
#if LANES == 16
    lanes whole, rest, power;
    x = (lanes)_mm512_max_ps((__m512)ALL(-105.0f), (__m512)x);
    whole = (lanes)_mm512_roundscale_ps((__m512)(x * 1.44269504f), _MM_FROUND_TO_NEAREST_INT);
#else
    const lanes shift = ALL(12582912.0f); /* 1.5 * 2^23 rounds to whole numbers */
    const whole_lanes tiny = x < -87.0f;
    lanes shifted, whole, rest, power;
    x = larger(ALL(-87.0f), x);
    shifted = x * 1.44269504f + shift;
    whole = shifted - shift;
#endif
    rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    power = rest * 8.2902722060e-3f + 4.1898161173e-2f;
    power = power * rest + 1.6667638719e-1f;
    power = power * rest + 4.9999147654e-1f;
    power = power * rest + 9.9999970198e-1f;
    power = power * rest + 1.0f;
#if LANES == 16
    return (lanes)_mm512_scalef_ps((__m512)power, (__m512)whole);
#else
    return WHERE(~tiny, (whole_lanes)power + ((whole_lanes)shifted << 23));
#endif
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

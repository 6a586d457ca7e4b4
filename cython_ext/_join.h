/* Attention whose pairs have states, for one kind of processor (_processors.h); with eight
   numbers at a time, because a head of eight channels is usual. */

#undef LANES
#define LANES 8
#include "_lanes.h"

#define product NAME(product)
#define add NAME(add)
#define join NAME(join)
#define forward NAME(forward)
#define backward NAME(backward)
#define VECTORS(x) ((lanes *)(x))

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

/* joint = (q_i + k_j) * factor, root = sqrt(|joint|) */
INLINE void join(const pair_job *a, ptrdiff_t i, ptrdiff_t j) {
    const ptrdiff_t D = a->d / LANES, P = a->heads * D;
    const lanes *q = VECTORS(a->q) + i * P, *k = VECTORS(a->k) + j * P;
    const lanes *maps = VECTORS(a->maps) + (i * a->nodes + j) * 2 * P;
    lanes *joint = VECTORS(a->joint);
    for (ptrdiff_t h = 0; h < a->heads; h++)
        for (ptrdiff_t c = 0; c < D; c++)
            joint[h * D + c] = (q[h * D + c] + k[h * D + c]) * maps[2 * h * D + c];
    for (ptrdiff_t c = 0; c < a->heads * a->d; c++) a->root[c] = sqrtf(fabsf(a->joint[c]));
}

static void forward(const pair_job *given) {
    const pair_job copy = *given, *a = &copy;
    const ptrdiff_t N = a->nodes, H = a->heads, D = a->d / LANES, P = H * D;
    const lanes *score = VECTORS(a->score), *joint = VECTORS(a->joint);
    const lanes *roots = VECTORS(a->root);
    float *weights = a->weights;
    for (ptrdiff_t i = 0; i < N; i++) {
        lanes *mixed = VECTORS(a->mixed) + i * P, *states = VECTORS(a->states) + i * P;
        const float *keep = a->keep ? a->keep + i * N * H : NULL;
        for (ptrdiff_t j = 0; j < N; j++) {
            const lanes *maps = VECTORS(a->maps) + (i * N + j) * 2 * P;
            lanes *t = VECTORS(a->t) + (i * N + j) * P;
            join(a, i, j);
            for (ptrdiff_t h = 0; h < H; h++) {
                for (ptrdiff_t c = 0; c < D; c++) {
                    const whole_lanes sign = (whole_lanes)joint[h * D + c] & INT32_MIN;
                    const lanes root = (lanes)((whole_lanes)roots[h * D + c] | sign);
                    t[h * D + c] = larger(ALL(0), root + maps[(2 * h + 1) * D + c]);
                }
                weights[j * H + h] = sum_of(product(t + h * D, score + h * D, D))[0];
            }
        }
        exponentials(weights, N, H, 0, a->inverse);
        memset(mixed, 0, P * sizeof(lanes));
        memset(states, 0, P * sizeof(lanes));
        for (ptrdiff_t j = 0; j < N; j++)
            for (ptrdiff_t h = 0; h < H; h++) {
                const float kept = keep ? keep[j * H + h] : 1;
                const lanes weight = ALL(weights[j * H + h] * a->inverse[h] * kept);
                add(mixed + h * D, weight, VECTORS(a->v) + j * P + h * D, D);
                add(states + h * D, weight, VECTORS(a->t) + (i * N + j) * P + h * D, D);
            }
    }
}

static void backward(const pair_job *given) {
    const pair_job copy = *given, *a = &copy;
    lanes *of_maps = VECTORS(a->of_maps);
    const ptrdiff_t N = a->nodes, H = a->heads, D = a->d / LANES, P = H * D;
    const lanes *score = VECTORS(a->score), *joint = VECTORS(a->joint);
    const lanes *roots = VECTORS(a->root);
    float *weights = a->weights;
    for (ptrdiff_t i = 0; i < N; i++) {
        const lanes *mixed = VECTORS(a->of_mixed) + i * P;
        const lanes *states = VECTORS(a->of_states) + i * P;
        const float *keep = a->keep ? a->keep + i * N * H : NULL;
        for (ptrdiff_t j = 0; j < N; j++)
            for (ptrdiff_t h = 0; h < H; h++) {
                const lanes *t = VECTORS(a->t) + (i * N + j) * P + h * D;
                weights[j * H + h] = sum_of(product(t, score + h * D, D))[0];
            }
        exponentials(weights, N, H, 0, a->inverse);
        for (ptrdiff_t h = 0; h < H; h++) {
            float mean = 0;
            for (ptrdiff_t j = 0; j < N; j++) {
                const lanes *t = VECTORS(a->t) + (i * N + j) * P + h * D;
                const lanes *v = VECTORS(a->v) + j * P + h * D;
                const lanes both = product(mixed + h * D, v, D) + product(states + h * D, t, D);
                float *weight = weights + j * H + h, *slope = a->slopes + j * H + h;
                const float change = sum_of(both)[0] * (keep ? keep[j * H + h] : 1);
                *weight *= a->inverse[h];
                *slope = change;
                mean += *weight * change;
            }
            for (ptrdiff_t j = 0; j < N; j++) {
                const lanes *t = VECTORS(a->t) + (i * N + j) * P + h * D;
                float *slope = a->slopes + j * H + h;
                *slope = weights[j * H + h] * (*slope - mean);
                if (fabsf(sum_of(product(t, score + h * D, D))[0]) > CLAMP) *slope = 0;
            }
        }
        for (ptrdiff_t j = 0; j < N; j++) {
            const ptrdiff_t pair = i * N + j;
            join(a, i, j);
            for (ptrdiff_t h = 0; h < H; h++) {
                const float kept = keep ? keep[j * H + h] : 1;
                const lanes weight = ALL(weights[j * H + h] * kept);
                const lanes slope = ALL(a->slopes[j * H + h]);
                add(VECTORS(a->of_v) + j * P + h * D, weight, mixed + h * D, D);
                for (ptrdiff_t n = h * D, c = 0; c < D; c++, n++) {
                    const lanes t = VECTORS(a->t)[pair * P + n];
                    const lanes factor = VECTORS(a->maps)[(pair * H + h) * 2 * D + c];
                    lanes of_t = VECTORS(a->of_t)[pair * P + n] + weight * states[n];
                    lanes of_joint;
                    VECTORS(a->of_score)[n] += slope * t;
                    of_t = WHERE(~(t <= 0), of_t + slope * score[n]);
                    of_joint = WHERE(joint[n] != 0, of_t * 0.5f / roots[n]);
                    of_maps[(pair * H + h) * 2 * D + c] =
                        of_joint * (VECTORS(a->q)[i * P + n] + VECTORS(a->k)[j * P + n]);
                    of_maps[(pair * H + h) * 2 * D + D + c] = of_t;
                    VECTORS(a->of_q)[i * P + n] += of_joint * factor;
                    VECTORS(a->of_k)[j * P + n] += of_joint * factor;
                }
            }
        }
    }
}

/* What each thread does: one part of the graphs after another, until none is left. In a
   copy no write can change what is read. */
static void NAME(attend)(pair_job *given) {
    pair_job a = *given;
    const ptrdiff_t D = a.heads * a.d;
    a.joint += next_number(&given->next_room) * a.room;
    a.root = a.joint + D;
    a.weights = a.root + D;
    a.slopes = a.weights + a.numbers;
    a.inverse = a.slopes + a.numbers;
    for (ptrdiff_t part; (part = next_number(&given->next_part)) < a.parts;) {
        a.of_score = given->of_score + part * D;
        for (ptrdiff_t graph = a.graphs * part / a.parts;
             graph < a.graphs * (part + 1) / a.parts; graph++) {
            const ptrdiff_t node = a.node_start[graph], pair = a.pair_start[graph];
            a.nodes = a.node_start[graph + 1] - node;
#define PLACE(name, n) a.name = given->name ? given->name + (n) : NULL
            PLACE(q, node * D), PLACE(k, node * D), PLACE(v, node * D);
            PLACE(maps, 2 * pair * D), PLACE(keep, pair * a.heads), PLACE(t, pair * D);
            PLACE(mixed, node * D), PLACE(states, node * D);
            PLACE(of_t, pair * D), PLACE(of_mixed, node * D), PLACE(of_states, node * D);
            PLACE(of_q, node * D), PLACE(of_k, node * D), PLACE(of_v, node * D);
            PLACE(of_maps, 2 * pair * D);
            if (a.of_t) backward(&a);
            else forward(&a);
        }
    }
}

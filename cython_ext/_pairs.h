/* Attention whose pairs have states, of a graph, and its gradient; _pairs.pyx calls it, and
   pairs.py documents it.

   Each head has a multiple of eight channels, so that none of its vectors is shared. */

#include <math.h>

#include "_lanes.h"

#define CLAMP 5.0f /* of scores */

typedef struct {
    ptrdiff_t nodes, heads, blocks; /* N, H, vectors of a head */
    const lanes *q, *k, *v;         /* [N, H, blocks] */
    const lanes *maps;              /* [N, N, H, 2, blocks]: factor, bias */
    const lanes *score;             /* [H, blocks] */
    const float *keep;              /* [N, N, H] or NULL */
    lanes *t;                       /* [N, N, H, blocks] */
    lanes *mixed, *states;          /* [N, H, blocks] */
    /* Of one receiver: */
    lanes *joint, *root; /* of one pair, [H, blocks] */
    lanes *weights;      /* N * H numbers, and zeros up to whole vectors */
    float *slopes;       /* gradients of the weights, [N, H] */
    float *inverse;      /* 1 / sum of the weights, [H] */
} pair_graph;

typedef struct { /* gradients: of the results, and of what they are made from */
    const lanes *t, *mixed, *states;
    lanes *q, *k, *v, *maps, *score;
} pair_gradient;

#if HAS_VECTORS
INLINE float sum_of(lanes x) {
    float sum = 0;
    for (ptrdiff_t c = 0; c < LANES; c++) sum += x[c];
    return sum;
}

/* joint = (q_i + k_j) * factor, root = sqrt(|joint|) */
INLINE void join(const pair_graph *a, ptrdiff_t i, ptrdiff_t j) {
    const ptrdiff_t D = a->blocks, P = a->heads * D;
    const lanes *q = a->q + i * P, *k = a->k + j * P;
    const lanes *maps = a->maps + (i * a->nodes + j) * 2 * P;
    const float *joint = (const float *)a->joint;
    float *root = (float *)a->root;
    for (ptrdiff_t h = 0; h < a->heads; h++)
        for (ptrdiff_t c = 0; c < D; c++)
            a->joint[h * D + c] = (q[h * D + c] + k[h * D + c]) * maps[2 * h * D + c];
    for (ptrdiff_t c = 0; c < P * LANES; c++) root[c] = sqrtf(fabsf(joint[c]));
}

/* Scores become exp(score - CLAMP), `inverse` the reciprocals of their sums. */
INLINE void exponentials(const pair_graph *a) {
    const ptrdiff_t N = a->nodes, H = a->heads;
    const float *weights = (const float *)a->weights;
    for (ptrdiff_t n = 0; n * LANES < N * H; n++) {
        /* from below, then from above; NaN stays */
        const lanes x = larger(ALL(-CLAMP), a->weights[n]);
        a->weights[n] = exp_of_negative(-larger(ALL(-CLAMP), -x) - CLAMP);
    }
    for (ptrdiff_t h = 0; h < H; h++) {
        float total = 0;
        for (ptrdiff_t j = 0; j < N; j++) total += weights[j * H + h];
        a->inverse[h] = 1 / total;
    }
}

CLONES static void pair_forward(const pair_graph *given) {
    const pair_graph copy = *given, *a = &copy;
    const ptrdiff_t N = a->nodes, H = a->heads, D = a->blocks, P = H * D;
    float *weights = (float *)a->weights;
    for (ptrdiff_t i = 0; i < N; i++) {
        lanes *mixed = a->mixed + i * P, *states = a->states + i * P;
        const float *keep = a->keep ? a->keep + i * N * H : NULL;
        for (ptrdiff_t j = 0; j < N; j++) {
            const lanes *maps = a->maps + (i * N + j) * 2 * P;
            lanes *t = a->t + (i * N + j) * P;
            join(a, i, j);
            for (ptrdiff_t h = 0; h < H; h++) {
                for (ptrdiff_t c = 0; c < D; c++) {
                    const whole_lanes sign = (whole_lanes)a->joint[h * D + c] & INT32_MIN;
                    const lanes root = (lanes)((whole_lanes)a->root[h * D + c] | sign);
                    t[h * D + c] = larger(ALL(0), root + maps[(2 * h + 1) * D + c]);
                }
                weights[j * H + h] = sum_of(product(t + h * D, a->score + h * D, D));
            }
        }
        exponentials(a);
        memset(mixed, 0, P * sizeof(lanes));
        memset(states, 0, P * sizeof(lanes));
        for (ptrdiff_t j = 0; j < N; j++)
            for (ptrdiff_t h = 0; h < H; h++) {
                const float kept = keep ? keep[j * H + h] : 1;
                const lanes weight = ALL(weights[j * H + h] * a->inverse[h] * kept);
                add(mixed + h * D, weight, a->v + j * P + h * D, D);
                add(states + h * D, weight, a->t + (i * N + j) * P + h * D, D);
            }
    }
}

CLONES static void pair_backward(const pair_graph *given, const pair_gradient *grad) {
    const pair_graph copy = *given, *a = &copy;
    const pair_gradient to = *grad;
    const ptrdiff_t N = a->nodes, H = a->heads, D = a->blocks, P = H * D;
    float *weights = (float *)a->weights;
    for (ptrdiff_t i = 0; i < N; i++) {
        const lanes *mixed = to.mixed + i * P, *states = to.states + i * P;
        const float *keep = a->keep ? a->keep + i * N * H : NULL;
        for (ptrdiff_t j = 0; j < N; j++)
            for (ptrdiff_t h = 0; h < H; h++) {
                const lanes *t = a->t + (i * N + j) * P + h * D;
                weights[j * H + h] = sum_of(product(t, a->score + h * D, D));
            }
        exponentials(a);
        for (ptrdiff_t h = 0; h < H; h++) {
            float mean = 0;
            for (ptrdiff_t j = 0; j < N; j++) {
                const lanes *t = a->t + (i * N + j) * P + h * D;
                const lanes *v = a->v + j * P + h * D;
                const lanes both = product(mixed + h * D, v, D) + product(states + h * D, t, D);
                float *weight = weights + j * H + h, *slope = a->slopes + j * H + h;
                const float change = sum_of(both) * (keep ? keep[j * H + h] : 1);
                *weight *= a->inverse[h];
                *slope = change;
                mean += *weight * change;
            }
            for (ptrdiff_t j = 0; j < N; j++) {
                const lanes *t = a->t + (i * N + j) * P + h * D;
                const float score = sum_of(product(t, a->score + h * D, D));
                float *slope = a->slopes + j * H + h;
                *slope = weights[j * H + h] * (*slope - mean);
                if (fabsf(score) > CLAMP) *slope = 0;
            }
        }
        for (ptrdiff_t j = 0; j < N; j++) {
            const ptrdiff_t pair = i * N + j;
            join(a, i, j);
            for (ptrdiff_t h = 0; h < H; h++) {
                const float kept = keep ? keep[j * H + h] : 1;
                const lanes weight = ALL(weights[j * H + h] * kept);
                const lanes slope = ALL(a->slopes[j * H + h]);
                add(to.v + j * P + h * D, weight, mixed + h * D, D);
                for (ptrdiff_t n = h * D, c = 0; c < D; c++, n++) {
                    const lanes t = a->t[pair * P + n], joint = a->joint[n];
                    const lanes factor = a->maps[(pair * H + h) * 2 * D + c];
                    lanes of_t = to.t[pair * P + n] + weight * states[n] + slope * a->score[n];
                    lanes of_joint;
                    to.score[n] += slope * t;
                    of_t = WHERE(~(t <= 0), of_t);
                    of_joint = WHERE(joint != 0, of_t * 0.5f / a->root[n]);
                    to.maps[(pair * H + h) * 2 * D + c] =
                        of_joint * (a->q[i * P + n] + a->k[j * P + n]);
                    to.maps[(pair * H + h) * 2 * D + D + c] = of_t;
                    to.q[i * P + n] += of_joint * factor;
                    to.k[j * P + n] += of_joint * factor;
                }
            }
        }
    }
}
#else
#define pair_forward(a)
#define pair_backward(a, grad)
#endif

/* Attention with a score per channel, of one graph, and its gradient; _channels.pyx calls
   it, and channels.py documents it.

   Rows of D channels are padded to P lanes where they are computed with. */

#include <math.h>

#include "_lanes.h"

typedef struct {
    ptrdiff_t nodes, heads, width; /* N, H, D */
    ptrdiff_t blocks;              /* P, of eight channels */
    ptrdiff_t base_stride;         /* from a receiver to the next: N * H, or 0 */
    const float *base;             /* [N or 1, N, H] */
    const float *v;                /* [N, D] */
    const float *att;              /* [N, N, D] */
    const float *val;              /* [N, N, D] or NULL */
    const float *keep;             /* [N, N] or NULL */
    lanes *weights, *messages;     /* of one receiver, [N, P] */
    lanes *grad_v;                 /* [N, P] */
} channels;

typedef struct {
    const float *out; /* [N, D] */
    float *base, *v, *att, *val;
} channel_gradient;

#if HAS_VECTORS
/* As many of eight numbers as a row has left. */
INLINE void store(float *to, lanes x, ptrdiff_t left) {
    if (left >= LANES)
        *(lanes *)to = x;
    else
        memcpy(to, &x, left * sizeof(float));
}

/* Fills `weights` of receiver i with its softmax, and `messages` with v + E^val. */
INLINE void weigh_channels(const channels *a, ptrdiff_t i) {
    const ptrdiff_t D = a->width, P = a->blocks, d = D / a->heads;
    memset(a->weights, 0, a->nodes * P * sizeof(lanes));
    memset(a->messages, 0, a->nodes * P * sizeof(lanes));
    for (ptrdiff_t j = 0; j < a->nodes; j++) {
        const float *att = a->att + (i * a->nodes + j) * D;
        const float *base = a->base + i * a->base_stride + j * a->heads;
        const float *v = a->v + j * D;
        float *logits = (float *)(a->weights + j * P);
        float *messages = (float *)(a->messages + j * P);
        for (ptrdiff_t h = 0; h < a->heads; h++)
            for (ptrdiff_t c = h * d; c < (h + 1) * d; c++) logits[c] = att[c] + base[h];
        memcpy(messages, v, D * sizeof(float));
        if (a->val) {
            const float *val = a->val + (i * a->nodes + j) * D;
            for (ptrdiff_t c = 0; c < D; c++) messages[c] += val[c];
        }
    }
    for (ptrdiff_t p = 0; p < P; p++) {
        lanes largest = ALL(-INFINITY), total = {0};
        lanes *weights = a->weights + p;
        for (ptrdiff_t j = 0; j < a->nodes; j++)
            largest = larger(largest, weights[j * P]);
        for (ptrdiff_t j = 0; j < a->nodes; j++) {
            weights[j * P] = exp_of_negative(weights[j * P] - largest);
            total += weights[j * P];
        }
        total = 1 / total;
        for (ptrdiff_t j = 0; j < a->nodes; j++) weights[j * P] *= total;
    }
}

CLONES static void filter_channels(const channels *a, float *out) {
    const ptrdiff_t D = a->width, P = a->blocks;
    for (ptrdiff_t i = 0; i < a->nodes; i++) {
        const float *keep = a->keep ? a->keep + i * a->nodes : NULL;
        weigh_channels(a, i);
        for (ptrdiff_t p = 0; p < P; p++) {
            lanes sum = {0};
            for (ptrdiff_t j = 0; j < a->nodes; j++) {
                lanes weight = a->weights[j * P + p];
                if (keep) weight *= keep[j];
                sum += weight * a->messages[j * P + p];
            }
            store(out + i * D + p * LANES, sum, D - p * LANES);
        }
    }
}

CLONES static void filter_channels_backward(
    const channels *a, const channel_gradient *grad
) {
    const ptrdiff_t N = a->nodes, H = a->heads, D = a->width, P = a->blocks, d = D / H;
    memset(a->grad_v, 0, N * P * sizeof(lanes));
    memset(grad->base, 0, (a->base_stride ? N : 1) * N * H * sizeof(float));
    for (ptrdiff_t i = 0; i < N; i++) {
        const float *keep = a->keep ? a->keep + i * N : NULL;
        float *grad_base = grad->base + i * a->base_stride;
        weigh_channels(a, i);
        for (ptrdiff_t p = 0; p < P; p++) {
            const ptrdiff_t left = D - p * LANES;
            lanes out = {0}, mean = {0};
            memcpy(
                &out, grad->out + i * D + p * LANES,
                (left < LANES ? left : LANES) * sizeof(float)
            );
            for (ptrdiff_t j = 0; j < N; j++) { /* messages become weights' gradients */
                const ptrdiff_t at = (i * N + j) * D + p * LANES;
                lanes change = out, sent;
                if (keep) change *= keep[j];
                sent = a->weights[j * P + p] * change;
                a->grad_v[j * P + p] += sent;
                if (a->val) store(grad->val + at, sent, left);
                a->messages[j * P + p] *= change;
                mean += a->weights[j * P + p] * a->messages[j * P + p];
            }
            for (ptrdiff_t j = 0; j < N; j++) {
                const ptrdiff_t at = (i * N + j) * D + p * LANES;
                lanes change = a->messages[j * P + p] - mean;
                store(grad->att + at, a->weights[j * P + p] * change, left);
            }
        }
        for (ptrdiff_t j = 0; j < N; j++)
            for (ptrdiff_t h = 0; h < H; h++) {
                const float *change = grad->att + (i * N + j) * D + h * d;
                float sum = 0;
                for (ptrdiff_t c = 0; c < d; c++) sum += change[c];
                grad_base[j * H + h] += sum;
            }
    }
    for (ptrdiff_t j = 0; j < N; j++)
        memcpy(grad->v + j * D, a->grad_v + j * P, D * sizeof(float));
}
#else
#define filter_channels(a, out)
#define filter_channels_backward(a, grad)
#endif

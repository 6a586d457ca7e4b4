/* Attention with a score per channel, of some receivers of a graph, and its gradient;
   _channels.pyx calls it, and channels.py documents it.

   Rows have D channels, as P blocks of eight. Most features of a pair are 0 (it has one
   relation, and no walks of most lengths); products skip them. */

#include <math.h>

#include "_lanes.h"

typedef struct { /* of a sparse vector, which is multiplied with a matrix */
    float value;
    int32_t row; /* of the matrix */
} entry;

typedef struct {
    ptrdiff_t nodes, heads, d; /* N, H, D / H */
    ptrdiff_t width, blocks;   /* F, P */
    ptrdiff_t base_stride;     /* from a receiver to the next: N * H, or 0 */
    const float *base;         /* [N or 1, N, H] */
    const float *features;     /* [N, N, F] */
    const float *keep;         /* [N, N] or NULL */
    const lanes *v;            /* [N, P] */
    const lanes *att, *val;    /* [F, P]; val or NULL */
    lanes *weights, *messages; /* of one receiver, [N, P] */
    entry *pair;               /* features of one pair, [F] */
    /* For the gradients of one receiver: */
    lanes *sent;    /* those of its messages, [N, P] */
    entry *senders; /* of each feature, [F, N] */
    int64_t *count; /* of senders, [F]; NULL in the forward pass */
} channels;

/* Sums over the receivers, except base with a row for each of them. */
typedef struct {
    const lanes *out; /* [N, P] */
    float *base;
    lanes *v;         /* [N, P] */
    lanes *att, *val; /* [F, P] */
} channel_gradient;

#if HAS_VECTORS
#define WIDEST_ROW 8 /* vectors of 32 bytes in 16 registers, with some to spare */

/* A part of `add_product` that stays in registers. */
INLINE void add_part(
    lanes *to, const lanes *from, const entry *x, ptrdiff_t count, const lanes *rows,
    ptrdiff_t P, ptrdiff_t width
) {
    lanes sum[WIDEST_ROW];
    for (ptrdiff_t p = 0; p < width; p++) sum[p] = from[p];
    for (ptrdiff_t n = 0; n < count; n++)
        add(sum, ALL(x[n].value), rows + x[n].row * P, width);
    for (ptrdiff_t p = 0; p < width; p++) to[p] = sum[p];
}

/* to = from + x @ rows, with `count` entries x; all have P blocks. */
CLONES static void add_product(
    lanes *to, const lanes *from, const entry *x, ptrdiff_t count, const lanes *rows,
    ptrdiff_t P
) {
    for (ptrdiff_t p = 0, width; p < P; p += width) {
        width = P - p;
        if (width > WIDEST_ROW) width = width < 2 * WIDEST_ROW ? width / 2 : WIDEST_ROW;
        switch (width) {
#define WIDTH(w)                                              \
    case w:                                                   \
        add_part(to + p, from + p, x, count, rows + p, P, w); \
        break;
            WIDTH(1) WIDTH(2) WIDTH(3) WIDTH(4) WIDTH(5) WIDTH(6) WIDTH(7) WIDTH(8)
        }
    }
}

/* The score of a head in each of its channels; 0 in what pads the row. */
INLINE void spread(const channels *a, const float *base, lanes *to) {
    float *channel = (float *)to;
    if (a->d % LANES == 0) {
        for (ptrdiff_t h = 0; h < a->heads; h++)
            for (ptrdiff_t p = 0; p < a->d / LANES; p++) *to++ = ALL(base[h]);
        return;
    }
    to[a->blocks - 1] = ALL(0);
    for (ptrdiff_t h = 0; h < a->heads; h++)
        for (ptrdiff_t c = 0; c < a->d; c++) *channel++ = base[h];
}

/* Adds the sum over the channels of each head. */
INLINE void add_sums(const channels *a, const lanes *from, float *base) {
    const float *channel = (const float *)from;
    for (ptrdiff_t h = 0; h < a->heads; h++) {
        float sum = 0;
        if (a->d % LANES == 0) {
            lanes parts = {0};
            for (ptrdiff_t p = 0; p < a->d / LANES; p++) parts += *from++;
            for (ptrdiff_t c = 0; c < LANES; c++) sum += parts[c];
        } else
            for (ptrdiff_t c = 0; c < a->d; c++) sum += *channel++;
        base[h] += sum;
    }
}

/* Fills `weights` of receiver i with its logits, `messages` with v + E^val and, in the
   backward pass, `senders`. */
INLINE void fill(const channels *a, ptrdiff_t i) {
    const ptrdiff_t N = a->nodes, F = a->width, P = a->blocks;
    if (a->count) memset(a->count, 0, F * sizeof(int64_t));
    for (ptrdiff_t j = 0; j < N; j++) {
        const float *features = a->features + (i * N + j) * F;
        lanes *logits = a->weights + j * P, *messages = a->messages + j * P;
        ptrdiff_t count = 0;
        for (ptrdiff_t f = 0; f < F; f++) {
            uint32_t bits;
            memcpy(&bits, features + f, sizeof(bits));
            a->pair[count] = (entry){features[f], (int32_t)f};
            count += bits << 1 != 0; /* all but 0 and -0 */
        }
        for (ptrdiff_t n = 0; a->count && n < count; n++) {
            const ptrdiff_t f = a->pair[n].row;
            a->senders[f * N + a->count[f]++] = (entry){a->pair[n].value, (int32_t)j};
        }
        spread(a, a->base + i * a->base_stride + j * a->heads, logits);
        add_product(logits, logits, a->pair, count, a->att, P);
        if (a->val)
            add_product(messages, a->v + j * P, a->pair, count, a->val, P);
        else
            memcpy(messages, a->v + j * P, P * sizeof(lanes));
    }
}

/* Logits of eight channels become exp(logit - largest); returns 1 / their sum. */
INLINE lanes exponentials(lanes *x, ptrdiff_t N, ptrdiff_t P) {
    lanes largest = ALL(-INFINITY), total = {0};
    for (ptrdiff_t j = 0; j < N; j++) largest = larger(largest, x[j * P]);
    for (ptrdiff_t j = 0; j < N; j++) {
        x[j * P] = exp_of_negative(x[j * P] - largest);
        total += x[j * P];
    }
    return 1 / total;
}

/* Receivers first .. end - 1; out [N, P]. In a copy of its own no write can change what
   a function reads from `a`. */
CLONES static void filter_channels(
    const channels *given, ptrdiff_t first, ptrdiff_t end, lanes *out
) {
    const channels copy = *given, *a = &copy;
    const ptrdiff_t N = a->nodes, P = a->blocks;
    for (ptrdiff_t i = first; i < end; i++) {
        const float *keep = a->keep ? a->keep + i * N : NULL;
        fill(a, i);
        for (ptrdiff_t p = 0; p < P; p++) {
            lanes *weights = a->weights + p, *messages = a->messages + p;
            lanes sum = {0};
            const lanes inverse = exponentials(weights, N, P);
            for (ptrdiff_t j = 0; j < N; j++)
                sum += weights[j * P] * messages[j * P] * (keep ? keep[j] : 1);
            out[i * P + p] = sum * inverse;
        }
    }
}

CLONES static void filter_channels_backward(
    const channels *given, const channel_gradient *grad, ptrdiff_t first, ptrdiff_t end
) {
    const channels copy = *given, *a = &copy;
    const ptrdiff_t N = a->nodes, P = a->blocks;
    for (ptrdiff_t i = first; i < end; i++) {
        const float *keep = a->keep ? a->keep + i * N : NULL;
        fill(a, i);
        for (ptrdiff_t p = 0; p < P; p++) {
            lanes *weights = a->weights + p, *messages = a->messages + p;
            lanes *sent = a->sent + p, *v = grad->v + p;
            lanes mean = {0};
            const lanes inverse = exponentials(weights, N, P);
            const lanes out = grad->out[i * P + p];
            for (ptrdiff_t j = 0; j < N; j++) { /* messages become gradients of weights */
                const lanes change = out * (keep ? keep[j] : 1);
                const lanes weight = weights[j * P] * inverse;
                const lanes of_weight = messages[j * P] * change;
                weights[j * P] = weight;
                sent[j * P] = weight * change;
                v[j * P] += weight * change;
                messages[j * P] = of_weight;
                mean += weight * of_weight;
            }
            for (ptrdiff_t j = 0; j < N; j++) /* and then of logits */
                messages[j * P] = weights[j * P] * (messages[j * P] - mean);
        }
        for (ptrdiff_t j = 0; j < N; j++)
            add_sums(
                a, a->messages + j * P,
                grad->base + i * a->base_stride + j * a->heads
            );
        for (ptrdiff_t f = 0; f < a->width; f++) {
            const entry *senders = a->senders + f * N;
            lanes *att = grad->att + f * P;
            add_product(att, att, senders, a->count[f], a->messages, P);
            if (a->val) {
                lanes *val = grad->val + f * P;
                add_product(val, val, senders, a->count[f], a->sent, P);
            }
        }
    }
}
#else
#define filter_channels(a, first, end, out)
#define filter_channels_backward(a, grad, first, end)
#endif

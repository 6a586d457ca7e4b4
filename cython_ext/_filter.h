/* Attention with a score per channel, for one kind of processor (_processors.h). */

#include "_lanes.h"

#define add NAME(add)
#define add_part NAME(add_part)
#define add_product NAME(add_product)
#define spread NAME(spread)
#define add_sums NAME(add_sums)
#define fill NAME(fill)
#define exponentials NAME(exponentials)

/* sum[c] += factor * x[c] */
INLINE void add(lanes *sum, lanes factor, const lanes *x, ptrdiff_t d) {
    for (ptrdiff_t c = 0; c < d; c++) sum[c] += factor * x[c];
}

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
static void add_product(
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
INLINE void spread(const channels *a, const float *base, float *to) {
    const float *end = to + a->padded;
    for (ptrdiff_t h = 0; h < a->heads; h++) {
        ptrdiff_t c = 0;
        for (; c + LANES <= a->d; c += LANES, to += LANES) *(lanes *)to = ALL(base[h]);
        for (; c < a->d; c++) *to++ = base[h];
    }
    while (to < end) *to++ = 0;
}

/* Adds the sum over the channels of each head. */
INLINE void add_sums(const channels *a, const float *from, float *base) {
    for (ptrdiff_t h = 0; h < a->heads; h++) {
        lanes parts = {0};
        float sum = 0;
        ptrdiff_t c = 0;
        for (; c + LANES <= a->d; c += LANES, from += LANES) parts += *(const lanes *)from;
        for (; c < a->d; c++) sum += *from++;
        base[h] += sum + sum_of(parts)[0];
    }
}

/* Fills `weights` of receiver i with its logits, `messages` with v + E^val and, in the
   backward pass, `senders`. */
INLINE void fill(const channels *a, ptrdiff_t i) {
    const ptrdiff_t N = a->nodes, F = a->width, P = a->padded / LANES;
    if (a->count) memset(a->count, 0, F * sizeof(int64_t));
    for (ptrdiff_t j = 0; j < N; j++) {
        const float *features = a->features + (i * N + j) * F;
        lanes *logits = (lanes *)a->weights + j * P, *messages = (lanes *)a->messages + j * P;
        const lanes *v = (const lanes *)a->v + j * P;
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
        spread(a, a->base + i * a->base_stride + j * a->heads, (float *)logits);
        add_product(logits, logits, a->pair, count, (const lanes *)a->att, P);
        if (a->val)
            add_product(messages, v, a->pair, count, (const lanes *)a->val, P);
        else
            memcpy(messages, v, P * sizeof(lanes));
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
static void NAME(filter)(
    const channels *given, ptrdiff_t first, ptrdiff_t end, float *target
) {
    const channels copy = *given, *a = &copy;
    const ptrdiff_t N = a->nodes, P = a->padded / LANES;
    lanes *out = (lanes *)target;
    for (ptrdiff_t i = first; i < end; i++) {
        const float *keep = a->keep ? a->keep + i * N : NULL;
        fill(a, i);
        for (ptrdiff_t p = 0; p < P; p++) {
            lanes *weights = (lanes *)a->weights + p, *messages = (lanes *)a->messages + p;
            lanes sum = {0};
            const lanes inverse = exponentials(weights, N, P);
            for (ptrdiff_t j = 0; j < N; j++)
                sum += weights[j * P] * messages[j * P] * (keep ? keep[j] : 1);
            out[i * P + p] = sum * inverse;
        }
    }
}

static void NAME(filter_backward)(
    const channels *given, const channel_gradient *grad, ptrdiff_t first, ptrdiff_t end
) {
    const channels copy = *given, *a = &copy;
    const ptrdiff_t N = a->nodes, P = a->padded / LANES;
    for (ptrdiff_t i = first; i < end; i++) {
        const float *keep = a->keep ? a->keep + i * N : NULL;
        fill(a, i);
        for (ptrdiff_t p = 0; p < P; p++) {
            lanes *weights = (lanes *)a->weights + p, *messages = (lanes *)a->messages + p;
            lanes *sent = (lanes *)a->sent + p, *v = (lanes *)grad->v + p;
            lanes mean = {0};
            const lanes inverse = exponentials(weights, N, P);
            const lanes out = ((const lanes *)grad->out)[i * P + p];
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
                a, a->messages + j * a->padded,
                grad->base + i * a->base_stride + j * a->heads
            );
        for (ptrdiff_t f = 0; f < a->width; f++) {
            const entry *senders = a->senders + f * N;
            lanes *att = (lanes *)grad->att + f * P;
            add_product(att, att, senders, a->count[f], (lanes *)a->messages, P);
            if (a->val) {
                lanes *val = (lanes *)grad->val + f * P;
                add_product(val, val, senders, a->count[f], (lanes *)a->sent, P);
            }
        }
    }
}

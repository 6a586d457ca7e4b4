/* Attention with a score per channel, for one kind of processor (_processors.h). A block of
   neighbouring channels of a few pairs of one receiver stays in registers and the cache. */

#include "_lanes.h"

#define scan NAME(scan)
#define shares NAME(shares)
#define share NAME(share)
#define read_base NAME(read_base)
#define read_pair NAME(read_pair)
#define filter_block NAME(filter_block)
#define filter_block_backward NAME(filter_block_backward)
#define add_heads NAME(add_heads)
#define filter_graph NAME(filter_graph)

#define WIDEST_BLOCK (LANES < 8 ? 4 : 6) /* vectors in registers: whole eights */
#define ALIGNED __attribute__((aligned(64)))
#define PAIRS 32       /* whose logits and messages stay in the cache */
#define EACH(k) _Pragma("GCC unroll 8") for (int k = 0; k < w; k++)

/* Fills `features_of`; -0 is 0. */
static void scan(const channels *a, ptrdiff_t i) {
    const ptrdiff_t N = a->nodes, F = a->width;
    const float *end = a->features + F * N * N;
    for (ptrdiff_t word = 0; word < WORDS(F); word++)
        for (ptrdiff_t j = 0; j < N; j += LANES) {
            whole_lanes bits = {0};
            for (ptrdiff_t f = 32 * word; f < F && f < 32 * (word + 1); f++) {
                const lanes x = part(a->features + (f * N + i) * N + j, end, N - j, 0);
                bits |= (x != 0) & (int32_t)(1u << f % 32);
            }
            *(whole_lanes *)(a->features_of + word * N + j) = bits;
        }
}

/* The heads whose channels are in each vector of a block: those of vector k are the shares
   first[k] .. first[k + 1] - 1. */
typedef struct {
    ptrdiff_t first[WIDEST_BLOCK + 1], head[WIDEST_BLOCK * (LANES + 1)];
    whole_lanes mask[WIDEST_BLOCK * (LANES + 1)];
} shares;

INLINE void share(const channels *a, ptrdiff_t channel, int w, shares *to) {
    ptrdiff_t n = 0;
    whole_lanes places;
    for (int lane = 0; lane < LANES; lane++) places[lane] = lane;
    for (int k = 0; k < w; k++, channel += LANES) {
        to->first[k] = n;
        for (ptrdiff_t h = channel / a->d; h * a->d < channel + LANES; h++) {
            to->head[n] = (h < a->heads ? h : 0) * a->base_head; /* 0 for padding */
            to->mask[n++] = (places >= (int32_t)(h * a->d - channel)) &
                            (places < (int32_t)((h + 1) * a->d - channel));
        }
    }
    to->first[w] = n;
}

/* Fills `logits` of n pairs from j on with the scores of nodes. */
INLINE void read_base(
    const channels *a, ptrdiff_t i, ptrdiff_t j, ptrdiff_t n, int w, const shares *heads,
    lanes *logits
) {
    for (int k = 0; k < w; k++)
        for (ptrdiff_t m = heads->first[k]; m < heads->first[k + 1]; m++) {
            const whole_lanes mask = heads->mask[m];
            const float *base = a->base + heads->head[m] + i * a->base_stride + j;
            lanes *to = logits + k;
            for (ptrdiff_t pair = 0; pair < n; pair++, to += w) {
                lanes x = WHERE(mask, (lanes){0} + base[pair]);
                if (m > heads->first[k]) x += *to;
                *to = x;
            }
        }
    for (ptrdiff_t f = 0; f < a->width; f++) { /* of the next receiver */
        const float *next = a->features + (f * a->nodes + i + 1) * a->nodes + j;
        __builtin_prefetch(next);
        __builtin_prefetch(next + PAIRS / 2);
    }
}

/* Adds E^att to the logits of a pair; its message v + E^val. */
INLINE void read_pair(
    const channels *a, ptrdiff_t i, ptrdiff_t j, ptrdiff_t p, int w, lanes *logit,
    lanes *message
) {
    const ptrdiff_t N = a->nodes;
    const float *feature = a->features + i * N + j;
    const lanes *v = (const lanes *)(a->v + j * a->padded) + p;
    EACH(k) message[k] = v[k];
    for (ptrdiff_t word = 0; word < WORDS(a->width); word++)
        for (uint32_t bits = a->features_of[word * N + j]; bits; bits &= bits - 1) {
            const ptrdiff_t f = 32 * word + __builtin_ctz(bits);
            const float x = feature[f * N * N];
            const lanes *att = (const lanes *)(a->att + f * a->padded) + p;
            const lanes *val = (const lanes *)(a->val + f * a->padded) + p;
            EACH(k) logit[k] += x * att[k];
            if (a->val) EACH(k) message[k] += x * val[k];
        }
}

INLINE void filter_block(const channels *a, ptrdiff_t i, ptrdiff_t p, int w) {
    const ptrdiff_t N = a->nodes, at = i * a->padded / LANES + p;
    const float *keep = a->keep ? a->keep + i * N : NULL;
    ALIGNED lanes logits[PAIRS * WIDEST_BLOCK], messages[PAIRS * WIDEST_BLOCK];
    lanes most[WIDEST_BLOCK], sum[WIDEST_BLOCK] = {{0}}, total[WIDEST_BLOCK] = {{0}};
    shares heads;
    share(a, p * LANES, w, &heads);
    EACH(k) most[k] = ALL(-FLT_MAX);
    for (ptrdiff_t first = 0; first < N; first += PAIRS) {
        const ptrdiff_t n = N - first < PAIRS ? N - first : PAIRS;
        lanes before[WIDEST_BLOCK];
        read_base(a, i, first, n, w, &heads, logits);
        EACH(k) before[k] = most[k];
        for (ptrdiff_t j = 0; j < n; j++) {
            lanes logit[WIDEST_BLOCK], message[WIDEST_BLOCK];
            EACH(k) logit[k] = logits[j * w + k];
            read_pair(a, i, first + j, p, w, logit, message);
            EACH(k) most[k] = larger(most[k], logit[k]);
            EACH(k) logits[j * w + k] = logit[k];
            EACH(k) messages[j * w + k] = message[k];
        }
        EACH(k) {
            const lanes scale = exp_of_negative(before[k] - most[k]);
            total[k] *= scale;
            sum[k] *= scale;
        }
        for (ptrdiff_t j = 0; j < n; j++) {
            const float kept = keep ? keep[first + j] : 1;
            EACH(k) {
                const lanes weight = exp_of_negative(logits[j * w + k] - most[k]);
                total[k] += weight;
                sum[k] += weight * messages[j * w + k] * kept;
            }
        }
    }
    EACH(k) {
        ((lanes *)a->most)[at + k] = most[k];
        ((lanes *)a->inverse)[at + k] = total[k] = 1 / total[k];
        ((lanes *)a->out)[at + k] = sum[k] * total[k];
    }
}

/* Adds sums over the channels of each head, of n pairs, to base; `width` channels from
   `first` on. */
INLINE void add_heads(
    const channels *a, const float *changes, ptrdiff_t n, ptrdiff_t first, ptrdiff_t width,
    float *base
) {
    for (ptrdiff_t j = 0; j < n; j += 8, changes += 8 * width)
        for (ptrdiff_t part = 0; part < width; part += 8) {
            eight x[8];
            for (int i = 0; i < 8; i++) x[i] = *(const eight *)(changes + i * width + part);
            turn_eight(x);
            for (ptrdiff_t c = 0; c < 8;) {
                const ptrdiff_t h = (first + part + c) / a->d;
                const ptrdiff_t end = (h + 1) * a->d - first - part;
                float *to = base + h * a->base_head + j;
                eight sum = x[c++];
                if (h >= a->heads) break;
                while (c < 8 && c < end) sum += x[c++];
                if (n - j >= 8) *(eight *)to += sum;
                for (ptrdiff_t i = 0; n - j < 8 && i < n - j; i++) to[i] += sum[i];
            }
        }
}

INLINE void filter_block_backward(
    const channels *a, ptrdiff_t i, ptrdiff_t p, int w
) {
    const ptrdiff_t N = a->nodes, P = a->padded, at = i * P / LANES + p;
    const float *keep = a->keep ? a->keep + i * N : NULL;
    float *base = a->of_base + i * a->base_stride;
    ALIGNED lanes changes[PAIRS * WIDEST_BLOCK] = {{0}}, sent[PAIRS * WIDEST_BLOCK];
    lanes most[WIDEST_BLOCK], out[WIDEST_BLOCK], z[WIDEST_BLOCK];
    shares heads;
    share(a, p * LANES, w, &heads);
    EACH(k) {
        most[k] = ((lanes *)a->most)[at + k];
        out[k] = ((const lanes *)a->grad)[at + k] * ((lanes *)a->inverse)[at + k];
        z[k] = ((lanes *)a->out)[at + k];
    }
    for (ptrdiff_t first = 0; first < N; first += PAIRS) {
        const ptrdiff_t n = N - first < PAIRS ? N - first : PAIRS;
        read_base(a, i, first, n, w, &heads, changes);
        for (ptrdiff_t j = 0; j < n; j++) {
            const float kept = keep ? keep[first + j] : 1;
            lanes logit[WIDEST_BLOCK], message[WIDEST_BLOCK];
            lanes *v = (lanes *)(a->of_v + (first + j) * P) + p;
            EACH(k) logit[k] = changes[j * w + k];
            read_pair(a, i, first + j, p, w, logit, message);
            EACH(k) {
                const lanes weight = exp_of_negative(logit[k] - most[k]) * out[k];
                changes[j * w + k] = weight * (kept * message[k] - z[k]);
                sent[j * w + k] = message[k] = weight * kept;
                v[k] += message[k];
            }
        }
        for (ptrdiff_t f = 0; f < a->width; f++) {
            const float *feature = a->features + (f * N + i) * N + first;
            lanes *att = (lanes *)(a->of_att + f * P) + p;
            lanes *val = (lanes *)(a->of_val + f * P) + p;
            lanes of_att[WIDEST_BLOCK] = {{0}}, of_val[WIDEST_BLOCK] = {{0}};
            uint32_t some = 0;
            for (ptrdiff_t j = 0; j < n; j += LANES)
                some |= nonzero(feature + j, a->features + a->width * N * N, n - j) << j;
            if (!some) continue;
            for (uint32_t bits = some; bits; bits &= bits - 1) {
                const ptrdiff_t j = __builtin_ctz(bits);
                const float x = feature[j];
                EACH(k) of_att[k] += x * changes[j * w + k];
                if (a->val) EACH(k) of_val[k] += x * sent[j * w + k];
            }
            EACH(k) att[k] += of_att[k];
            if (a->val) EACH(k) val[k] += of_val[k];
        }
        add_heads(a, (const float *)changes, n, p * LANES, w * LANES, base + first);
    }
}

/* Blocks of about the same width. */
#define FOR_BLOCKS(call)                                                          \
    const ptrdiff_t blocks = (P + WIDEST_BLOCK - 1) / WIDEST_BLOCK;               \
    for (ptrdiff_t p = 0, w = (P + blocks - 1) / blocks; p < P; p += w) {         \
        if (w > P - p) w = P - p;                                                 \
        if (WIDEST_BLOCK == 4 || w == 4) call(4); else if (w == 1) call(1);       \
        else if (w == 2) call(2); else if (w == 3) call(3);                       \
        else if (w == 5) call(5); else call(6);                                   \
    }

/* Receivers first .. end - 1 of a graph. In a copy of its own no write can change what a
   function reads from `a`. */
static void filter_graph(const channels *given, ptrdiff_t first, ptrdiff_t end) {
    const channels copy = *given, *a = &copy;
    const ptrdiff_t P = a->padded / LANES;
    for (ptrdiff_t i = first; i < end; i++) {
        scan(a, i);
#define FORWARD(w) filter_block(a, i, p, w)
#define BACKWARD(w) filter_block_backward(a, i, p, w)
        if (a->grad) {
            FOR_BLOCKS(BACKWARD)
        } else {
            FOR_BLOCKS(FORWARD)
        }
    }
}

/* What each thread does: one item after another, until none is left. An item is a slice of
   the receivers of each graph of a part. */
static void NAME(filter)(channels *given) {
    channels a = *given;
    const ptrdiff_t B = a.graphs, N = a.nodes, F = a.width, H = a.heads, size = N * a.padded;
    a.base_stride = a.receivers > 1 ? N : 0;
    a.base_head = a.receivers * N;
    a.features_of += next_number(&given->next_room) * (WORDS(F) * N + 16);
    for (ptrdiff_t item; (item = next_number(&given->next_item)) < a.parts * a.slices;) {
        const ptrdiff_t part = item / a.slices, slice = item % a.slices;
        a.of_att = given->of_att + item * F * a.padded;
        a.of_val = given->of_val + item * F * a.padded;
        for (ptrdiff_t b = B * part / a.parts; b < B * (part + 1) / a.parts; b++) {
            const ptrdiff_t base = b * a.receivers * N * H;
            a.base = given->base + base;
            a.features = given->features + b * N * N * F;
            a.v = given->v + b * size;
            a.keep = given->keep ? given->keep + b * N * N : NULL;
            a.out = given->out + b * size;
            a.most = a.out + B * size;
            a.inverse = a.most + B * size;
            a.grad = given->grad ? given->grad + b * size : NULL;
            a.of_v = given->of_v + (slice * B + b) * size;
            a.of_base = given->of_base + base + (a.receivers == 1 ? slice * B * N * H : 0);
            filter_graph(&a, N * slice / a.slices, N * (slice + 1) / a.slices);
        }
    }
}

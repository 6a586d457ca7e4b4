/* Attention with a score per channel, for one kind of processor (_processors.h). A block of
   neighbouring channels of one receiver stays in the cache. */

#include "_lanes.h"

#define scan NAME(scan)
#define shares NAME(shares)
#define share NAME(share)
#define fill NAME(fill)
#define filter_block NAME(filter_block)
#define filter_block_backward NAME(filter_block_backward)
#define add_heads NAME(add_heads)

#define WIDEST_BLOCK 4   /* vectors that stay in registers */
#define CACHED_BLOCK 131072 /* bytes */

/* Fills `pairs` of receiver i with features that are neither 0 nor -0, and, in the backward
   pass, `senders`. */
static void scan(const channels *a, ptrdiff_t i) {
    const ptrdiff_t N = a->nodes, F = a->width;
    const float *feature = a->features + i * N * F;
    float *value = a->pairs.value;
    int32_t *row = a->pairs.row;
    ptrdiff_t count = 0;
    if (a->count) memset(a->count, 0, F * sizeof(int64_t));
    for (ptrdiff_t j = 0; j < N; j++) {
        a->first[j] = count;
        for (int32_t f = 0; f < F; f++, feature++) {
            uint32_t bits;
            memcpy(&bits, feature, sizeof(bits));
            value[count] = *feature;
            row[count] = f;
            count += bits << 1 != 0;
        }
        for (ptrdiff_t n = a->first[j]; a->count && n < count; n++) {
            const ptrdiff_t at = row[n] * N + a->count[row[n]]++;
            a->senders.value[at] = value[n];
            a->senders.row[at] = (int32_t)j;
        }
    }
    a->first[N] = count;
}

/* Which heads have channels in each vector of a block: those of vector k are the shares
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
        for (ptrdiff_t h = channel / a->d; h < a->heads && h * a->d < channel + LANES; h++) {
            to->head[n] = h * a->base_head;
            to->mask[n++] = (places >= (int32_t)(h * a->d - channel)) &
                            (places < (int32_t)((h + 1) * a->d - channel));
        }
    }
    to->first[w] = n;
}

/* Fills `weights` of a block of w vectors from p on with logits, `most` with the largest,
   and `messages` with v + E^val. */
INLINE void fill(
    const channels *a, const float *base, ptrdiff_t p, int w, const shares *heads, lanes *most
) {
    const ptrdiff_t P = a->padded / LANES;
    lanes *weights = (lanes *)a->weights, *messages = (lanes *)a->messages;
    const lanes *v = (const lanes *)a->v + p;
    const lanes *att = (const lanes *)a->att + p, *val = (const lanes *)a->val + p;
    for (int k = 0; k < w; k++) most[k] = ALL(-INFINITY);
    for (ptrdiff_t j = 0; j < a->nodes; j++, v += P, weights += w, messages += w) {
        lanes logit[WIDEST_BLOCK], message[WIDEST_BLOCK];
        for (int k = 0; k < w; k++) {
            message[k] = v[k];
            logit[k] = ALL(0);
            for (ptrdiff_t n = heads->first[k]; n < heads->first[k + 1]; n++)
                logit[k] += WHERE(heads->mask[n], ALL(base[heads->head[n] + j]));
        }
        for (ptrdiff_t n = a->first[j]; n < a->first[j + 1]; n++) {
            const ptrdiff_t at = a->pairs.row[n] * P;
            for (int k = 0; k < w; k++) logit[k] += a->pairs.value[n] * att[at + k];
            for (int k = 0; k < w && a->val; k++) message[k] += a->pairs.value[n] * val[at + k];
        }
        for (int k = 0; k < w; k++) {
            most[k] = larger(most[k], logit[k]);
            weights[k] = logit[k];
            messages[k] = message[k];
        }
    }
}

INLINE void filter_block(const channels *a, ptrdiff_t i, ptrdiff_t p, int w, lanes *out) {
    const ptrdiff_t N = a->nodes;
    const float *keep = a->keep ? a->keep + i * N : NULL;
    const lanes *weights = (lanes *)a->weights, *messages = (lanes *)a->messages;
    lanes most[WIDEST_BLOCK], sum[WIDEST_BLOCK] = {{0}}, total[WIDEST_BLOCK] = {{0}};
    shares heads;
    share(a, p * LANES, w, &heads);
    fill(a, a->base + i * a->base_stride, p, w, &heads, most);
    for (ptrdiff_t j = 0; j < N; j++, weights += w, messages += w)
        for (int k = 0; k < w; k++) {
            const lanes weight = exp_of_negative(weights[k] - most[k]);
            total[k] += weight;
            sum[k] += weight * messages[k] * (keep ? keep[j] : 1);
        }
    for (int k = 0; k < w; k++) out[k] = sum[k] / total[k];
}

/* Adds sums over the channels of each head, of `width` channels from `first` on. */
INLINE void add_heads(
    const channels *a, const float *changes, ptrdiff_t first, ptrdiff_t width, float *base
) {
    for (ptrdiff_t j = 0; j < a->nodes; j += 8, changes += 8 * width)
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
                for (ptrdiff_t i = 0; i < 8 && j + i < a->nodes; i++) to[i] += sum[i];
            }
        }
}

INLINE void filter_block_backward(
    const channels *a, const channel_gradient *grad, ptrdiff_t i, ptrdiff_t p, int w
) {
    const ptrdiff_t N = a->nodes, P = a->padded / LANES;
    const float *keep = a->keep ? a->keep + i * N : NULL;
    float *base = grad->base + i * a->base_stride;
    lanes *weights = (lanes *)a->weights, *messages = (lanes *)a->messages;
    lanes *sent = (lanes *)a->sent, *v = (lanes *)grad->v + p;
    lanes most[WIDEST_BLOCK], out[WIDEST_BLOCK];
    lanes mean[WIDEST_BLOCK] = {{0}}, total[WIDEST_BLOCK] = {{0}};
    shares heads;
    share(a, p * LANES, w, &heads);
    fill(a, a->base + i * a->base_stride, p, w, &heads, most);
    for (int k = 0; k < w; k++) out[k] = ((const lanes *)grad->out)[i * P + p + k];
    for (ptrdiff_t j = 0; j < N; j++) /* messages become gradients of weights */
        for (int k = 0; k < w; k++) {
            const lanes weight = exp_of_negative(weights[j * w + k] - most[k]);
            messages[j * w + k] *= out[k] * (keep ? keep[j] : 1);
            weights[j * w + k] = weight;
            total[k] += weight;
            mean[k] += weight * messages[j * w + k];
        }
    for (int k = 0; k < w; k++) {
        total[k] = 1 / total[k];
        mean[k] *= total[k];
    }
    for (ptrdiff_t j = 0; j < N; j++, v += P) /* and then of logits */
        for (int k = 0; k < w; k++) {
            const lanes weight = weights[j * w + k] * total[k];
            const lanes change = weight * (messages[j * w + k] - mean[k]);
            sent[j * w + k] = weight * out[k] * (keep ? keep[j] : 1);
            v[k] += sent[j * w + k];
            messages[j * w + k] = change;
        }
    add_heads(a, (const float *)messages, p * LANES, w * LANES, base);
    for (ptrdiff_t f = 0; f < a->width; f++) {
        lanes *to[2] = {(lanes *)grad->att + f * P + p, (lanes *)grad->val + f * P + p};
        for (int map = 0; map < (a->val ? 2 : 1); map++) {
            const lanes *from = map ? sent : messages;
            lanes sum[WIDEST_BLOCK] = {{0}};
            for (ptrdiff_t n = f * N; n < f * N + a->count[f]; n++)
                for (int k = 0; k < w; k++)
                    sum[k] += a->senders.value[n] * from[a->senders.row[n] * w + k];
            for (int k = 0; k < w; k++) to[map][k] += sum[k];
        }
    }
}

/* Blocks of as many vectors as the cache takes, of about the same width. */
#define FOR_BLOCKS(call)                                                          \
    ptrdiff_t most = CACHED_BLOCK / (ptrdiff_t)(3 * sizeof(lanes) * a->nodes);    \
    most = most < 1 ? 1 : most > WIDEST_BLOCK ? WIDEST_BLOCK : most;              \
    const ptrdiff_t blocks = (P + most - 1) / most;                               \
    for (ptrdiff_t p = 0, w = (P + blocks - 1) / blocks; p < P; p += w) {         \
        if (w > P - p) w = P - p;                                                 \
        if (w == 1) call(1); else if (w == 2) call(2);                            \
        else if (w == 3) call(3); else call(4);                                   \
    }

/* Receivers first .. end - 1; out [N, P]. In a copy of its own no write can change what
   a function reads from `a`. */
static void NAME(filter)(
    const channels *given, ptrdiff_t first, ptrdiff_t end, float *out
) {
    const channels copy = *given, *a = &copy;
    const ptrdiff_t P = a->padded / LANES;
    for (ptrdiff_t i = first; i < end; i++) {
        scan(a, i);
#define FORWARD(w) filter_block(a, i, p, w, (lanes *)out + i * P + p)
        FOR_BLOCKS(FORWARD)
    }
}

static void NAME(filter_backward)(
    const channels *given, const channel_gradient *grad, ptrdiff_t first, ptrdiff_t end
) {
    const channels copy = *given, *a = &copy;
    const ptrdiff_t P = a->padded / LANES;
    for (ptrdiff_t i = first; i < end; i++) {
        scan(a, i);
#define BACKWARD(w) filter_block_backward(a, grad, i, p, w)
        FOR_BLOCKS(BACKWARD)
    }
}

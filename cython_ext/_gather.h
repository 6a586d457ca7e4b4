/* Attention along edges, for one kind of processor (_processors.h); with eight numbers at a
   time, because heads of eight and ten channels are usual. */

#undef LANES
#define LANES 8
#include "_lanes.h"

#define rows NAME(rows)
#define start NAME(start)
#define part_of NAME(part_of)
#define place NAME(place)
#define factors_of NAME(factors_of)
#define scores NAME(scores)
#define spread NAME(spread)
#define times NAME(times)
#define FOR_PIECES(h)                                                              \
    for (const edge_piece *piece = a->pieces + a->first_piece[h];                  \
         piece < a->pieces + a->first_piece[(h) + 1]; piece++)
#define MASK (*(const whole_lanes *)piece->mask)

typedef struct { /* of a thread */
    float *weights, *slopes, *scores; /* of the edges of a node, [edges, H] */
    float *inverse, *mean;            /* [H] */
    lanes *change;                    /* gradient of the channels of an edge */
} rows;

INLINE rows start(edge_job *shared) {
    rows r;
    r.weights = shared->rooms + next_number(&shared->next_room) * shared->room;
    r.slopes = r.weights + shared->numbers;
    r.scores = r.slopes + shared->numbers;
    r.inverse = r.scores + shared->numbers;
    r.mean = r.inverse + shared->heads;
    r.change = (lanes *)(r.mean + shared->heads);
    return r;
}

/* The node of each part, one part after another, and its edges. */
#define FOR_NODES                                                                  \
    for (ptrdiff_t part; (part = next_number(&shared->next_part)) < a->parts;)     \
        for (ptrdiff_t i = a->nodes * part / a->parts;                             \
             i < a->nodes * (part + 1) / a->parts; i++)
#define FOR_EDGES for (ptrdiff_t n = a->first[i], m = 0; n < a->first[i + 1]; n++, m++)

/* Queries, keys or values of a node; place of the factors of an edge, and these. */
INLINE const lanes *part_of(const edge_job *a, ptrdiff_t node, int which) {
    return (const lanes *)(a->qkv + (3 * node + which) * a->width);
}
INLINE ptrdiff_t place(const edge_job *a, ptrdiff_t e) {
    return (a->kind ? a->kind[e] : e) * a->width;
}
INLINE const lanes *factors_of(const edge_job *a, ptrdiff_t e) {
    return a->factor ? (const lanes *)(a->factor + place(a, e)) : NULL;
}

INLINE lanes times(lanes x, const lanes *factor, ptrdiff_t v) {
    if (factor) x *= factor[v];
    return x;
}

/* Scores of the edges of target i, and products of values with a vector `of_out`. */
INLINE void scores(
    const edge_job *a, ptrdiff_t i, float *to, const lanes *of_out, float *products
) {
    const lanes *q = part_of(a, i, 0);
    FOR_EDGES {
        const ptrdiff_t e = a->order[n];
        const lanes *k = part_of(a, a->source[e], 1);
        const lanes *value = part_of(a, a->source[e], 2), *factor = factors_of(a, e);
        lanes *channels = a->channels ? (lanes *)(a->channels + e * a->width) : NULL;
        for (ptrdiff_t h = 0; h < a->heads; h++) {
            lanes sum = {0}, product = {0};
            FOR_PIECES(h) {
                const ptrdiff_t v = piece->vector;
                const lanes x = times(q[v] * a->scale * k[v], factor, v);
                if (channels) channels[v] = x;
                sum += WHERE(MASK, x);
                if (of_out) product += WHERE(MASK, of_out[v] * value[v]);
            }
            to[m * a->heads + h] = sum_of(sum)[0];
            if (of_out) products[m * a->heads + h] = sum_of(product)[0];
        }
    }
}

static void NAME(forward)(edge_job *shared) {
    const edge_job copy = complete(shared), *a = &copy;
    const ptrdiff_t H = a->heads;
    const rows r = start(shared);
    FOR_NODES {
        lanes *out = (lanes *)(a->out + i * a->width);
        memset(out, 0, a->width * sizeof(float));
        scores(a, i, r.weights, NULL, NULL);
        exponentials(r.weights, a->first[i + 1] - a->first[i], H, a->epsilon, r.inverse);
        FOR_EDGES {
            const lanes *value = part_of(a, a->source[a->order[n]], 2);
            const float *keep = a->keep ? a->keep + a->order[n] * H : NULL;
            for (ptrdiff_t h = 0; h < H; h++) {
                const float kept = keep ? keep[h] : 1;
                const lanes weight = ALL(r.weights[m * H + h] * r.inverse[h] * kept);
                FOR_PIECES(h) {
                    const ptrdiff_t v = piece->vector;
                    out[v] += WHERE(MASK, weight * value[v]);
                }
            }
        }
    }
}

/* `change`: gradient of the channels of an edge. */
INLINE void spread(const edge_job *a, ptrdiff_t e, lanes *change) {
    if (a->of_channels) memcpy(change, a->of_channels + e * a->width, a->width * sizeof(float));
    else memset(change, 0, a->width * sizeof(float));
    for (ptrdiff_t h = 0; h < a->heads; h++) {
        const lanes slope = ALL(a->slopes[e * a->heads + h]);
        FOR_PIECES(h) change[piece->vector] += WHERE(MASK, slope);
    }
}

/* Gradients of queries and factors, and those of scores for `of_sources`. */
static void NAME(of_targets)(edge_job *shared) {
    const edge_job copy = complete(shared), *a = &copy;
    const ptrdiff_t H = a->heads;
    const rows r = start(shared);
    FOR_NODES {
        const lanes *q = part_of(a, i, 0), *of_out = (const lanes *)(a->of_out + i * a->width);
        lanes *of_q = (lanes *)(a->of_qkv + 3 * i * a->width);
        const ptrdiff_t count = a->first[i + 1] - a->first[i];
        scores(a, i, r.scores, of_out, r.slopes);
        memcpy(r.weights, r.scores, count * H * sizeof(float));
        exponentials(r.weights, count, H, a->epsilon, r.inverse);
        memset(r.mean, 0, H * sizeof(float));
        FOR_EDGES {
            const ptrdiff_t e = a->order[n];
            for (ptrdiff_t h = 0; h < H; h++) {
                const float weight = r.weights[m * H + h] *= r.inverse[h];
                const float keep = a->keep ? a->keep[e * H + h] : 1;
                r.slopes[m * H + h] *= keep;
                r.mean[h] += weight * r.slopes[m * H + h];
                a->kept[e * H + h] = weight * keep;
            }
        }
        memset(of_q, 0, a->width * sizeof(float));
        FOR_EDGES {
            const ptrdiff_t e = a->order[n];
            const lanes *k = part_of(a, a->source[e], 1);
            const lanes *factor = factors_of(a, e);
            const ptrdiff_t at = (a->kind ? part * a->kinds * a->width : 0) + place(a, e);
            lanes *of_factor = factor ? (lanes *)(a->of_factor + at) : NULL;
            for (ptrdiff_t h = 0; h < H; h++) {
                const ptrdiff_t at = m * H + h;
                const float slope = r.weights[at] * (r.slopes[at] - r.mean[h]);
                a->slopes[e * H + h] = fabsf(r.scores[at]) >= CLAMP ? 0 : slope;
            }
            spread(a, e, r.change);
            for (ptrdiff_t v = 0; v < a->width / LANES; v++) {
                const lanes change = r.change[v] * a->scale;
                of_q[v] += change * times(k[v], factor, v);
                if (factor) of_factor[v] += change * q[v] * k[v];
            }
        }
    }
}

/* Gradients of keys and values. */
static void NAME(of_sources)(edge_job *shared) {
    const edge_job copy = complete(shared), *a = &copy;
    const rows r = start(shared);
    FOR_NODES {
        lanes *of_k = (lanes *)(a->of_qkv + (3 * i + 1) * a->width);
        lanes *of_v = (lanes *)(a->of_qkv + (3 * i + 2) * a->width);
        memset(of_k, 0, 2 * a->width * sizeof(float));
        FOR_EDGES {
            const ptrdiff_t e = a->order[n];
            const lanes *q = part_of(a, a->target[e], 0);
            const lanes *of_out = (const lanes *)(a->of_out + a->target[e] * a->width);
            const lanes *factor = factors_of(a, e);
            spread(a, e, r.change);
            for (ptrdiff_t v = 0; v < a->width / LANES; v++)
                of_k[v] += r.change[v] * a->scale * times(q[v], factor, v);
            for (ptrdiff_t h = 0; h < a->heads; h++) {
                const lanes weight = ALL(a->kept[e * a->heads + h]);
                FOR_PIECES(h) {
                    const ptrdiff_t v = piece->vector;
                    of_v[v] += WHERE(MASK, weight * of_out[v]);
                }
            }
        }
    }
}

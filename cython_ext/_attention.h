/* Attention of one graph and its gradient, for eight heads at a time; _attention.pyx
   calls it, and attention.py documents it.

   Heads are the last axis of every array of lanes, so that a pair's look-up of its
   relation is one read of eight neighbouring numbers, one per head. */

#include <math.h>

#include "_lanes.h"

#if HAS_VECTORS
/* A sequence of random numbers per lane; see `random_bits`. */
typedef struct {
    bit_lanes start, step;
} streams;

#else
typedef struct {
    uint32_t start, step;
} streams;
#endif

/* Names as in attention.py, T = nodes, R = relations. Forbidden pairs have relation R;
   tables do not have that row. q and key_table include the factor 1 / sqrt(d). */
typedef struct {
    ptrdiff_t nodes, relations, d;
    const int64_t *relation; /* [T, T]; NULL: no relations, all pairs are allowed */
    uint8_t *occurs;         /* [R + 1], of this graph */
    int key_from_row;
    const float *bias; /* [bias_heads, T, T] or NULL */
    ptrdiff_t bias_heads;
    uint32_t drop_below; /* weights with smaller random bits are dropped */
    streams random;
    lanes *q, *k, *v;                             /* [T, d], one after another */
    lanes *query_table, *key_table, *value_table; /* [R, d], one after another */
    lanes *query, *key;    /* products with the tables: [R] of one row, [T, R] */
    lanes *weights, *sums; /* of one row: [T]; per relation [R] */
    lanes *pairs;          /* of one row, [T]: its bias; its gradient */
} attention;

/* Layouts as in `attention`. */
typedef struct {
    lanes *out; /* times 1 / (1 - p) */
    lanes *q, *k, *v;
    lanes *query_table, *key_table, *value_table; /* sums over graphs */
    lanes *query, *key, *value;                   /* [R] of one row, [T, R], [R] */
    float *bias;
} gradient;

#if HAS_VECTORS
INLINE uint64_t mixed64(uint64_t x) { /* SplitMix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Streams first .. first + 7 of a seed. */
static streams streams_of(uint64_t seed, uint64_t first) {
    streams result;
    for (int h = 0; h < LANES; h++) {
        uint64_t key = mixed64(seed + (first + h + 1) * 0x9e3779b97f4a7c15u);
        result.start[h] = (uint32_t)key;
        result.step[h] = (uint32_t)(key >> 32) | 1;
    }
    return result;
}

/* 32 bits of each stream: start + number * step, mixed. They depend on nothing that was
   drawn before, so that a backward pass draws those of its forward pass again, and
   threads do not matter. */
INLINE bit_lanes random_bits(const streams *streams, uint32_t number) {
    bit_lanes x = streams->start + number * streams->step;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* from[0], from[stride], .. from[7 * stride] */
INLINE lanes every(const float *from, ptrdiff_t stride) {
    const float *middle = from + 4 * stride;
    return (lanes){
        from[0], from[stride], from[2 * stride], from[3 * stride],
        middle[0], middle[stride], middle[2 * stride], middle[3 * stride],
    };
}

/* Rows of each head -> [rows, d] lanes, with zeros for missing heads. */
CLONES static void to_lanes(
    const float *source, ptrdiff_t head_stride, ptrdiff_t row_stride, ptrdiff_t rows,
    ptrdiff_t d, ptrdiff_t heads, float scale, lanes *target
) {
    for (ptrdiff_t row = 0; row < rows; row++, source += row_stride)
        for (ptrdiff_t c = 0; c < d; c++, target++) {
            if (heads == LANES) {
                *target = scale * every(source + c, head_stride);
                continue;
            }
            *target = ALL(0);
            for (ptrdiff_t h = 0; h < heads; h++)
                (*target)[h] = scale * source[h * head_stride + c];
        }
}

/* The inverse of `to_lanes`. */
CLONES static void from_lanes(
    const lanes *source, ptrdiff_t head_stride, ptrdiff_t row_stride, ptrdiff_t rows,
    ptrdiff_t d, ptrdiff_t heads, float scale, float *target
) {
    for (ptrdiff_t row = 0; row < rows; row++, source += d)
        for (ptrdiff_t h = 0; h < heads; h++) {
            const float *from = (const float *)source + h;
            float *to = target + row * row_stride + h * head_stride;
            ptrdiff_t c = 0;
            for (; c + LANES <= d; c += LANES)
                *(lanes *)(to + c) = scale * every(from + c * LANES, LANES);
            for (; c < d; c++) to[c] = scale * from[c * LANES];
        }
}
static void mark_relations(const attention *a) {
    memset(a->occurs, 0, a->relations + 1);
    for (ptrdiff_t pair = 0; pair < a->nodes * a->nodes; pair++)
        a->occurs[a->relation[pair]] = 1;
}

#define FOR_ALLOWED(j)                         \
    for (ptrdiff_t j = 0; j < a->nodes; j++)   \
        if (!related || to[j] != a->relations)
#define FOR_RELATIONS(r)                                   \
    for (ptrdiff_t r = 0; related && r < a->relations; r++) \
        if (a->occurs[r])

/* The functions below get a->d as an argument, so that there are versions of them for the
   widths of most models, in which the vector of a node stays in registers. */
#define WIDEST 10 /* vectors of 32 bytes in 16 registers, with some to spare */

INLINE void multiply_keys(const attention *a, int related, ptrdiff_t d) {
    for (ptrdiff_t j = 0; j < a->nodes && !a->key_from_row; j++)
        FOR_RELATIONS(r)
            a->key[j * a->relations + r] =
                product(a->k + j * d, a->key_table + r * d, d);
}

/* Fills `weights` of row i with exp(score - largest score) and returns 1 / their sum; 0
   where all pairs are forbidden. */
INLINE lanes weigh_row(const attention *a, ptrdiff_t i, int related, ptrdiff_t d) {
    const int64_t *to = related ? a->relation + i * a->nodes : NULL;
    const lanes *q = a->q + i * d;
    lanes largest = ALL(-INFINITY), total = {0};
    ptrdiff_t allowed = 0;
    FOR_RELATIONS(r) {
        a->query[r] = product(q, a->query_table + r * d, d);
        if (a->key_from_row)
            a->query[r] += product(a->k + i * d, a->key_table + r * d, d);
    }
    if (a->bias)
        to_lanes(
            a->bias + i * a->nodes, a->nodes * a->nodes, 0, 1, a->nodes, a->bias_heads,
            1, a->pairs
        );
    FOR_ALLOWED(j) {
        lanes score = product(q, a->k + j * d, d);
        if (related) score += a->query[to[j]];
        if (related && !a->key_from_row) score += a->key[j * a->relations + to[j]];
        if (a->bias) score += a->pairs[j];
        a->weights[j] = score;
        largest = larger(largest, score);
        allowed++;
    }
    FOR_ALLOWED(j) {
        a->weights[j] = exp_of_negative(a->weights[j] - largest);
        total += a->weights[j];
    }
    if (allowed) total = 1 / total;
    return total;
}

/* -1 where dropout keeps the weight of a pair, 0 where it drops it */
INLINE whole_lanes kept(const attention *a, ptrdiff_t i, ptrdiff_t j) {
    if (!a->drop_below) return (whole_lanes){0} - 1;
    return random_bits(&a->random, (uint32_t)(i * a->nodes + j)) >= a->drop_below;
}

/* out[c] = sum over j of (v_j + Rv)[c] times the weights of row i, for c < width. With
   first = 0 it also fills `sums`. */
INLINE void add_messages(
    const attention *a, ptrdiff_t i, int related, ptrdiff_t d, ptrdiff_t first,
    ptrdiff_t width, lanes inverse, lanes *out
) {
    const int64_t *to = related ? a->relation + i * a->nodes : NULL;
    lanes sum[WIDEST] = {{0}};
    FOR_ALLOWED(j) {
        add(sum, a->weights[j], a->v + j * d + first, width);
        if (related && !first) a->sums[to[j]] += a->weights[j];
    }
    FOR_RELATIONS(r) add(sum, a->sums[r], a->value_table + r * d + first, width);
    for (ptrdiff_t c = 0; c < width; c++) out[c] = sum[c] * inverse;
}

INLINE void attend_as(
    const attention *a, lanes *out, int related, ptrdiff_t d, ptrdiff_t width
) {
    multiply_keys(a, related, d);
    for (ptrdiff_t i = 0; i < a->nodes; i++, out += d) {
        const int64_t *to = related ? a->relation + i * a->nodes : NULL;
        lanes inverse = weigh_row(a, i, related, d);
        ptrdiff_t c = 0;
        FOR_RELATIONS(r) a->sums[r] = ALL(0);
        if (a->drop_below)
            FOR_ALLOWED(j) a->weights[j] = WHERE(kept(a, i, j), a->weights[j]);
        for (; c + width <= d; c += width)
            add_messages(a, i, related, d, c, width, inverse, out + c);
        if (c < d) add_messages(a, i, related, d, c, d - c, inverse, out + c);
    }
}

INLINE void attend_backward_as(const attention *a, const gradient *grad, int related) {
    const ptrdiff_t d = a->d, R = a->relations;
    memset(grad->q, 0, a->nodes * d * sizeof(lanes));
    memset(grad->k, 0, a->nodes * d * sizeof(lanes));
    memset(grad->v, 0, a->nodes * d * sizeof(lanes));
    if (related) memset(grad->key, 0, a->nodes * R * sizeof(lanes));
    multiply_keys(a, related, d);
    for (ptrdiff_t i = 0; i < a->nodes; i++) {
        const int64_t *to = related ? a->relation + i * a->nodes : NULL;
        const lanes *grad_out = grad->out + i * d;
        lanes inverse = weigh_row(a, i, related, d), mean = {0};
        FOR_RELATIONS(r) {
            grad->value[r] = product(grad_out, a->value_table + r * d, d);
            grad->query[r] = a->sums[r] = ALL(0);
        }
        FOR_ALLOWED(j) {
            whole_lanes keep = kept(a, i, j);
            lanes weight = a->weights[j] * inverse, dropped = WHERE(keep, weight);
            lanes change = product(grad_out, a->v + j * d, d);
            if (related) {
                a->sums[to[j]] += dropped;
                change += grad->value[to[j]];
            }
            add(grad->v + j * d, dropped, grad_out, d);
            a->weights[j] = weight;
            a->pairs[j] = WHERE(keep, change);
            mean += weight * a->pairs[j];
        }
        for (ptrdiff_t j = 0; j < a->nodes && a->bias && related; j++)
            if (to[j] == R) a->pairs[j] = ALL(0);
        FOR_ALLOWED(j) {
            lanes change = a->weights[j] * (a->pairs[j] - mean); /* of the score */
            a->pairs[j] = change;
            if (related) grad->query[to[j]] += change;
            if (related && !a->key_from_row) grad->key[j * R + to[j]] += change;
            add(grad->q + i * d, change, a->k + j * d, d);
            add(grad->k + j * d, change, a->q + i * d, d);
        }
        if (a->bias)
            from_lanes(
                a->pairs, a->nodes * a->nodes, 0, 1, a->nodes, a->bias_heads, 1,
                grad->bias + i * a->nodes
            );
        FOR_RELATIONS(r) {
            add(grad->value_table + r * d, a->sums[r], grad_out, d);
            add(grad->query_table + r * d, grad->query[r], a->q + i * d, d);
            add(grad->q + i * d, grad->query[r], a->query_table + r * d, d);
            if (!a->key_from_row) continue;
            add(grad->key_table + r * d, grad->query[r], a->k + i * d, d);
            add(grad->k + i * d, grad->query[r], a->key_table + r * d, d);
        }
    }
    for (ptrdiff_t j = 0; j < a->nodes && !a->key_from_row; j++)
        FOR_RELATIONS(r) {
            add(grad->key_table + r * d, grad->key[j * R + r], a->k + j * d, d);
            add(grad->k + j * d, grad->key[j * R + r], a->key_table + r * d, d);
        }
}

INLINE void attend_wide(const attention *a, lanes *out, int related) {
    if (a->d == 8)
        attend_as(a, out, related, 8, 8);
    else if (a->d == 10)
        attend_as(a, out, related, 10, 10);
    else
        attend_as(a, out, related, a->d, 8);
}

/* In a copy of their own no write can change what the functions read from `a`. */
CLONES static void attend(const attention *given, lanes *out) {
    const attention copy = *given, *a = &copy;
    if (a->relation)
        attend_wide(a, out, 1);
    else
        attend_wide(a, out, 0);
}

CLONES static void attend_backward(const attention *given, const gradient *grad) {
    const attention copy = *given, *a = &copy;
    if (a->relation)
        attend_backward_as(a, grad, 1);
    else
        attend_backward_as(a, grad, 0);
}
#else /* nothing of this is called */
#define streams_of(seed, first) ((streams){0, 0})
#define to_lanes(...)
#define from_lanes(...)
#define mark_relations(a)
#define attend(a, out)
#define attend_backward(a, grad)
#endif

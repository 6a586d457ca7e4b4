/* Attention for one kind of processor (_processors.h).

   A block of rows of the scores is a product of matrices that stays in the cache until its
   weights have met the values. The backward pass computes it again.

   Rows of matrices are padded to whole vectors. Only what depends on the relations of pairs
   has heads last: a look-up is then one read of eight neighbouring numbers. */

#include "_lanes.h"

#define tile NAME(tile)
#define multiply NAME(multiply)
#define multiply_turned NAME(multiply_turned)
#define turn NAME(turn)
#define to_heads_last NAME(to_heads_last)
#define to_heads_first NAME(to_heads_first)
#define room NAME(room)
#define streams NAME(streams)
#define take NAME(take)
#define lay_out NAME(lay_out)
#define copy_rows NAME(copy_rows)
#define streams_of NAME(streams_of)
#define kept NAME(kept)
#define look_up NAME(look_up)
#define sum_up NAME(sum_up)
#define weigh NAME(weigh)
#define prepare NAME(prepare)
#define forward NAME(forward)
#define backward NAME(backward)
#define change_row NAME(change_row)
#define change_keys NAME(change_keys)

#define STEP (LANES < 8 ? 8 : LANES)
#define PADDED(n) (((n) + STEP - 1) / STEP * STEP)
#define CACHED 8192 /* scores of a block of rows */
#define STREAM (1 << 24) /* numbers that `drop` takes from a stream */

/* A part of a product that stays in registers: out (+)= x @ y. */
INLINE void tile(
    float *out, ptrdiff_t out_row, const float *x, ptrdiff_t x_row, ptrdiff_t x_step,
    const float *y, ptrdiff_t y_row, ptrdiff_t steps, int add, int rows, int vectors
) {
    lanes sum[8][2] = {{{0}}};
    for (int r = 0; add && r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = *(lanes *)(out + r * out_row + v * LANES);
    for (ptrdiff_t s = 0; s < steps; s++, x += x_step, y += y_row)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                sum[r][v] += x[r * x_row] * *(const lanes *)(y + v * LANES);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            *(lanes *)(out + r * out_row + v * LANES) = sum[r][v];
}

/* out[r, c] (+)= sum over s of x[r * x_row + s * x_step] * y[s, c]; columns are whole vectors,
   and rows of y and out as long as `y_row` and `columns`. */
#define TILE(r, v) \
    tile(out + c, out_row, x, x_row, x_step, y + c, y_row, steps, add, r, v)
#define PRODUCT                                                                       \
    for (ptrdiff_t n; rows > 0; rows -= n, x += n * x_row, out += n * out_row) {      \
        ptrdiff_t c = 0;                                                              \
        n = rows >= 8 && columns == LANES ? 8 : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;    \
        for (; c + 2 * LANES <= columns; c += 2 * LANES)                              \
            if (n == 4) TILE(4, 2); else if (n == 2) TILE(2, 2); else TILE(1, 2);     \
        if (c == columns) continue;                                                   \
        if (n == 8) TILE(8, 1); else if (n == 4) TILE(4, 1);                          \
        else if (n == 2) TILE(2, 1); else TILE(1, 1);                                 \
    }

static void multiply(
    float *out, const float *x, ptrdiff_t x_row, const float *y, ptrdiff_t rows,
    ptrdiff_t steps, ptrdiff_t columns, int add
) {
    const ptrdiff_t x_step = 1, y_row = columns, out_row = columns;
    PRODUCT
}

/* The same with the transpose of x. */
static void multiply_turned(
    float *out, const float *x, ptrdiff_t x_step, const float *y, ptrdiff_t rows,
    ptrdiff_t steps, ptrdiff_t columns, int add
) {
    const ptrdiff_t x_row = 1, y_row = columns, out_row = columns;
    PRODUCT
}

/* to[c, r] = from[r, c]; rows and columns are rounded up to multiples of eight. */
static void turn(
    const float *from, ptrdiff_t from_row, ptrdiff_t rows, ptrdiff_t columns, float *to,
    ptrdiff_t to_row
) {
    for (ptrdiff_t r = 0; r < rows; r += 8)
        for (ptrdiff_t c = 0; c < columns; c += 8) {
            eight x[8];
            for (int i = 0; i < 8; i++) x[i] = *(const eight *)(from + (r + i) * from_row + c);
            turn_eight(x);
            for (int i = 0; i < 8; i++) *(eight *)(to + (c + i) * to_row + r) = x[i];
        }
}

/* Rows of heads -> padded rows, or back. */
static void copy_rows(
    const float *from, ptrdiff_t from_row, ptrdiff_t rows, ptrdiff_t columns, float *to,
    ptrdiff_t to_row
) {
    for (; rows; rows--, from += from_row, to += to_row) {
        ptrdiff_t c = 0;
        for (; c + 8 <= columns; c += 8) *(eight *)(to + c) = *(const eight *)(from + c);
        for (; c < columns; c++) to[c] = from[c];
    }
}

/* Rows of the heads -> an eight per column; n is rounded up to a multiple of eight. */
static void to_heads_last(
    const float *from, ptrdiff_t head_row, ptrdiff_t heads, ptrdiff_t n, eight *to
) {
    for (ptrdiff_t j = 0; j < n; j += 8) {
        eight x[8];
        for (int h = 0; h < 8; h++)
            x[h] = *(const eight *)(from + (h < heads ? h : 0) * head_row + j);
        turn_eight(x);
        for (int i = 0; i < 8; i++) to[j + i] = x[i];
    }
}

/* The inverse of `to_heads_last`. */
static void to_heads_first(
    const eight *from, ptrdiff_t n, float *to, ptrdiff_t head_row, ptrdiff_t heads
) {
    for (ptrdiff_t j = 0; j < n; j += 8) {
        eight x[8];
        for (int i = 0; i < 8; i++) x[i] = from[j + i];
        turn_eight(x);
        for (ptrdiff_t h = 0; h < heads; h++) *(eight *)(to + h * head_row + j) = x[h];
    }
}

/* What a thread works with; all rows are padded. */
typedef struct {
    ptrdiff_t T, R, d, rows, heads;    /* padded; rows of a block; heads of this item */
    ptrdiff_t key_row;                 /* of `key` */
    ptrdiff_t node, relation, block;   /* from a head to the next */
    ptrdiff_t node_stride, out_stride; /* from a node to the next in qkv, in out */
    const float *q, *k, *v, *grad;     /* of a graph */
    const float *bias;
    const int64_t *index;
    float *out, *grad_bias;
    ptrdiff_t stream;
    float *rows_of_k, *rows_of_v;                  /* [T, d] */
    float *kt, *vt, *grad_kt, *grad_vt;            /* [d, T] */
    float *turned[3], *tables[3], *grad_turned[3];              /* [d, R] or [R, d] */
    float *scores, *changes;      /* of a block, [rows, T] */
    float *by_relation, *sums;    /* of a block, [rows, R] */
    float *messages;              /* of a block and a head, [rows, d] */
    float *inverse;               /* 1 / sum of the weights of a row */
    eight *row, *pair;            /* of one row: [R + 1], [T] */
    eight *sum[2];                /* [R + 1] */
    eight *key, *grad_key;        /* [T, R + 1] */
} room;

INLINE float *take(float **free, ptrdiff_t size) {
    *free += (size + 15) / 16 * 16;
    return *free - (size + 15) / 16 * 16;
}

/* Divides a room; returns its end. */
static float *lay_out(const attention *a, room *w, float *free) {
    const ptrdiff_t heads = a->relation ? GROUP : 1, T = PADDED(a->nodes);
    const ptrdiff_t R = PADDED(a->relations), d = PADDED(a->d);
    ptrdiff_t rows = CACHED / T, blocks;
    rows = rows < 8 ? 8 : rows > 32 ? 32 : rows;
    blocks = (a->nodes + rows - 1) / rows;
    rows = (a->nodes + blocks - 1) / blocks;
    *w = (room){.T = T, .R = R, .d = d, .rows = rows, .key_row = a->relations + 8};
    w->node = T * d;
    w->relation = R * d;
    w->block = rows * T;
    w->node_stride = 3 * a->heads * a->d;
    w->out_stride = a->heads * a->d;
    w->rows_of_k = take(&free, heads * w->node);
    w->rows_of_v = take(&free, heads * w->node);
    w->kt = take(&free, heads * w->node);
    w->scores = take(&free, heads * w->block);
    w->messages = take(&free, rows * d);
    w->inverse = take(&free, heads * rows);
    if (a->grad) {
        w->vt = take(&free, heads * w->node);
        w->grad_kt = take(&free, heads * w->node);
        w->grad_vt = take(&free, heads * w->node);
        w->changes = take(&free, heads * w->block);
    }
    if (!a->relation) return free;
    for (int i = 0; i < 3; i++) {
        w->turned[i] = take(&free, heads * w->relation);
        w->tables[i] = take(&free, heads * w->relation);
        if (a->grad) w->grad_turned[i] = take(&free, heads * w->relation);
    }
    w->by_relation = take(&free, heads * rows * R);
    w->sums = take(&free, heads * rows * R);
    w->row = (eight *)take(&free, 8 * (R + 8));
    w->sum[0] = (eight *)take(&free, 8 * (R + 8));
    w->sum[1] = (eight *)take(&free, 8 * (R + 8));
    w->pair = (eight *)take(&free, 8 * T);
    if (a->key_from_row) return free;
    w->key = (eight *)take(&free, 8 * (T + 1) * w->key_row);
    if (a->grad) w->grad_key = (eight *)take(&free, 8 * (T + 1) * w->key_row);
    return free;
}

static ptrdiff_t NAME(room_size)(const attention *a) {
    room w;
    float start;
    return lay_out(a, &w, &start) - &start;
}

INLINE uint64_t NAME(mixed64)(uint64_t x) { /* SplitMix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Random numbers of pairs: start + number * step, mixed. They depend on nothing that was
   drawn before, so that a backward pass draws those of its forward pass again, and threads
   do not matter. */
typedef struct {
    bit_lanes row, to_row, ahead; /* numbers of a row's first pairs; steps to the next */
    uint32_t drop_below;
} streams;

/* Rows of a number of columns, the first of which is row i, in a stream of a seed. */
INLINE streams streams_of(
    uint64_t seed, ptrdiff_t stream, uint32_t drop_below, ptrdiff_t columns, ptrdiff_t i
) {
    uint64_t key = NAME(mixed64)(seed + (uint64_t)(stream + 1) * 0x9e3779b97f4a7c15u);
    uint32_t step = (uint32_t)(key >> 32) | 1;
    streams s = {.drop_below = drop_below};
    for (int lane = 0; lane < LANES; lane++) s.row[lane] = lane;
    s.row = s.row * step + ((uint32_t)key + (uint32_t)(i * columns) * step);
    s.to_row = (bit_lanes){0} + (uint32_t)columns * step;
    s.ahead = (bit_lanes){0} + LANES * step;
    return s;
}

/* -1 where dropout keeps the weight of a pair, 0 where it drops it */
INLINE whole_lanes kept(bit_lanes x, const streams *s) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    x ^= x >> 16;
    return (whole_lanes)(x >= s->drop_below);
}

/* Numbers that are dropped become 0, the others x / (1 - p). */
static void NAME(drop)(
    const float *x, ptrdiff_t n, uint64_t seed, uint32_t drop_below, float rescale,
    float *out
) {
    const float *end = x + n;
    for (ptrdiff_t first = 0; first < n; first += STREAM) {
        streams random = streams_of(seed, first / STREAM, drop_below, 0, 0);
        const ptrdiff_t left = n - first < STREAM ? n - first : STREAM;
        for (ptrdiff_t j = 0; j < left; j += LANES, random.row += random.ahead) {
            lanes y = part(x + first + j, end, left - j, 0) * rescale;
            y = WHERE(kept(random.row, &random), y);
            memcpy(out + first + j, &y, (left - j < LANES ? left - j : LANES) * sizeof(float));
        }
    }
}

/* Products of nodes with relations -> for each pair that of its relation, plus that of the
   other node in `key`, if there is one. */
static void look_up(
    const attention *a, const room *w, ptrdiff_t first, ptrdiff_t n, const eight *key,
    float forbidden, float *to
) {
    const ptrdiff_t T = a->nodes, R = a->relations;
    for (ptrdiff_t r = 0; r < n; r++) {
        const int64_t *index = w->index + (first + r) * T;
        const float *products = w->by_relation + r * w->R;
        to_heads_last(products, w->rows * w->R, w->heads, R, w->row);
        w->row[R] = (eight){} + forbidden;
        if (key)
            for (ptrdiff_t j = 0; j < T; j++)
                w->pair[j] = w->row[index[j]] + key[j * w->key_row + index[j]];
        else
            for (ptrdiff_t j = 0; j < T; j++) w->pair[j] = w->row[index[j]];
        for (ptrdiff_t j = T; j < w->T; j++) w->pair[j] = (eight){} + forbidden;
        to_heads_first(w->pair, w->T, to + r * w->T, w->block, w->heads);
    }
}

/* Sums over the pairs of each relation, and those for the other node. */
static void sum_up(
    const attention *a, const room *w, ptrdiff_t first, ptrdiff_t n, const float *from,
    eight *key, float *to
) {
    const ptrdiff_t T = a->nodes, R = a->relations;
    for (ptrdiff_t r = 0; r < n; r++) {
        const int64_t *index = w->index + (first + r) * T;
        to_heads_last(from + r * w->T, w->block, w->heads, T, w->pair);
        memset(w->sum[0], 0, (w->R + 8) * sizeof(eight));
        memset(w->sum[1], 0, (w->R + 8) * sizeof(eight));
        /* Two sums: neighbours often have the same relation, and would wait. */
        for (ptrdiff_t j = 0; j < T; j++) w->sum[j & 1][index[j]] += w->pair[j];
        for (ptrdiff_t j = 0; key && j < T; j++)
            key[j * w->key_row + index[j]] += w->pair[j];
        for (ptrdiff_t j = 0; j < R; j++) w->sum[0][j] += w->sum[1][j];
        to_heads_first(w->sum[0], w->R, to + r * w->R, w->rows * w->R, w->heads);
    }
}

/* Fills `scores` of n rows with exp(score - largest), and `inverse`, 0 where all pairs are
   forbidden. */
static void weigh(const attention *a, const room *w, ptrdiff_t first, ptrdiff_t n) {
    const ptrdiff_t T = a->nodes;
    if (a->relation) {
        for (ptrdiff_t h = 0; h < w->heads; h++) {
            const ptrdiff_t at = first * w->node_stride + h * a->d;
            float *products = w->by_relation + h * w->rows * w->R;
            multiply(
                products, w->q + at, w->node_stride, w->turned[0] + h * w->relation, n,
                a->d, w->R, 0
            );
            if (a->key_from_row)
                multiply(
                    products, w->k + at, w->node_stride, w->turned[1] + h * w->relation,
                    n, a->d, w->R, 1
                );
        }
        look_up(a, w, first, n, w->key, -INFINITY, w->scores);
    }
    for (ptrdiff_t h = 0; h < w->heads; h++) {
        float *scores = w->scores + h * w->block;
        multiply(
            scores, w->q + first * w->node_stride + h * a->d, w->node_stride,
            w->kt + h * w->node, n, a->d, w->T, !!a->relation
        );
        for (ptrdiff_t r = 0; r < n; r++, scores += w->T) {
            const float *bias = w->bias + h * a->bias_head + (first + r) * a->bias_row;
            const int64_t *index = w->index + (first + r) * T;
            lanes most = ALL(-INFINITY), total = {0};
            ptrdiff_t allowed = !a->relation;
            for (ptrdiff_t j = 0; j < T && !allowed; j++) allowed = index[j] != a->relations;
            for (ptrdiff_t j = 0; j < w->T; j += LANES) {
                lanes score = *(lanes *)(scores + j) * a->scale;
                whole_lanes forbidden = score == -INFINITY; /* whatever the bias is */
                if (w->bias) score += part(bias + j, a->bias_end, T - j, -INFINITY);
                if (w->bias && a->relation)
                    score = (lanes)((whole_lanes)WHERE(~forbidden, score) |
                                    (whole_lanes)WHERE(forbidden, ALL(-INFINITY)));
                *(lanes *)(scores + j) = score;
                most = larger(most, score);
            }
            most = largest_of(most);
            for (ptrdiff_t j = 0; j < w->T; j += LANES) {
                lanes weight = exp_of_negative(*(lanes *)(scores + j) - most);
                *(lanes *)(scores + j) = weight;
                total += weight;
            }
            w->inverse[h * w->rows + r] = allowed ? 1 / sum_of(total)[0] : 0;
            if (!allowed) memset(scores, 0, w->T * sizeof(float));
        }
    }
}

/* Keys and values of a graph as the products read them. */
static void prepare(const attention *a, const room *w) {
    const ptrdiff_t T = a->nodes, R = a->relations, d = a->d;
    for (ptrdiff_t h = 0; h < w->heads; h++) {
        const ptrdiff_t at = h * w->node;
        copy_rows(w->k + h * d, w->node_stride, T, d, w->rows_of_k + at, w->d);
        copy_rows(w->v + h * d, w->node_stride, T, d, w->rows_of_v + at, w->d);
        turn(w->rows_of_k + at, w->d, w->T, d, w->kt + at, w->T);
        if (a->grad) turn(w->rows_of_v + at, w->d, w->T, d, w->vt + at, w->T);
    }
    for (ptrdiff_t first = 0, n; w->key && first < T; first += n) {
        n = T - first < w->rows ? T - first : w->rows;
        for (ptrdiff_t h = 0; h < w->heads; h++)
            multiply(
                w->by_relation + h * w->rows * w->R,
                w->k + first * w->node_stride + h * d, w->node_stride,
                w->turned[1] + h * w->relation, n, d, w->R, 0
            );
        for (ptrdiff_t r = 0; r < n; r++) {
            eight *key = w->key + (first + r) * w->key_row;
            to_heads_last(w->by_relation + r * w->R, w->rows * w->R, w->heads, R, key);
            key[R] = (eight){0};
        }
    }
}

static void forward(const attention *a, const room *w) {
    const ptrdiff_t T = a->nodes;
    prepare(a, w);
    for (ptrdiff_t first = 0, n; first < T; first += n) {
        n = T - first < w->rows ? T - first : w->rows;
        weigh(a, w, first, n);
        for (ptrdiff_t h = 0; h < w->heads && a->drop_below; h++) {
            streams random =
                streams_of(a->seed, w->stream + h, a->drop_below, T, first);
            lanes *weights = (lanes *)(w->scores + h * w->block);
            for (ptrdiff_t r = 0; r < n; r++, random.row += random.to_row) {
                bit_lanes number = random.row;
                for (ptrdiff_t j = 0; j < w->T; j += LANES, weights++) {
                    *weights = WHERE(kept(number, &random), *weights);
                    number += random.ahead;
                }
            }
        }
        if (a->relation) sum_up(a, w, first, n, w->scores, NULL, w->sums);
        for (ptrdiff_t h = 0; h < w->heads; h++) {
            multiply(
                w->messages, w->scores + h * w->block, w->T, w->rows_of_v + h * w->node, n,
                T, w->d, 0
            );
            if (a->relation)
                multiply(
                    w->messages, w->sums + h * w->rows * w->R, w->R,
                    w->tables[2] + h * w->relation, n, a->relations, w->d, 1
                );
            for (ptrdiff_t r = 0; r < n; r++) {
                const float factor = w->inverse[h * w->rows + r] * a->rescale;
                lanes *row = (lanes *)(w->messages + r * w->d);
                for (ptrdiff_t c = 0; c < w->d / LANES; c++) row[c] *= factor;
            }
            copy_rows(
                w->messages, w->d, n, a->d,
                w->out + first * w->out_stride + h * a->d, w->out_stride
            );
        }
    }
}

/* Of a row: weights become those that dropout kept, and their changes those of scores. */
INLINE void change_row(
    const attention *a, const room *w, const streams *random, float inverse, float *weights,
    float *changes, float *bias
) {
    const ptrdiff_t T = a->nodes;
    lanes mean = {0};
    bit_lanes number = random->row;
    for (ptrdiff_t j = 0; j < w->T; j += LANES, number += random->ahead) {
        lanes weight = *(lanes *)(weights + j) * inverse;
        lanes change = *(lanes *)(changes + j) * a->rescale;
        if (a->drop_below) { /* a dropped weight is negative until the end */
            whole_lanes keep = kept(number, random);
            change = WHERE(keep, change);
            weight = (lanes)((whole_lanes)weight | (~keep & INT32_MIN));
        }
        *(lanes *)(weights + j) = weight;
        *(lanes *)(changes + j) = change;
        mean += (lanes)((whole_lanes)weight & INT32_MAX) * change;
    }
    mean = sum_of(mean);
    for (ptrdiff_t j = 0; j < w->T; j += LANES) {
        lanes weight = *(lanes *)(weights + j), change = *(lanes *)(changes + j) - mean;
        change *= (lanes)((whole_lanes)weight & INT32_MAX);
        if (bias && j + LANES <= T)
            *(lanes *)(bias + j) = change;
        else if (bias)
            for (ptrdiff_t lane = 0; j + lane < T; lane++) bias[j + lane] = change[lane];
        *(lanes *)(changes + j) = change * a->scale;
        *(lanes *)(weights + j) = WHERE(~(weight < 0), weight * a->rescale);
    }
}

/* The part of the keys' gradient that comes through relations: n nodes from `first` on. */
static void change_keys(const attention *a, const room *w, ptrdiff_t first, ptrdiff_t n) {
    for (ptrdiff_t h = 0; h < w->heads; h++) {
        const float *by_relation = w->by_relation + h * w->rows * w->R;
        float *to = w->grad_kt + h * w->node + first;
        multiply(
            w->messages, by_relation, w->R, w->tables[1] + h * w->relation, n,
            a->relations, w->d, 0
        );
        for (ptrdiff_t r = 0; r < n; r++)
            for (ptrdiff_t c = 0; c < a->d; c++)
                to[c * w->T + r] += w->messages[r * w->d + c];
        multiply_turned(
            w->grad_turned[1] + h * w->relation,
            w->k + first * w->node_stride + h * a->d, w->node_stride, by_relation, a->d, n,
            w->R, 1
        );
    }
}

static void backward(const attention *a, const room *w) {
    const ptrdiff_t T = a->nodes, R = a->relations, d = a->d;
    prepare(a, w);
    memset(w->grad_kt, 0, w->heads * w->node * sizeof(float));
    memset(w->grad_vt, 0, w->heads * w->node * sizeof(float));
    if (w->grad_key) memset(w->grad_key, 0, T * w->key_row * sizeof(eight));
    for (ptrdiff_t first = 0, n; first < T; first += n) {
        n = T - first < w->rows ? T - first : w->rows;
        weigh(a, w, first, n);
        for (ptrdiff_t h = 0; h < w->heads && a->relation; h++)
            multiply(
                w->by_relation + h * w->rows * w->R,
                w->grad + first * w->out_stride + h * d, w->out_stride,
                w->turned[2] + h * w->relation, n, d, w->R, 0
            );
        if (a->relation) look_up(a, w, first, n, NULL, 0, w->changes);
        for (ptrdiff_t h = 0; h < w->heads; h++) {
            float *weights = w->scores + h * w->block, *changes = w->changes + h * w->block;
            multiply(
                changes, w->grad + first * w->out_stride + h * d, w->out_stride,
                w->vt + h * w->node, n, d, w->T, !!a->relation
            );
            streams random =
                streams_of(a->seed, w->stream + h, a->drop_below, T, first);
            for (ptrdiff_t r = 0; r < n; r++, random.row += random.to_row) {
                const int64_t *index = w->index + (first + r) * T;
                float *bias = w->grad_bias ? w->grad_bias + (h * T + first + r) * T : NULL;
                change_row(
                    a, w, &random, w->inverse[h * w->rows + r], weights + r * w->T,
                    changes + r * w->T, bias
                );
                for (ptrdiff_t j = 0; bias && a->relation && j < T; j++)
                    if (index[j] == R) bias[j] = 0; /* and not NaN */
            }
        }
        if (a->relation) {
            sum_up(a, w, first, n, w->scores, NULL, w->sums);
            sum_up(a, w, first, n, w->changes, w->grad_key, w->by_relation);
        }
        for (ptrdiff_t h = 0; h < w->heads; h++) {
            const float *weights = w->scores + h * w->block;
            const float *changes = w->changes + h * w->block;
            const float *q = w->q + first * w->node_stride + h * d;
            const float *grad = w->grad + first * w->out_stride + h * d;
            multiply(
                w->messages, changes, w->T, w->rows_of_k + h * w->node, n, T, w->d, 0
            );
            multiply_turned(
                w->grad_kt + h * w->node, q, w->node_stride, changes, d, n, w->T, 1
            );
            multiply_turned(
                w->grad_vt + h * w->node, grad, w->out_stride, weights, d, n, w->T, 1
            );
            if (a->relation) {
                const float *by_relation = w->by_relation + h * w->rows * w->R;
                const float *sums = w->sums + h * w->rows * w->R;
                const ptrdiff_t at = h * w->relation;
                multiply(w->messages, by_relation, w->R, w->tables[0] + at, n, R, w->d, 1);
                multiply_turned(
                    w->grad_turned[0] + at, q, w->node_stride, by_relation, d, n, w->R, 1
                );
                multiply_turned(
                    w->grad_turned[2] + at, grad, w->out_stride, sums, d, n, w->R, 1
                );
            }
            copy_rows(
                w->messages, w->d, n, d,
                w->out + first * w->node_stride + h * d, w->node_stride
            );
        }
        if (a->relation && a->key_from_row) change_keys(a, w, first, n);
    }
    for (ptrdiff_t first = 0, n; w->grad_key && first < T; first += n) {
        n = T - first < w->rows ? T - first : w->rows;
        for (ptrdiff_t r = 0; r < n; r++)
            to_heads_first(
                w->grad_key + (first + r) * w->key_row, R, w->by_relation + r * w->R,
                w->rows * w->R, w->heads
            );
        change_keys(a, w, first, n);
    }
    for (ptrdiff_t h = 0; h < w->heads; h++) {
        float *k = w->out + w->out_stride + h * d, *v = k + w->out_stride;
        turn(w->grad_kt + h * w->node, w->T, d, T, w->kt, w->d);
        turn(w->grad_vt + h * w->node, w->T, d, T, w->vt, w->d);
        copy_rows(w->kt, w->d, T, d, k, w->node_stride);
        copy_rows(w->vt, w->d, T, d, v, w->node_stride);
    }
}

/* What each thread does: one item after another, until none is left. */
static void NAME(attend)(void *job) {
    attention *given = job;
    const attention copy = *given, *a = &copy; /* no write can change what it reads */
    const ptrdiff_t group = a->relation ? GROUP : 1, T = a->nodes, d = a->d;
    const ptrdiff_t D = a->heads * d, rows = a->relations + 1;
    room place, *w = &place;
    lay_out(a, w, a->rooms + next_number(&given->next_room) * a->room_size);
    for (ptrdiff_t item; (item = next_number(&given->next_item)) < a->items;) {
        const ptrdiff_t head = item / a->parts * group, share = item % a->parts;
        w->heads = a->heads - head < group ? a->heads - head : group;
        for (ptrdiff_t n = 0; n < 3 * w->heads && a->relation; n++) {
            const ptrdiff_t i = n % 3, h = n / 3;
            const float *table = a->tables[i] + (head + h) * rows * d;
            float *padded = w->tables[i] + h * w->relation;
            copy_rows(table, d, rows - 1, d, padded, w->d);
            turn(padded, w->d, rows - 1, d, w->turned[i] + h * w->relation, w->R);
            if (a->grad)
                memset(w->grad_turned[i] + h * w->relation, 0, w->relation * sizeof(float));
        }
        for (ptrdiff_t b = a->graphs * share / a->parts; b < a->graphs * (share + 1) / a->parts;
             b++) {
            w->q = a->qkv + 3 * b * T * D + head * d;
            w->k = w->q + D;
            w->v = w->k + D;
            w->stream = b * a->heads + head;
            w->index = a->relation ? a->relation + b * T * T : NULL;
            w->bias = a->bias ? a->bias + b * a->bias_graph + head * a->bias_head : NULL;
            w->out = a->out + (a->grad ? 3 : 1) * b * T * D + head * d;
            if (!a->grad) {
                forward(a, w);
                continue;
            }
            w->grad = a->grad + b * T * D + head * d;
            w->grad_bias = a->grad_bias ? a->grad_bias + w->stream * T * T : NULL;
            backward(a, w);
        }
        for (ptrdiff_t n = 0; n < 3 * w->heads && a->relation && a->grad; n++) {
            const ptrdiff_t i = n % 3, h = n / 3;
            float *padded = w->tables[i];
            turn(w->grad_turned[i] + h * w->relation, w->R, d, rows - 1, padded, w->d);
            copy_rows(
                padded, w->d, rows - 1, d,
                a->grad_tables + ((share * 3 + i) * a->heads + head + h) * rows * d, d
            );
        }
    }
}

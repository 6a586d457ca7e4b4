/* Attention along edges, and its gradient; _edges.pyx calls it, and edges.py documents it.

   Rows have D channels, padded to a multiple P of eight. A target reads the edges that arrive
   at it, a source those that leave it, so that threads share no sum. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct { /* channels of a head in a vector of eight */
    ptrdiff_t vector;
    int32_t mask[8];
} edge_piece;

/* In the order of edges.py. */
typedef struct {
    const float *qkv;                /* [S, 3, P] */
    const float *factor;             /* [R, P] or NULL */
    const int64_t *source;           /* [2, E]: sources and targets */
    const int64_t *kind;             /* [E]; NULL: R is E */
    const float *keep;               /* [E, H] or NULL */
    float *out, *channels;           /* [S, P]; [E, P] or NULL */
    const float *of_out, *of_channels;
    float *of_qkv, *of_factor;       /* [S, 3, P], [parts or 1, R, P] */
    float *slopes;                   /* [2, E, H]: gradients of scores, and weights */
    int64_t *first, *order;          /* [S + 1], [E]: edges by target, or by source */
    ptrdiff_t *first_piece;          /* [H + 1] */
    edge_piece *pieces;              /* [P / 8 + H] */
    const float *floats;             /* epsilon */
    float *rooms;                    /* [threads, room] */
    ptrdiff_t nodes, edges, kinds, heads, d, width; /* S, E, R, H, D / H, P */
    ptrdiff_t parts, numbers, room;
    ptrdiff_t next_part, next_room;
    const int64_t *target;           /* these follow, see `complete` */
    float *kept;
    float scale, epsilon;
} edge_job;

static edge_job complete(const edge_job *given) {
    edge_job a = *given;
    a.target = a.source + a.edges;
    a.kept = a.slopes + a.edges * a.heads;
    a.scale = (float)(1 / sqrt((double)a.d));
    a.epsilon = *a.floats;
    return a;
}

/* Edges in the order of their keys. */
static void sort_edges(edge_job *a, const int64_t *key) {
    memset(a->first, 0, (a->nodes + 1) * sizeof(int64_t));
    for (ptrdiff_t e = 0; e < a->edges; e++) a->first[key[e]]++;
    for (ptrdiff_t i = 1; i <= a->nodes; i++) a->first[i] += a->first[i - 1];
    for (ptrdiff_t e = a->edges - 1; e >= 0; e--) a->order[--a->first[key[e]]] = e;
}

static void cut_heads(edge_job *a) {
    ptrdiff_t n = 0;
    for (ptrdiff_t h = 0; h < a->heads; h++) {
        a->first_piece[h] = n;
        for (ptrdiff_t v = h * a->d / 8; 8 * v < (h + 1) * a->d; v++, n++) {
            a->pieces[n].vector = v;
            for (ptrdiff_t c = 0; c < 8; c++)
                a->pieces[n].mask[c] = -((8 * v + c) / a->d == h);
        }
    }
    a->first_piece[a->heads] = n;
}

static void edges_by_target(void *job) {
    edge_job a = complete(job);
    cut_heads(&a);
    sort_edges(&a, a.target);
}

static void edges_by_source(void *job) {
    edge_job a = complete(job);
    sort_edges(&a, a.source);
}

#if defined(__GNUC__) /* and clang; others have no vector types */
#define KERNEL "_gather.h"
#include "_processors.h"

static void edges_forward(void *job) { CHOSEN(forward)(job); }
static void edges_of_targets(void *job) { CHOSEN(of_targets)(job); }
static void edges_of_sources(void *job) { CHOSEN(of_sources)(job); }
#else /* nothing of this is called */
static void edges_forward(void *job) {}
static void edges_of_targets(void *job) {}
static void edges_of_sources(void *job) {}
#endif

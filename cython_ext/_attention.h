/* Attention of graphs and its gradient; _attention.pyx calls it, attention.py documents it.

   Work is handed out in items: some heads of a part of the graphs. Which thread takes an
   item changes nothing in its results. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GROUP 8 /* heads of an item that look up relations together */

/* Names as in attention.py, T = nodes, R = relations. Forbidden pairs have relation R;
   tables do not have that row. */
typedef struct {
    ptrdiff_t graphs, nodes, heads, relations, d, parts, items;
    int key_from_row;
    float scale, rescale; /* 1 / sqrt(d), 1 / (1 - p) */
    uint32_t drop_below;  /* weights with smaller random bits are dropped */
    uint64_t seed;
    const float *qkv;        /* [B, T, 3, H, d] */
    const float *tables[3];  /* of queries, keys and values, [H, R + 1, d] */
    const int64_t *relation; /* [B, T, T]; NULL: no relations, all pairs are allowed */
    const float *bias;       /* [B, H, T or 1, T] or NULL */
    const float *bias_end;   /* where its memory ends */
    const float *grad;       /* [B, T, H, d]; NULL: forward */
    float *out;              /* like grad; or the gradient of qkv */
    float *grad_tables;      /* [parts, 3, H, R + 1, d] */
    float *grad_bias;        /* [B, H, T, T] or NULL */
    ptrdiff_t bias_graph, bias_head, bias_row; /* from one to the next, or 0 */
    float *rooms; /* [threads, room_size], zeros */
    ptrdiff_t room_size, next_item, next_room;
} attention;

#if defined(__GNUC__) /* and clang; others have no vector types */
#define HAS_VECTORS 1

#define KERNEL "_attend.h"
#include "_processors.h"

#define room_size(job) CHOSEN(room_size)(job)
#define attend CHOSEN(attend)
#define drop CHOSEN(drop)
#else /* nothing of this is called */
#define HAS_VECTORS 0
#define room_size(job) 0
#define attend NULL
#define drop(...)
#endif

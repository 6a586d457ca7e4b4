/* Attention whose pairs have states, of a graph, and its gradient; _pairs.pyx calls it, and
   pairs.py documents it.

   Each head has a multiple of eight channels, so that none of its vectors is shared. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* In the order of pairs.py. */
typedef struct {
    const float *q, *k, *v;         /* [S, D] */
    const float *maps;              /* [P, H, 2, d]: factor, bias */
    const float *score;             /* [D] */
    const float *keep;              /* [P, H] or NULL */
    float *t;                       /* [P, D] */
    float *mixed, *states;          /* [S, D] */
    const float *of_t, *of_mixed, *of_states; /* gradients of the results; NULL: forward */
    float *of_q, *of_k, *of_v, *of_maps, *of_score; /* and those of the part */
    const int64_t *node_start, *pair_start; /* of each graph, [B + 1] */
    float *joint;                   /* what each thread has, [threads, room] */
    ptrdiff_t graphs, heads, d, parts, numbers, room; /* B, H, D / H */
    ptrdiff_t next_part, next_room;
    /* Of one receiver: */
    float *root;         /* like joint of one pair, [D] */
    float *weights;      /* `numbers`: N * H, and zeros up to whole vectors */
    float *slopes;       /* gradients of the weights, [N, H] */
    float *inverse;      /* 1 / sum of the weights, [H] */
    ptrdiff_t nodes;     /* N */
} pair_job;

#if defined(__GNUC__) /* and clang; others have no vector types */
#define KERNEL "_join.h"
#include "_processors.h"

static void join_pairs(void *job) { CHOSEN(attend)(job); }
#else /* this is not called */
static void join_pairs(void *job) {}
#endif

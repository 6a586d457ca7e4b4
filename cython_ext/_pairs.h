/* Attention whose pairs have states, of a graph, and its gradient; _pairs.pyx calls it, and
   pairs.py documents it.

   Each head has a multiple of eight channels, so that none of its vectors is shared. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    ptrdiff_t nodes, heads, d;      /* N, H, D / H */
    const float *q, *k, *v;         /* [N, D] */
    const float *maps;              /* [N, N, H, 2, d]: factor, bias */
    const float *score;             /* [D] */
    const float *keep;              /* [N, N, H] or NULL */
    float *t;                       /* [N, N, D] */
    float *mixed, *states;          /* [N, D] */
    /* Of one receiver: */
    float *joint, *root; /* of one pair, [D] */
    float *weights;      /* N * H numbers, and zeros up to whole vectors */
    float *slopes;       /* gradients of the weights, [N, H] */
    float *inverse;      /* 1 / sum of the weights, [H] */
} pair_graph;

typedef struct { /* gradients: of the results, and of what they are made from */
    const float *t, *mixed, *states;
    float *q, *k, *v, *maps, *score;
} pair_gradient;

#if defined(__GNUC__) /* and clang; others have no vector types */
#define KERNEL "_join.h"
#include "_processors.h"

static void pair_forward(const pair_graph *a) { CHOSEN(forward)(a); }

static void pair_backward(const pair_graph *a, const pair_gradient *grad) {
    CHOSEN(backward)(a, grad);
}
#else /* nothing of this is called */
#define next_number(counter) 0
#define pair_forward(a)
#define pair_backward(a, grad)
#endif

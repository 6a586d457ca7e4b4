/* Attention with a score per channel, of some receivers of a graph, and its gradient;
   _channels.pyx calls it, and channels.py documents it.

   Rows have D channels, padded to a multiple P of 16. Most features of a pair are 0 (it has one
   relation, and no walks of most lengths); products skip them. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct { /* sparse vectors, which are multiplied with a matrix */
    float *value;
    int32_t *row; /* of the matrix */
} entries;

typedef struct {
    ptrdiff_t nodes, heads, d; /* N, H, D / H */
    ptrdiff_t width, padded;   /* F, P */
    ptrdiff_t base_stride;     /* from a receiver to the next: N, or 0 */
    ptrdiff_t base_head;       /* from a head to the next */
    const float *base;         /* [H, N or 1, N] */
    const float *features;     /* [N, N, F] */
    const float *keep;         /* [N, N] or NULL */
    const float *v;            /* [N, P] */
    const float *att, *val;    /* [F, P]; val or NULL */
    float *weights, *messages; /* of one receiver and a block of channels */
    entries pairs;             /* features of its pairs, [N * F] */
    int64_t *first;            /* of each pair, [N + 1] */
    /* For the gradients of one receiver: */
    float *sent;    /* those of its messages */
    entries senders; /* of each feature, [F, N] */
    int64_t *count; /* of senders, [F]; NULL in the forward pass */
} channels;

/* Sums over the receivers, except base with a row for each of them. */
typedef struct {
    const float *out; /* [N, P] */
    float *base;
    float *v;         /* [N, P] */
    float *att, *val; /* [F, P] */
} channel_gradient;

#if defined(__GNUC__) /* and clang; others have no vector types */
#define KERNEL "_filter.h"
#include "_processors.h"

#define filter_channels CHOSEN(filter)
#define filter_channels_backward CHOSEN(filter_backward)
#else /* nothing of this is called */
#define next_number(counter) 0
#define filter_channels(a, first, end, out)
#define filter_channels_backward(a, grad, first, end)
#endif

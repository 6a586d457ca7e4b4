/* Attention with a score per channel, of some receivers of a graph, and its gradient;
   _channels.pyx calls it, and channels.py documents it.

   Rows have D channels, padded to a multiple P of 16. Most features of a pair are 0 (it has one
   relation, and no walks of most lengths); products skip them. */

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WORDS(F) (((F) + 31) / 32)

typedef struct {
    ptrdiff_t nodes, heads, d; /* N, H, D / H */
    ptrdiff_t width, padded;   /* F, P */
    ptrdiff_t base_stride;     /* from a receiver to the next: N, or 0 */
    ptrdiff_t base_head;       /* from a head to the next */
    const float *base;         /* [H, N or 1, N] */
    const float *features;     /* [F, N, N] */
    const float *keep;         /* [N, N] or NULL */
    const float *v;            /* [N, P] */
    const float *att, *val;    /* [F, P]; val or NULL */
    float *out;                /* [N, P] */
    float *most, *inverse;     /* [N, P]: largest logit, 1 / sum of exp(logit - most) */
    int32_t *features_of;      /* a bit for each that is not 0 of one receiver's, [WORDS(F), N]
                                  and a vector more */
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
#define filter_channels(a, first, end)
#define filter_channels_backward(a, grad, first, end)
#endif

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

/* In the order of channels.py. */
typedef struct {
    const float *base;      /* [B, H, N or 1, N] */
    const float *v;         /* [B, N, P] */
    const float *features;  /* [B, F, N, N] */
    const float *att, *val; /* [F, P]; val or NULL */
    const float *keep;      /* [B, N, N] or NULL */
    const float *grad;      /* [B, N, P]; NULL: forward */
    float *out;             /* [3, B, N, P]: z, largest logits, 1 / sums of exp(logit - largest) */
    float *of_base;         /* gradients: like base, or [slices, B, H, 1, N] */
    float *of_v;            /* [slices, B, N, P] */
    float *of_att, *of_val; /* [items, F, P]; of_val or NULL */
    int32_t *features_of;   /* of a thread's receiver a bit for each that is not 0,
                               [WORDS(F), N] and a vector more */
    ptrdiff_t graphs, nodes, heads, d, width, padded; /* B, N, H, D / H, F, P */
    ptrdiff_t receivers, parts, slices;
    ptrdiff_t next_item, next_room;
    ptrdiff_t base_stride, base_head; /* from a receiver to the next, or 0, and from a head */
    float *most, *inverse;            /* [N, P], of `out` */
} channels;

#if defined(__GNUC__) /* and clang; others have no vector types */
#define KERNEL "_filter.h"
#include "_processors.h"

static void filter_channels(void *job) { CHOSEN(filter)(job); }
#else /* this is not called */
static void filter_channels(void *job) {}
#endif

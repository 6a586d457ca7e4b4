# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Attention with a vector per relation; ``attention.py`` checks and documents."""

from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset


cdef extern from "_attention.h" nogil:
    int LANES
    bint HAS_VECTORS
    void attend_graph(
        const float *q, const float *k, const float *v, const float *query_table,
        const float *key_table, const float *value_table, const int64_t *relation,
        const uint8_t *occurs, Py_ssize_t nodes, Py_ssize_t relations, Py_ssize_t d,
        int key_from_row, float *query, float *key, float *scores, float *sums,
        float *out,
    )

COMPILED = HAS_VECTORS


def attend(
    const float[:, :, ::1] qkv,
    const float[:, :, ::1] query_table,
    const float[:, :, ::1] key_table,
    const float[:, :, ::1] value_table,
    const int64_t[:, :, ::1] relation,
    bint key_from_row,
    float[:, :, ::1] out,
):
    """Fills ``out`` ``[B, T, D]``. Returns the first graph with a wrong relation, or -1.

    Raises:
        MemoryError: No memory for a graph.
    """
    cdef Py_ssize_t B = qkv.shape[0], T = qkv.shape[1], H = query_table.shape[0]
    cdef Py_ssize_t R = query_table.shape[1] - 1, d = query_table.shape[2]
    cdef Py_ssize_t node = T * d * LANES, table = R * d * LANES
    cdef Py_ssize_t b, block, head, left, part, wrong = -1
    cdef float scale = 1 / sqrt(d)
    cdef float *room
    cdef float *tables
    cdef float *query
    cdef float *key
    cdef float *scores
    cdef float *sums
    cdef uint8_t *occurs
    if not B or not T:
        return -1
    with nogil:
        room = <float *> malloc(
            (4 * node + 3 * table + (R + T * R + T + R) * LANES) * sizeof(float) + R + 1
        )
        if room == NULL:
            with gil:
                raise MemoryError("no memory for the attention of a graph")
        tables = room + 4 * node
        query = tables + 3 * table
        key = query + R * LANES
        scores = key + T * R * LANES
        sums = scores + T * LANES
        occurs = <uint8_t *> (sums + R * LANES)
        for block in range((H + LANES - 1) // LANES):
            head = block * LANES
            left = min(H - head, LANES)
            to_lanes(&query_table[head, 0, 0], (R + 1) * d, d, R, d, left, 1, tables)
            to_lanes(
                &key_table[head, 0, 0], (R + 1) * d, d, R, d, left, scale,
                tables + table,
            )
            to_lanes(
                &value_table[head, 0, 0], (R + 1) * d, d, R, d, left, 1,
                tables + 2 * table,
            )
            for b in range(B):
                if not find_relations(&relation[b, 0, 0], T * T, R, occurs):
                    wrong = b
                    break
                for part in range(3):
                    to_lanes(
                        &qkv[b, 0, (part * H + head) * d], d, 3 * H * d, T, d, left,
                        scale if part == 0 else 1, room + part * node,
                    )
                attend_graph(
                    room, room + node, room + 2 * node, tables, tables + table,
                    tables + 2 * table, &relation[b, 0, 0], occurs, T, R, d,
                    key_from_row, query, key, scores, sums, room + 3 * node,
                )
                from_lanes(room + 3 * node, d, H * d, T, d, left, &out[b, 0, head * d])
            if wrong >= 0:
                break
        free(room)
    return wrong


cdef bint find_relations(
    const int64_t *relation, Py_ssize_t pairs, Py_ssize_t forbidden, uint8_t *occurs
) noexcept nogil:
    """Marks the relations of a graph. False if one is above ``forbidden``."""
    cdef Py_ssize_t pair
    memset(occurs, 0, forbidden + 1)
    for pair in range(pairs):
        if relation[pair] < 0 or relation[pair] > forbidden:
            return False
        occurs[relation[pair]] = 1
    return True


cdef void to_lanes(
    const float *source, Py_ssize_t head_stride, Py_ssize_t row_stride,
    Py_ssize_t rows, Py_ssize_t d, Py_ssize_t heads, float scale, float *target,
) noexcept nogil:
    """Rows of each head -> ``[rows, d, LANES]``, with zeros for missing heads."""
    cdef Py_ssize_t row, c, h
    cdef const float *from_row
    if heads < LANES:
        memset(target, 0, rows * d * LANES * sizeof(float))
    for row in range(rows):
        for h in range(heads):
            from_row = source + h * head_stride + row * row_stride
            for c in range(d):
                target[(row * d + c) * LANES + h] = scale * from_row[c]


cdef void from_lanes(
    const float *source, Py_ssize_t head_stride, Py_ssize_t row_stride,
    Py_ssize_t rows, Py_ssize_t d, Py_ssize_t heads, float *target,
) noexcept nogil:
    """The inverse of `to_lanes`."""
    cdef Py_ssize_t row, c, h
    for row in range(rows):
        for h in range(heads):
            for c in range(d):
                target[h * head_stride + row * row_stride + c] = source[
                    (row * d + c) * LANES + h
                ]

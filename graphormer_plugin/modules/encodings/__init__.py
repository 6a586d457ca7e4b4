"""Encodings of nodes, bonds and node pairs, in the input or the scores of the attention."""

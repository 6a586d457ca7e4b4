"""Attention of nodes to each other, one module for each form, and its compiled kernels."""

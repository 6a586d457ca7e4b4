"""Graphs of molecules and of others, in arrays."""

"""Explanations of a prediction: contributions of atoms, attention, and their picture."""

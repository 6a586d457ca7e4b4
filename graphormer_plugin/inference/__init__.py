"""Read checkpoints; predict and embed with trained models, and read their attention."""

import logging

HEAD_BESIDE_CHECKPOINT = "beside"  # the head that lies beside a checkpoint
# Parts of a graph's vector: the virtual node, or without it the model's read-out of the
# nodes; the mean over the nodes; the outputs.
VECTOR_PARTS = ("graph", "nodes", "outputs")

# Importing fairseq sets the root logger to DEBUG, and these log every font and chunk.
for _name in ("matplotlib", "PIL"):
    logging.getLogger(_name).setLevel(logging.WARNING)

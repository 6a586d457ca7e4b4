"""Tables of predictions: read rows, predict them, score and write them."""

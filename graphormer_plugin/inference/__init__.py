"""Use a trained model: read checkpoints, predict, embed, explain, draw."""

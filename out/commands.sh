# Type these lines in this folder, or in another with its table.
# Heads (head.npz) are fitted by graphormer-train itself.

"""The words that options take. Without PyTorch, whose import takes seconds, so that usage comes at once."""

MODES = ("auto", "forward", "loss", "joint")
GENERATORS = ("mt19937", "philox")
MEANS = ("microbatches", "targets")

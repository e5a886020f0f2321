"""Sampling from language models: one device thread, many rows, many players. Importing this imports no MLX."""

import os

# transformers would say at import that PyTorch is missing, which here is as it should be.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

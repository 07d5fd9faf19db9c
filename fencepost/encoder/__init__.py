"""Encoders, which turn words into vectors: input arrays (NumPy) and networks (PyTorch)."""

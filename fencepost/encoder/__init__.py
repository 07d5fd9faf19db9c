"""Words to vectors: input arrays (NumPy), networks (PyTorch), extra features and a BiLSTM."""

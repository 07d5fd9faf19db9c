"""Prediction on files, however many processes share it: texts in, lines with entities out."""

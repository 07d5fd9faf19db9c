"""Boundary offset prediction (BOPN): Tang et al., Findings of EMNLP 2023."""

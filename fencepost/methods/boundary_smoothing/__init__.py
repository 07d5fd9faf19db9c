"""Boundary smoothing: Zhu and Li, ACL 2022."""

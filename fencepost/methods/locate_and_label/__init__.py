"""Locate and label: Shen et al., ACL 2021."""

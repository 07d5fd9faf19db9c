"""DiffusionNER: Shen et al., ACL 2023."""

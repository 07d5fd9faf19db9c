"""What the papers show of their models, for any model: figures, tables, and the report."""

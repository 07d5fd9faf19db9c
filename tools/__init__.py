"""What builds the documentation."""

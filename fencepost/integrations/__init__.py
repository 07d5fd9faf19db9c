"""Integrations with spaCy, Ray, the Hugging Face Hub and its data sets."""

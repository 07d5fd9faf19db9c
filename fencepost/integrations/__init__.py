"""Where Fencepost meets other tools: spaCy, Ray, the Hugging Face Hub and its data sets."""

"""Entities in raw text: the recogniser and its engines, model folders, batch prediction of files."""

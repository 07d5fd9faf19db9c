"""Recipes, sweeps and tuning."""

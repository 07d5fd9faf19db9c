"""Prediction of the entities of files, by one process or several."""

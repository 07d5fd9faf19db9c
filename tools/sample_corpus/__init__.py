"""The generator of the sample corpus, whose files ship in `fencepost/data/sample/`."""

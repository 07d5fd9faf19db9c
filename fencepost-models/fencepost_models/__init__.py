"""Models for Fencepost; `fencepost.load("mentions")` finds them by their entry points."""

"""Model folders saved by released versions of Fencepost, which later versions must still load.

    python -m tests.saved_models

writes one for each method, as this version saves it, into a folder named for the version, with the entities
that it predicts. Do that once for each release, and never change what an earlier version has written.
"""

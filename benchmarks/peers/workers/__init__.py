"""Programs that train and apply one tool each, and run in the environment of that tool."""

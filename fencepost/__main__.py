"""`python -m fencepost`: the command line."""

from fencepost.cli import main

if __name__ == "__main__":
    main()

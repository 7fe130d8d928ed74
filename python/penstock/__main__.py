"""`python -m penstock` is `penstock`."""

from .cli import main

if __name__ == "__main__":
    main()

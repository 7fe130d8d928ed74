"""`python -m penstock.demo [--listen HOST:PORT]`."""

import argparse
import asyncio
import sys

from . import run


def main() -> int:
    """Serve until interrupted; 1 if the address cannot be served on."""
    parser = argparse.ArgumentParser(prog="python -m penstock.demo", description="Serve penstock's demo.")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8080", help="default: %(default)s"
    )
    try:
        asyncio.run(run(parser.parse_args().listen))
    except (OSError, ValueError) as problem:
        print(f"penstock demo: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

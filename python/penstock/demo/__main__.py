"""`python -m penstock.demo`: the same as `penstock demo`."""

from penstock.cli import demo

if __name__ == "__main__":
    demo(prog_name="python -m penstock.demo")

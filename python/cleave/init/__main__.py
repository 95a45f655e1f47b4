"""`python -m cleave.init FILE:FACTORY -o FILE.safetensors`: initialises the module of what a factory returns."""

from __future__ import annotations

import argparse
import sys

from cleave.export.__main__ import load_spec
from cleave.export.errors import ExportError
from cleave.init import initialize


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cleave.init", description=__doc__)
    parser.add_argument(
        "target", metavar="FILE:FACTORY", help="function that returns a cleave.ExportSpec"
    )
    parser.add_argument(
        "-o", "--out", required=True, metavar="FILE.safetensors", help="where to write the weights"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of PyTorch's generator (default: 0)"
    )
    options = parser.parse_args(argv)
    try:
        print(initialize(lambda: load_spec(options.target), options.out, seed=options.seed))
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What benchmarks of passes over Llamas of many layers share: the model and the options."""

import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def llama(layers):
    """A Llama of that many narrow layers: the passes see as many ops as in a wide one."""
    import huggingface

    return huggingface._language_model(
        huggingface._llama(layers, width=16, vocabulary=64), f"llama{layers}", time=8
    )


def parse_options(description):
    """--runs N, of which the best counts; --layers as a list of numbers; --opt FILE, cleave-opt."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--layers", default=[32], type=lambda text: [int(part) for part in text.split(",")]
    )
    parser.add_argument("--opt", default=str(ROOT / "build/bin/cleave-opt"))
    return parser.parse_args()

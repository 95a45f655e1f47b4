"""Damaged programs end in an error, never in a crash or a hang.

Bytecode is truncated and has bytes changed; text has tokens dropped, doubled, swapped and replaced.
The seed is printed with every failure; CLEAVE_TEST_SEED sets it.
"""

import os
import pathlib
import random
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CLEAVE_BUILD", ROOT / "build")) / "bin"
SEED = int(os.environ.get("CLEAVE_TEST_SEED", "0"))
CASES = 2000 if os.environ.get("CLEAVE_TEST_ALL") else 200
TOKEN = re.compile(r'"[^"]*"|[%@#]?[\w.$-]+|\s+|.')


def run(tool, path, *options):
    return subprocess.run([BIN / tool, path, *options], capture_output=True, text=True, errors="replace", timeout=60)


def check_refused_or_right(result, what):
    """Exit status 0 or 1, and with 1 a message that names an error."""
    assert result.returncode in (0, 1), f"{what}: exit {result.returncode}\n{result.stderr[-2000:]}"
    assert "Stack dump" not in result.stderr, what
    if result.returncode == 1:
        assert "error:" in result.stderr, f"{what}: no message\n{result.stderr}"


@pytest.fixture(scope="module")
def sources():
    """Programs of the lit suite that are valid as they stand."""
    folder = ROOT / "test" / "dialects"
    texts = [p.read_text() for p in sorted(folder.rglob("*.mlir"))]
    texts = [t for t in texts if "expected-error" not in t and "split-input-file" not in t]
    assert texts
    return texts


def test_damaged_bytecode(tmp_path, sources):
    rng = random.Random(SEED)
    program = tmp_path / "program.mlir"
    program.write_text(max(sources, key=len))
    whole = tmp_path / "program.mlirbc"
    assert run("cleave-opt", program, "--emit-bytecode", "-o", whole).returncode == 0
    data = whole.read_bytes()
    damaged_file = tmp_path / "damaged.mlirbc"
    for case in range(CASES):
        damaged = bytearray(data)
        if case % 3 == 0:
            damaged = damaged[: rng.randrange(len(damaged))]
        else:
            for _ in range(rng.choice([1, 1, 2, 16])):
                damaged[rng.randrange(len(damaged))] ^= rng.randrange(1, 256)
        damaged_file.write_bytes(damaged)
        result = run("cleave-opt", damaged_file, "-o", os.devnull)
        check_refused_or_right(result, f"seed {SEED}, case {case}")
        # What is left without the magic is text, and an empty file is an empty module.
        assert result.returncode == 1 or len(damaged) == 0, f"seed {SEED}, case {case}: accepted"


def mutate(rng, text):
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice([1, 1, 2, 3])):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        kind = rng.randrange(5)
        if kind == 0:
            del tokens[i]
        elif kind == 1:
            tokens.insert(i, tokens[j])
        elif kind == 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == 3:
            tokens[i] = tokens[j]
        else:
            tokens[i] = rng.choice(
                ["0", "-1", "9223372036854775807", "99999999999999999999", "none", "[]", "f32", "i1",
                 "tensor<?xf32>", "tensor<4xf32>", "memref<4xf32>", "tensor<0xf32>", "1.5", "true", '"x"'])
    return "".join(tokens)


def test_damaged_text(tmp_path, sources):
    rng = random.Random(SEED + 1)
    path = tmp_path / "program.mlir"
    for case in range(CASES):
        path.write_text(mutate(rng, rng.choice(sources)))
        result = run("cleave-opt", path, "--cse", "--canonicalize", "-o", os.devnull)
        check_refused_or_right(result, f"seed {SEED}, case {case}:\n{path.read_text()}")

"""docs/type-checking.md: its programs get the errors that it shows, or none if it shows none."""

import pathlib
import re
import subprocess

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "type-checking.md"


def read_examples():
    """The prelude, and (program, messages or None) for each program after it."""
    blocks = re.findall(r"```(mlir|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    prelude = blocks[0][1]
    examples = []
    for (kind, text), (following, messages) in zip(blocks[1:], blocks[2:] + [("", "")]):
        if kind == "mlir":
            examples.append((text, messages if following == "text" else None))
    return prelude, examples


PRELUDE, EXAMPLES = read_examples()


def normalize(text):
    return " ".join(text.split())


def test_the_page_shows_right_and_wrong_programs():
    assert len([e for e in EXAMPLES if e[1]]) >= 11
    assert len([e for e in EXAMPLES if not e[1]]) >= 3


@pytest.mark.parametrize("program, messages", EXAMPLES, ids=lambda value: (value or "right")[:40])
def test_example(build_dir, tmp_path, program, messages):
    path = tmp_path / "example.mlir"
    path.write_text(PRELUDE + program)
    result = subprocess.run(
        [build_dir / "bin" / "cleave-opt", path, "--check-spmd-types", "-o", "/dev/null"],
        capture_output=True,
        text=True,
    )
    if messages is None:
        assert result.returncode == 0, result.stderr
        return
    assert result.returncode == 1
    for message in re.split(r"\n(?=error|note)", messages.strip()):
        assert normalize(message) in normalize(result.stderr)

"""Include guards follow the paths of headers; `./dev format` writes them, `./dev test` checks them."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "dev" / "guards.py"
GUARD = "CLEAVE_LIB_TYPING_NEW_H"
GOOD = f"""//===- New.h - a header -*- C++ -*-===//

#ifndef {GUARD}
#define {GUARD}

/// One.
int one();

#endif // {GUARD}
"""


def run(root, *arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], cwd=root, capture_output=True, text=True)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace(GUARD, "CLEAVE_NEW_H"),
        GOOD.replace(f"#ifndef {GUARD}\n#define {GUARD}", "#pragma once").replace(f"\n#endif // {GUARD}\n", ""),
        GOOD.replace(f"#endif // {GUARD}", "#endif"),
        GOOD.replace(f"#ifndef {GUARD}\n#define {GUARD}\n\n", "").replace(f"\n#endif // {GUARD}\n", ""),
    ],
    ids=["other name", "pragma once", "bare endif", "none"],
)
def test_other_guards_are_named_and_replaced(tmp_path, text):
    path = "lib/typing/New.h"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text)
    result = run(tmp_path, "--check", path)
    assert (result.returncode, result.stdout) == (1, f"{path}: expected the include guard {GUARD}\n")
    assert run(tmp_path, path).returncode == 0
    assert (tmp_path / path).read_text() == GOOD
    assert run(tmp_path, "--check", path).returncode == 0


def test_include_is_not_part_of_the_name(tmp_path):
    path = "include/cleave/New.h"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(GOOD.replace(GUARD, "CLEAVE_NEW_H"))
    assert run(tmp_path, "--check", path).returncode == 0

"""The list of which folder may include which holds, has no cycle, and what breaks it is named."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("dialects", "include", "lib", "passes", "runtime", "scripts/dev", "tools")


def check(root):
    return subprocess.run(
        [sys.executable, root / "scripts" / "dev" / "floors.py", root], capture_output=True, text=True
    )


@pytest.fixture
def tree(tmp_path):
    """A copy of all headers, sources and the list."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def test_includes_follow_the_list():
    result = check(ROOT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_forbidden_include_names_both_files(tree):
    with open(tree / "lib" / "typing" / "Check.h", "a") as header:
        header.write('#include "lib/autodiff/Backward.h"\n')
    result = check(tree)
    assert result.returncode == 1
    assert result.stdout == (
        "lib/typing/Check.h includes lib/autodiff/Backward.h: lib/typing may not see lib/autodiff\n"
    )


def test_file_outside_of_all_rooms(tree):
    (tree / "lib" / "attic").mkdir()
    (tree / "lib" / "attic" / "Old.cpp").touch()
    result = check(tree)
    assert result.returncode == 1
    assert result.stdout == "lib/attic/Old.cpp: in no room of scripts/dev/floors.txt\n"


def test_list_cannot_have_a_cycle(tree):
    path = tree / "scripts" / "dev" / "floors.txt"
    path.write_text(path.read_text().replace("lib/typing: ", "lib/typing: lib/autodiff ", 1))
    result = check(tree)
    assert result.returncode == 1
    assert "expected rooms that are listed above 'lib/typing', found lib/autodiff" in result.stderr

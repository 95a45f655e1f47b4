"""Plain English: none of scripts/dev/old_words.txt is in help, diagnostics, op descriptions, documents and comments."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOOLS = (
    "cleave-check-proof", "cleave-lsp-server", "cleave-opt", "cleave-plan", "cleave-prove", "cleave-reduce", "cleave-run",
    "cleave-sim", "pack-buffers", "solve-sharding",
)  # fmt: skip
MODULES = ("cleave.export", "cleave.overlap", "cleave.placement_page", "cleave.status_page")


def read_words():
    words = []
    for line in (SOURCE / "scripts/dev/old_words.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            old, arrow, new = line.partition(" -> ")
            assert arrow and new, f"expected OLD -> NEW, found {line!r}"
            words.append((re.compile(old.replace(" ", r"\s+")), new))
    return words


WORDS = read_words()


def tracked(*patterns):
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=SOURCE, text=True)
    return [path for path in listed.split() if (SOURCE / path).exists()]


def list_old_words(place, text):
    """Where the old words are: the place with the line, what was found, and what to write."""
    return [
        f"{place}:{text[: found.start()].count(chr(10)) + 1}: {' '.join(found[0].split())!r}: write {new!r}"
        for old, new in WORDS
        for found in old.finditer(text)
    ]


def blank(text):
    """As many lines, and nothing else."""
    return "\n" * text.count("\n")


def literals(text):
    """String literals of C++, where they are: messages; includes and comments are blank."""
    text = re.sub(r"^\s*#include.*$|//[^\n]*", "", text, flags=re.MULTILINE)
    kept, last = [], 0
    for literal in re.finditer(r'"(?:[^"\\\n]|\\.)*"', text):
        between = text[last : literal.start()]
        # Adjacent literals are one message.
        kept += [blank(between) if between.strip() == "" else blank(between) + " | ", literal[0][1:-1]]
        last = literal.end()
    return "".join(kept)


def comments(text):
    """Line comments of C++, where they are; those of adjacent lines are one text."""
    without = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    return "\n".join(line.partition("//")[2].lstrip("/<") for line in without.splitlines())


def python_messages(text):
    """String literals of Python but for documentation, by line."""
    lines = [""] * text.count("\n")
    tree = ast.parse(text)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            lines[node.lineno - 1] += " | " + node.value.replace("\n", " ")
    return "\n".join(lines)


def test_the_list_finds_what_it_names():
    found = list_old_words("x", "the dearest stage\nwhat nobody needs any more\n")
    assert list_old_words("x", comments('call("//"); // the dearest\n// stage\n'))
    assert list_old_words("x", python_messages('raise ValueError(f"the dearest {x}")\n'))
    assert any(line.startswith("x:1: 'dearest'") for line in found)
    assert any("what nobody needs any more" in line for line in found)


@pytest.mark.parametrize("tool", TOOLS)
def test_help_of_tools(build_dir, tool):
    text = subprocess.run([build_dir / "bin" / tool, "--help"], capture_output=True, text=True, check=True).stdout
    assert not list_old_words(f"{tool} --help", text)


@pytest.mark.parametrize("module", MODULES)
def test_help_of_modules(module):
    text = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True).stdout
    assert not list_old_words(f"{module} --help", text)


def test_op_and_pass_descriptions():
    found = []
    for path in tracked("dialects/*.td", "passes/*.td"):
        # Comments and C++ inside of records are not what users read.
        text = re.sub(r"^\s*//.*$", "", (SOURCE / path).read_text(), flags=re.MULTILINE)
        found += list_old_words(path, text)
    assert not found, "\n".join(found)


def test_diagnostics():
    found = []
    for path in tracked("dialects/*.cpp", "lib/*.cpp", "passes/*.cpp", "runtime/*.cpp", "tools/*.cpp"):
        found += list_old_words(path, literals((SOURCE / path).read_text()))
    assert not found, "\n".join(found)


def test_python_messages():
    found = []
    for path in tracked("python/*.py", "scripts/*.py"):
        found += list_old_words(path, python_messages((SOURCE / path).read_text()))
    assert not found, "\n".join(found)


def test_comments():
    found = []
    for path in tracked("*.cpp", "*.h"):
        found += list_old_words(path, comments((SOURCE / path).read_text()))
    assert not found, "\n".join(found)


def test_documents():
    found = []
    for path in tracked("*.md"):
        if not path.startswith(("docs/site/", "bench/results/", "test/")):
            # Code and messages in documents have tests of their own.
            text = re.sub(r"^( *)```.*?^ *```$", lambda block: blank(block[0]), (SOURCE / path).read_text(),
                          flags=re.DOTALL | re.MULTILINE)  # fmt: skip
            found += list_old_words(path, text)
    assert not found, "\n".join(found)

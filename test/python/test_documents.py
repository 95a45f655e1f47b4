"""Code, IR and commands in documents: they parse, name what exists, and every page is on the site.

Some pages are run whole by tests of their own: own-model.md, type-checking.md, placement-table.md; every
cleave-opt line of the documents is run on models by test/e2e/test_matrix.py.
"""

import ast
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from test_words import SOURCE, tracked

BLOCK = re.compile(r"^( *)```(\S*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)

# IR that other tests read, by what marks it.
IR_ELSEWHERE = {
    ("docs/types.md", "= dist."): "test/dialects/dist/examples.test",
    ("docs/type-checking.md", "func.func"): "test/e2e/test_type_checking_page.py",
}

# What begins a command that cannot run here, and why; shell syntax does not name a tool.
NOT_RUN = {
    "torchrun": "needs free ports: test/e2e/test_cluster_examples.py",
    "srun": "needs a cluster: test/e2e/test_cluster_examples.py",
    "sbatch": "needs a cluster: test/e2e/test_cluster_examples.py",
    "mpirun": "needs MPI",
    "cmake": "builds an example: examples/check_installed.sh",
    "ctest": "runs tests",
    "ninja": "builds",
    ".venv/bin/lit": "runs tests",
    "pytest": "runs tests",
    "run-clang-tidy-22": "needs a package that only contributors install",
    "build/unit/": "runs tests",
    "build/embed-session": "needs an installed tree: examples/check_installed.sh",
    "examples/torchrun/train.sh": "test/e2e/test_cluster_examples.py",
    "gpu-bundle/run_all": "needs a GPU",
    "nsys": "needs a GPU",
    "bash": "needs a GPU or runs a benchmark",
    "scripts/gpu/": "needs a GPU",
    "PREFIX/bin/": "needs an installed tree: examples/check_installed.sh",
    "/opt/cleave/bin/": "needs an installed tree: examples/check_installed.sh",
    "pip": "installs",
    "apt-get": "installs",
}
SHELL = {"cd", "cat", "chmod", "exit", "export", "eval", "echo", "for", "done", "do", "if", "fi", "EOF", "mkdir", "cp", "ls",
         "set", "then", "tar", "scp", "#!/bin/sh", "#!/bin/bash"}  # fmt: skip


def documents():
    return [path for path in tracked("*.md") if not path.startswith(("docs/site/", "bench/results/", "test/"))]


def blocks(*languages):
    """(name for a report, page, text) of each fenced block in one of the languages."""
    for page in documents():
        text = (SOURCE / page).read_text()
        for block in BLOCK.finditer(text):
            if block[2] in languages:
                line = text[: block.start()].count("\n") + 1
                yield pytest.param(page, re.sub(f"^{block[1]}", "", block[3], flags=re.MULTILINE), id=f"{page}:{line}")


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)


def parse_errors(build_dir, text, folder):
    path = folder / "block.mlir"
    path.write_text(text)
    return run(build_dir / "bin/cleave-opt", path, "--verify-types=false", "-o", "/dev/null").stderr


@pytest.mark.parametrize("page, text", blocks("mlir"))
def test_ir_parses(build_dir, tmp_path, page, text):
    if any(page == where and mark in text for where, mark in IR_ELSEWHERE):
        return
    if "..." not in text:
        if text.startswith("tensor<"):
            text = f"func.func private @f({text.strip()})"
        errors = parse_errors(build_dir, text, tmp_path)
        assert not errors, errors
        return
    # Abridged: what it names exists.
    code = re.sub(r'//.*|"[^"\n]*"', "", text)
    statement = r"^ *(?:%[\w:, %]+ = )?((?:aten|dist|train|exec|pipeline)\.\w+)\b(?! *=)"
    for op in sorted(set(re.findall(statement, code, re.MULTILINE))):
        errors = parse_errors(build_dir, f'"{op}"() : () -> ()', tmp_path)
        assert "unregistered" not in errors and "not found" not in errors, f"{op}: {errors}"


@pytest.mark.parametrize("page, text", blocks("python"))
def test_python_compiles_and_names_what_exists(page, text):
    import cleave

    # Entries of a dictionary are shown without its braces.
    tree = ast.parse("{" + text + "}" if text.startswith('"') else text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cleave":
            assert hasattr(cleave, node.attr), f"{page}: no cleave.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "cleave":
            for name in node.names:
                assert hasattr(cleave, name.name), f"{page}: no cleave.{name.name}"


def commands(text):
    """The commands of a shell block, as words; continued lines joined, here-documents left out."""
    text = re.sub(r"<<'EOF'.*?^EOF$", "", text.replace("\\\n", " "), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\$\([^()]*\)", "SUBSTITUTED", text)
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        command = []
        for word in [*words, ";"]:
            if word in ("|", "||", "&&", ";", "&"):
                while command and re.fullmatch(r"\w+=.*", command[0]):
                    command = command[1:]
                if command:
                    yield command
                command = []
            else:
                command.append(word)


_help = {}


def help_of(build_dir, tool):
    """All that a tool's help says, hidden options too."""
    if tool not in _help:
        if tool.startswith("cleave-"):
            result = run(build_dir / "bin" / tool, "--help-hidden")
        else:
            result = run(sys.executable, "-m", tool, "--help")
        assert result.returncode == 0, result.stderr
        _help[tool] = result.stdout
    return _help[tool]


@pytest.mark.parametrize("page, text", blocks("sh", "bash"))
def test_commands_have_options_that_exist(build_dir, page, text):
    for words in commands(text):
        tool, arguments = words[0], words[1:]
        if re.fullmatch(r"(build/bin/)?cleave-[\w-]+", tool):
            tool = pathlib.Path(tool).name
        elif tool in ("python", ".venv/bin/python") and arguments[:1] == ["-m"]:
            tool, arguments = arguments[1], arguments[2:]
            if not tool.startswith("cleave."):
                continue
        elif tool in ("python", ".venv/bin/python"):
            # A script of the tree, or one that the page itself shows.
            assert (SOURCE / arguments[0]).exists() or arguments[0] in (SOURCE / page).read_text(), words
            continue
        elif tool == "./dev":
            usage = run("bash", "-c", f"cd {SOURCE} && ./dev help").stdout
            assert re.search(rf"^  {arguments[0]}\b", usage, re.MULTILINE), words
            continue
        else:
            known = tool in SHELL or any(tool.startswith(name) for name in NOT_RUN)
            assert known, f"{page}: no test knows the command {shlex.join(words)}"
            continue
        text_of_help = help_of(build_dir, tool)
        for word in arguments:
            option = re.match(r"--?([a-zA-Z][\w-]*)", word)
            if option and not any(placeholder in word for placeholder in ("my-pass", "scale-learning-rate")):
                assert re.search(rf"(?<![\w-])--?{option[1]}(?![\w-])", text_of_help), f"{page}: {tool} has no {word}"


def test_every_document_is_on_the_site():
    navigation = (SOURCE / "docs/site/navigation.md").read_text()
    named = set(re.findall(r"<(\S+)>$", navigation, re.MULTILINE))
    pages = {path.removesuffix(".md") for path in documents() if path.startswith("docs/")} | {"CONTRIBUTING"}
    assert not pages - named, f"docs/site/navigation.md lacks {sorted(pages - named)}"
    generated = {"examples", "measurements", "reference/tools", "reference/passes", "reference/dialects"}
    assert not named - pages - generated, f"docs/site/navigation.md names {sorted(named - pages - generated)}"


def test_pictures_are_ones_that_are_made(monkeypatch):
    monkeypatch.syspath_prepend(str(SOURCE / "docs/site"))
    import pictures

    shown = {name for page in documents() for name in re.findall(r"<!-- picture: (\S+) -->", (SOURCE / page).read_text())}
    assert shown == set(pictures.PICTURES)

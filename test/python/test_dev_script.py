"""./dev refuses what it does not know, and documents lead somewhere."""

import subprocess
import sys

import pytest


def run(source_dir, *command):
    return subprocess.run(command, cwd=source_dir, capture_output=True, text=True, timeout=60)


def test_unknown_command(source_dir):
    result = run(source_dir, "./dev", "biuld")
    assert result.returncode == 2
    assert "no command 'biuld'" in result.stderr


def test_unknown_preset(source_dir):
    result = run(source_dir, "./dev", "build", "fast")
    assert result.returncode == 1
    assert result.stderr == "dev: no preset 'fast'; expected release, debug or asan+ubsan\n"


def test_unknown_test_options(source_dir):
    result = run(source_dir, "./dev", "test", "--only", "fuzz")
    assert result.returncode == 1
    assert "--only expects format, unit, lit, python, install or docs, found 'fuzz'" in result.stderr
    result = run(source_dir, "./dev", "test", "--everything")
    assert result.returncode == 1
    assert "test has no option '--everything'" in result.stderr


@pytest.mark.parametrize("path", ["test/python/test_missing.py", "README.md"])
def test_unknown_test_paths(source_dir, path):
    result = run(source_dir, "./dev", "test", path)
    assert result.returncode == 1
    assert f"test expects paths below test/, found '{path}'" in result.stderr


def test_paths_of_another_suite(source_dir):
    result = run(source_dir, "./dev", "test", "--only", "lit", "test/python/test_dev_script.py")
    assert result.returncode == 1
    assert "paths are of suite python, found --only lit" in result.stderr


def test_environment_finds_tools_and_package(source_dir):
    script = 'eval "$(./dev env)"; echo "${PATH%%:*}"; python -c "import cleave; print(cleave.__file__)"'
    tools, package = run(source_dir, "bash", "-c", script).stdout.split()
    assert tools == str(source_dir / "build" / "bin")
    assert package == str(source_dir / "python" / "cleave" / "__init__.py")


def test_links_between_documents(source_dir):
    result = run(source_dir, sys.executable, "scripts/check_links.py")
    assert result.returncode == 0, result.stdout

"""Which versions of PyTorch there are is written in python/, and what differs between them has one place."""

import re
import subprocess
import tomllib

import pytest

# What asks for a version, and where alone it may stand.
QUESTIONS = {
    r"\bTORCH_VERSION_(MAJOR|MINOR|PATCH)\b": "runtime/comm/TorchVersions.h",
    r"\b__version__\s*(\.startswith|[<>]=?|[!=]=\s*[\"'])|\bTorchVersion\b": "python/cleave/export/pytorch.py",
    r"\btorch\s*[=<>~!]=\s*\d": "python/pyproject.toml",
}
CODE = ["*.h", "*.cpp", "*.td", "*.cu", "*.py", "*.sh", "*.cmake", "*.toml", "CMakeLists.txt", "dev", ":!test", ":!bench", ":!scripts/gpu"]


def questions(path, text):
    """The lines that ask for a version of PyTorch where they should not."""
    lines = [re.sub(r"//.*|^\s*#(?!\s*(if|elif|define)).*", "", line) for line in text.splitlines()]
    found = []
    for pattern, home in QUESTIONS.items():
        if path != home:
            found += [f"{path}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if re.search(pattern, line)]
    return found


def version_lists(source_dir):
    """The versions that --torch takes beside the default: python/torch-VERSION-nodeps.lock."""
    lists = sorted((source_dir / "python").glob("torch-*-nodeps.lock"))
    return {path.name.removeprefix("torch-").removesuffix("-nodeps.lock"): path.read_text() for path in lists}


def default_version(source_dir):
    return re.search(r"^torch==(.+)$", (source_dir / "python" / "requirements.in").read_text(), re.M)[1]


def test_versions_are_asked_for_in_one_place(source_dir):
    listed = subprocess.run(["git", "ls-files", *CODE], cwd=source_dir, capture_output=True, text=True, check=True)
    files = listed.stdout.split()
    assert set(QUESTIONS.values()) <= {*files}
    assert [line for path in files for line in questions(path, (source_dir / path).read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR > 11",
        'if torch.__version__.startswith("2.15"):',
        'new = torch.__version__ >= "2.12"',
        'if torch.__version__ == "2.11.0":',
        "from torch.torch_version import TorchVersion",
        'install("torch==2.11.0")',
    ],
)
def test_a_question_is_found(text):
    assert questions("runtime/exec/Arena.cpp", text)


def test_others_are_not_questions():
    for text in ('module.attr("TORCH_VERSION") = TORCH_VERSION;', "found = torch.__version__", "// TORCH_VERSION_MAJOR"):
        assert not questions("runtime/exec/Arena.cpp", text)
    assert not questions("runtime/comm/TorchVersions.h", "#if TORCH_VERSION_MAJOR > 2")


def test_lists_and_documents_agree(source_dir):
    default, others = default_version(source_dir), version_lists(source_dir)
    assert others and default not in others
    assert all(f"\ntorch=={version} --hash=" in text for version, text in others.items())
    project = tomllib.loads((source_dir / "python" / "pyproject.toml").read_text())["project"]
    assert f"torch=={default}" in project["dependencies"]
    table = re.findall(r"^\| (\d+\.\d+\.\d+)", (source_dir / "docs" / "install.md").read_text(), re.M)
    assert sorted(table) == sorted([default, *others])


@pytest.mark.parametrize("command", [["build"], ["build", "debug"], ["test"], ["test", "--only", "lit"], ["env"]])
@pytest.mark.parametrize("version", ["1.13.1", "2.15", "latest", "../2.15.0", "*", ""])
def test_an_unknown_version_is_refused_first(source_dir, command, version):
    result = subprocess.run(
        ["./dev", *command, "--torch", version], cwd=source_dir, capture_output=True, text=True, timeout=60
    )
    expected = " or ".join([default_version(source_dir), *version_lists(source_dir)])
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"dev: --torch expects {expected}, found '{version}'\n"


def test_a_version_is_asked_for(source_dir):
    result = subprocess.run(["./dev", "build", "--torch"], cwd=source_dir, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert re.fullmatch(r"dev: --torch expects .*, found ''\n", result.stderr)


@pytest.mark.parametrize("place", ["default", "another"])
def test_a_version_has_its_environment_and_build(source_dir, place):
    """What the commands do with a version, without doing it."""
    version = default_version(source_dir) if place == "default" else next(iter(version_lists(source_dir)))
    parts = "".join(f"source scripts/dev/{part}.sh; " for part in ("steps", "setup", "build"))
    script = f'{parts} choose_torch {version}; echo "$venv $(build_dir release) $(build_dir debug)"'
    result = subprocess.run(["bash", "-euc", script], cwd=source_dir, capture_output=True, text=True, timeout=60)
    suffix = "" if place == "default" else f"-torch-{version}"
    assert result.stdout.split() == [f".venv{suffix}", f"build{suffix}", f"build-debug{suffix}"], result.stderr


def test_environment_of_a_version(source_dir):
    version = next(iter(version_lists(source_dir)))
    script = f'eval "$(./dev env --torch {version})"; echo "$PATH $CLEAVE_BUILD"'
    result = subprocess.run(["bash", "-euc", script], cwd=source_dir, capture_output=True, text=True, timeout=60)
    path, build = result.stdout.split()
    assert build == f"{source_dir}/build-torch-{version}"
    assert path.startswith(f"{build}/bin:{source_dir}/.venv-torch-{version}/bin:")


def test_cmake_refuses_another_version(source_dir, tmp_path):
    (tmp_path / "version.py").write_text("__version__ = '2.10.0+cpu'\n")
    script = tmp_path / "script.cmake"
    script.write_text(f"cmake_minimum_required(VERSION 3.25)\ninclude({source_dir}/cmake/CleaveTorch.cmake)\n")
    command = ["cmake", "-D", "CLEAVE_PYTHON=python3", "-D", f"CLEAVE_TORCH_DIR={tmp_path}", "-P", script]
    result = subprocess.run(command, cwd=source_dir, capture_output=True, text=True, timeout=60)
    expected = " or ".join([default_version(source_dir), *version_lists(source_dir)])
    assert result.returncode != 0
    said = " ".join(result.stderr.split())
    assert f"expected torch {expected} in {tmp_path}, found: __version__ = '2.10.0+cpu'" in said

"""Fixtures of the end-to-end tests."""

import json
import subprocess

import cleave_run as tool
import pytest
import torch
from cleave import testing
from cleave.tensor_files import save_file
from exported_models import export_model
from training import ENVIRONMENT, Model


@pytest.fixture(scope="module")
def one_thread():
    """Bitwise comparisons take one thread: some sums depend on how they are divided."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def cleave_run(build_dir):
    return tool.CleaveRun(build_dir)


@pytest.fixture(scope="session")
def prove(build_dir):
    """What cleave-prove answers, with one of the exit statuses `expect`; only with `runs` it runs what it cannot prove."""

    def run(whole, part, *options, runs=False, expect=(0, 2)):
        result = subprocess.run(
            [build_dir / "bin" / "cleave-prove", whole, part, "--json", f"--execute={str(runs).lower()}", *options],
            capture_output=True, text=True, timeout=300, env=ENVIRONMENT,
        )  # fmt: skip
        assert result.returncode in ((*expect, 1) if runs else expect), (result.stdout, result.stderr)
        if result.returncode == 3:
            return {"answer": "bad input", "reason": result.stderr}
        answer = json.loads(result.stdout)
        assert answer["answer"] == ["proved", "refuted", "unknown"][result.returncode]
        return answer

    return run


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Exports a model of the project, once for all tests: its spec and the program's path."""
    cache = {}

    def get(name):
        if name not in cache:
            cache[name] = export_model(name, tmp_path_factory.mktemp(name))
        return cache[name]

    return get


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A `training.Model`, exported once for all tests of a file."""
    cache = {}

    def get(model_name):
        if model_name not in cache:
            cache[model_name] = Model(model_name, tmp_path_factory.mktemp(model_name))
        return cache[model_name]

    return get


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A file with one microbatch of a model's example inputs."""
    folder = tmp_path_factory.mktemp("inputs")

    def write(spec):
        path = folder / f"{spec.name}.safetensors"
        if not path.exists():
            tensors = testing.example_inputs(spec)
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        return path

    return write

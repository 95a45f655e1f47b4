"""Fixtures of the end-to-end tests."""

import cleave_run as tool
import pytest
import torch
from cleave import testing
from cleave.tensor_files import save_file
from exported_models import export_model
from training import Model


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

"""Fixtures of the exporter's tests."""

import pytest
import torch
from exported_models import Exported


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Exports a model of the project, once for all tests."""
    cache = {}

    def get(name, mode="auto"):
        if (name, mode) not in cache:
            cache[name, mode] = Exported(name, tmp_path_factory.mktemp(name), mode)
        return cache[name, mode]

    return get


@pytest.fixture
def one_thread():
    """Bitwise comparisons take one thread: some sums depend on how they are divided."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

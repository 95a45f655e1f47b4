"""Fixtures of the end-to-end tests."""

import cleave_run as tool
import pytest
from exported_models import MODELS

import cleave


@pytest.fixture(scope="session")
def cleave_run(build_dir):
    return tool.CleaveRun(build_dir)


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Exports a model of the project, once for all tests: its spec and the program's path."""
    cache = {}

    def get(name):
        if name not in cache:
            spec = MODELS[name]()
            cache[name] = spec, cleave.export_spec(spec, tmp_path_factory.mktemp(name))
        return cache[name]

    return get

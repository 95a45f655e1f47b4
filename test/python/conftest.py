"""Fixtures of the exporter's tests."""

import importlib

import pytest
import torch
from exported_models import Exported


def tensors_of(spec):
    """Every parameter and buffer under every name, with its gradient and its flags."""
    modules = [spec.module] + [spec.loss] * isinstance(spec.loss, torch.nn.Module)
    found = []
    for module in (m for root in modules for m in root.modules()):
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    tensor = tensor, type(tensor), tensor.requires_grad, tensor.grad, tensor._version
                found.append((module, name, module.training, tensor))
    return found


def same(a, b):
    """Whether two things are the same objects, in whatever tuples and lists."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return a is b or (isinstance(a, (str, int)) and a == b)


@pytest.fixture(scope="session", autouse=True)
def left_as_found():
    """Each export of each test, also one that is refused, leaves its module as it found it."""
    exporter = importlib.import_module("cleave.export.capture")
    capture = exporter.capture

    def checked(spec):
        before = tensors_of(spec)
        try:
            return capture(spec)
        finally:
            assert same(tensors_of(spec), before), "the export has changed the module"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter, "capture", checked)
        yield


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Exports a model of the project, once for all tests."""
    cache = {}

    def get(name, mode="auto"):
        if (name, mode) not in cache:
            cache[name, mode] = Exported(name, tmp_path_factory.mktemp(name), mode)
        return cache[name, mode]

    return get


@pytest.fixture(scope="module")
def one_thread():
    """Bitwise comparisons take one thread: some sums depend on how they are divided."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

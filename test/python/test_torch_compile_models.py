"""torch.compile's back end on models of PyTorch's dashboards: a step is eager mode's, bit for bit.

bench/torch_compile.py runs all of them, beside Inductor. These have graph breaks, complex numbers, and buffers that
change.
"""

import sys

import cleave_path
import hugging_face
import pytest
import timm_models
import torch

sys.path.append(str(cleave_path.SOURCE / "bench"))
import torch_compile  # noqa: E402

MODELS = {
    "AllenaiLongformerBase": (hugging_face.make, 3),
    "GoogleFnet": (hugging_face.make, 1),
    "mobilenetv2_100": (timm_models.make, 1),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_eager_modes(name):
    make, graphs = MODELS[name]
    torch.compiler.reset()
    expected = {key: value.clone() for key, value in torch_compile.Step(make(name)).results().items()}
    programs = []
    options = {"strict": True, "programs": programs}
    found = torch_compile.Step(make(name), backend="cleave", options=options).results()
    torch.compiler.reset()
    assert torch_compile.judge(found, expected, None) == "bitwise"
    assert len(programs) >= 2 * graphs


def test_what_differs_is_judged_so():
    one = {"loss": torch.ones(3), "w": torch.ones(4)}
    assert torch_compile.judge({**one}, one, None) == "bitwise"
    assert torch_compile.judge({**one, "w": one["w"] + 1e-6}, one, None) == "same"
    assert torch_compile.judge({**one, "w": one["w"] + 0.1}, one, None) == "differs"
    assert torch_compile.judge({"loss": one["loss"]}, one, None) == "differs"

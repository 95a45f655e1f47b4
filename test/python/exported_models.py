"""The project's models, exported: what the exporter's tests share."""

import dataclasses
import fcntl
import os
import pathlib
import shutil

import cleave_path  # noqa: F401
import cleave
import cleave.testing
import gpt
import huggingface
import llama
import moe
import torch
import vision
from interpreter import Interpreter, role_name
from library_models import LIBRARY_MODELS
from safetensors.torch import load_file

MODELS = {
    "gpt_tied": gpt.tied,
    "gpt_untied": gpt.untied,
    "gpt_dropout": gpt.dropout,
    "gpt_untied_dropout": gpt.untied_dropout,
    "gpt_checkpointed": gpt.checkpointed,
    "gpt_autocast": gpt.autocast,
    "moe": moe.moe,
    "gpt2": huggingface.gpt2,
    "llama": huggingface.llama,
    "minilm": huggingface.minilm,
    "resnet18": vision.resnet18,
}
# With variants that only the tests of what is special about them take.
ALL_MODELS = MODELS | {"resnet18_autocast": vision.autocast, "llama_small": llama.small}


def make_once(name, make, folder):
    """Fills `folder` by `make(folder)`. In a run of tests the first process that needs `name` makes it, and each gets a copy."""
    if "CLEAVE_TEST_SHARED" not in os.environ:
        make(folder)
        return
    shared = pathlib.Path(os.environ["CLEAVE_TEST_SHARED"], name)
    with open(f"{shared}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            make(pathlib.Path(f"{shared}.part"))
            os.rename(f"{shared}.part", shared)
    shutil.copytree(shared, folder, dirs_exist_ok=True)


def export_model(name, folder, mode="auto"):
    """A model's spec, and its program in `folder`. In a run of tests each is exported once."""
    spec = (ALL_MODELS | LIBRARY_MODELS)[name]()
    if mode != "auto":
        spec = dataclasses.replace(spec, mode=mode)
    make_once(f"{name}-{mode}", lambda out: cleave.export_spec(spec, out), folder)
    return spec, pathlib.Path(folder, f"{spec.name}.mlir")


class Exported:
    """A model's spec, its exported files, and an interpreter of the text."""

    def __init__(self, name, folder, mode):
        self.spec, self.path = export_model(name, folder, mode)
        self.text = self.path.read_text()
        self.weights = load_file(self.path.with_suffix(".safetensors"))
        self.interpreter = Interpreter(self.text)
        self.microbatch = self.interpreter.functions["microbatch"]

    def state(self):
        """Argument values for the stored tensors, by role name."""
        values = {}
        for _, _, role in self.microbatch.arguments:
            name = role_name(role)
            if role.startswith(("#train.role<parameter", "#train.role<buffer")):
                values[name] = self.weights[name.split(".", 1)[1]].clone()
            elif role.startswith("#train.role<constant"):
                values[name] = self.weights[name].clone()
        return values

    def arguments(self, inputs, state, loss_seed, seed, offset):
        values = dict(state)
        values |= inputs
        values["seed"] = torch.tensor(loss_seed)
        values["rng_seed"], values["rng_offset"] = torch.tensor(seed), torch.tensor(offset)
        return values


def export(folder, module, args, kwargs=None, **options):
    """Exports, and holds the microbatch function against eager mode, bitwise. Text and weights."""
    return export_and_compare(cleave.ExportSpec(module, args, kwargs, **options), folder)


def export_and_compare(spec, folder):
    """The same for a spec."""
    path = cleave.export_spec(spec, folder)
    text = path.read_text()
    weights = load_file(path.with_suffix(".safetensors"))
    interpreter = Interpreter(text)
    found = interpreter.run("microbatch", microbatch_values(interpreter, weights, spec))
    expected = cleave.testing.evaluate(spec, seed=7)
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    return text, weights


def microbatch_values(interpreter, weights, spec):
    """Values for a program's microbatch by role name: a spec's example, and 7 as seed."""
    inputs = cleave.testing.example_inputs(spec)
    values = {}
    for _, type_, role in interpreter.functions["microbatch"].arguments:
        name = role_name(role)
        if role.startswith(("#train.role<parameter", "#train.role<buffer")):
            values[name] = weights[name.split(".", 1)[1]]
        elif role.startswith("#train.role<constant"):
            values[name] = weights[name]
        elif role.startswith("#train.role<accumulator"):
            values[name] = None
        elif role.startswith("#train.role<seed"):
            dtype = torch.float64 if "f64" in type_ else torch.float32
            values[name] = torch.tensor(1.0, dtype=dtype)
        elif role.startswith("#train.role<rng"):
            values[name] = torch.tensor({"rng_seed": 7, "rng_offset": 0}[name])
        else:
            values[name] = inputs[name]
    return values

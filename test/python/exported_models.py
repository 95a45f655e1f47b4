"""The project's models, exported: what the exporter's tests share."""

import dataclasses
import fcntl
import os
import pathlib
import shutil

import cleave_path  # noqa: F401
import cleave
import gpt
import huggingface
import moe
import torch
import vision
from interpreter import Interpreter, role_name
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
ALL_MODELS = MODELS | {"resnet18_autocast": vision.autocast}


def export_model(name, folder, mode="auto"):
    """A model's spec, and its program in `folder`. In a run of tests each is exported once, by the first
    process that needs it; `folder` gets a copy."""
    spec = ALL_MODELS[name]()
    if mode != "auto":
        spec = dataclasses.replace(spec, mode=mode)
    if "CLEAVE_TEST_SHARED" not in os.environ:
        return spec, cleave.export_spec(spec, folder)
    shared = pathlib.Path(os.environ["CLEAVE_TEST_SHARED"], f"{name}-{mode}")
    with open(f"{shared}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            cleave.export_spec(spec, f"{shared}.part")
            os.rename(f"{shared}.part", shared)
    shutil.copytree(shared, folder, dirs_exist_ok=True)
    return spec, pathlib.Path(folder, next(shared.glob("*.mlir")).name)


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

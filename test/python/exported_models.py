"""The project's models, exported: what the exporter's tests share."""

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


class Exported:
    """A model's spec, its exported files, and an interpreter of the text."""

    def __init__(self, spec, folder):
        self.spec = spec
        self.path = cleave.export_spec(self.spec, folder)
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

"""Training steps of the dashboards' models, and what PyTorch's dashboards ask of a back end that computes them.

As benchmarks/dynamo/common.py has it (check_accuracy, for training in float32 on the processor): two rounds of forward
and backward without an optimizer, and of the second the loss, the gradients and the buffers, beside eager mode's from
the same random numbers, by torch._dynamo.utils.same. Its bounds are widened by eager mode's own error, as a run in
float64 shows it; where a model does not compute in float64, the criterion is the cosine.
"""

import copy
import types

import hugging_face
import timm_models
import torch
import torch._dynamo
import torch._dynamo.utils

LISTS = {"Hugging Face": hugging_face, "TIMM": timm_models}

# huggingface.yaml and timm_models.yaml: 1e-2 but for these, and the models whose small tensors may differ by more.
_TOLERANCES = {
    "MT5ForConditionalGeneration": 2e-2, "BertForMaskedLM": 2e-2, "inception_v3": 4e-2, "mobilenetv3_large_100": 4e-2,
    "deit_base_distilled_patch16_224": 8e-2, "vit_base_patch16_siglip_256": 8e-2, "beit_base_patch16_224": 16e-2,
}  # fmt: skip
_LARGER_MULTIPLIERS = {
    "GPT2ForSequenceClassification", "BertForMaskedLM", "inception_v3", "mobilenetv3_large_100",
    "vit_base_patch14_dinov2.lvd142m",
}  # fmt: skip
_ITERATIONS = 2


def names():
    return [name for models in LISTS.values() for name in models.MODELS]


def make(name):
    """The model's ExportSpec."""
    return next(models for models in LISTS.values() if name in models.MODELS).make(name)


class Step:
    """Forward, loss and backward of a model; compiled where there are arguments for torch.compile."""

    def __init__(self, spec, **compiler):
        self.module, self._spec = spec.module, spec
        self._state = copy.deepcopy(spec.module.state_dict())
        # Dynamo looks compiled code up by the function, here one for each step: none waits for the guards of others.
        code = _loss.__code__.replace(co_name=f"loss_of_{id(self)}")
        loss = types.FunctionType(code, globals())
        self._loss = torch.compile(loss, **compiler) if compiler else loss

    def run(self):
        self.module.zero_grad()
        loss = self._loss(self.module, self._spec)
        loss.backward()
        return loss

    def results(self):
        """From the beginning: loss, gradients, buffers."""
        self.module.load_state_dict(self._state)
        torch.manual_seed(1337)
        for _ in range(_ITERATIONS):
            loss = self.run().detach()
        gradients = {f"{name}.grad": p.grad for name, p in self.module.named_parameters() if p.grad is not None}
        return {"loss": loss, **gradients, **{name: b.clone() for name, b in self.module.named_buffers()}}


def _loss(module, spec):
    outputs = module(*spec.args, **spec.kwargs)
    return spec.loss(outputs, *spec.targets) if spec.loss else outputs.loss


def in_float64(name):
    """Eager mode's results in float64; None for a model that does not compute in it."""
    spec = make(name)
    spec.module.double()
    spec.args = tuple(map(_double, spec.args))
    spec.kwargs = {name: _double(value) for name, value in spec.kwargs.items()}
    try:
        results = Step(spec).results()
    except (RuntimeError, NotImplementedError):
        return None
    return {name: _double(value) for name, value in results.items()}


def _double(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def judge(name, found, expected, reference):
    """"bitwise" as `expected`, "same" by the dashboard's criterion, or "differs". reference: of `in_float64`."""
    if is_bitwise(found, expected):
        return "bitwise"
    names = {*found, *expected}
    # For the dashboard a gradient of zeros and none are the same.
    found, expected, reference = (
        {name: values.get(name, torch.zeros(())) for name in names} if values is not None else None
        for values in (found, expected, reference)
    )  # fmt: skip
    same = torch._dynamo.utils.same(
        expected, found, reference, tol=_TOLERANCES.get(name, 1e-2), cos_similarity=reference is None,
        use_larger_multiplier_for_smaller_tensor=name in _LARGER_MULTIPLIERS, log_error=lambda *text: None,
    )  # fmt: skip
    return "same" if same else "differs"


def is_bitwise(found, expected):
    return found.keys() == expected.keys() and all(
        found[name].dtype == expected[name].dtype and torch.equal(found[name], expected[name]) for name in expected
    )

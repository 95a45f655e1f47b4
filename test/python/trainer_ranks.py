"""What each rank of test_trainer.py does: `trainer_ranks.py MODE FOLDER`.

MODE `compare` fine-tunes MiniLM by transformers' Trainer, then by Cleave's, and writes the losses and norms of both to
FOLDER/losses.json; then it begins again and is killed after step 3. `resume` goes on from the checkpoint of step 2 and
writes FOLDER/resumed.json. `layouts` trains a small Llama in each of LAYOUTS, evaluates it as it goes, goes on from a
checkpoint in some of them, by the run's seed, and loads the best weights; losses and weights are in FOLDER/layouts.json.
"""

import json
import os
import pathlib
import signal
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("python", "examples", "test")]

import cleave
import combinations_cover
import fine_tune
import torch
import transformers

STEPS = 4


# With the examples of a rank's batch, and the batches of a step; all have 4 and 2 together.
LAYOUTS = {
    "dp": (2, 2, {}),
    "fsdp": (2, 2, {"mesh": {"dp": 2}, "plan": {"": cleave.FSDP("dp")}}),
    "tp": (4, 2, {"mesh": {"tp": 2}, "plan": {
        "model.layers.*.self_attn.[qkv]_proj": cleave.ColwiseParallel(),
        "model.layers.*.self_attn.o_proj": cleave.RowwiseParallel(),
        "model.layers.*.mlp.gate_proj": cleave.ColwiseParallel(),
        "model.layers.*.mlp.up_proj": cleave.ColwiseParallel(),
        "model.layers.*.mlp.down_proj": cleave.RowwiseParallel(),
    }}),
    "pipeline": (4, 2, {"pipeline": cleave.Pipeline("1f1b", stages=2, microbatches=2)}),
}  # fmt: skip
RESUMED = combinations_cover.part_of_today(list(LAYOUTS))


def small_llama():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2
    )
    return transformers.LlamaForCausalLM(config).double()


def train_small(kind, folder, examples, accumulated, resume=False, **options):
    """Of 32 examples 6 steps of 8; evaluated and saved after steps 2, 4 and 6."""
    transformers.set_seed(0)
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(64, (12,), generator=generator) for _ in range(32)]
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=6, per_device_train_batch_size=examples, per_device_eval_batch_size=examples,
        gradient_accumulation_steps=accumulated, learning_rate=1e-2, warmup_steps=2, weight_decay=0.1, logging_steps=1,
        eval_strategy="steps", eval_steps=2, save_steps=2, load_best_model_at_end=True, use_cpu=True, disable_tqdm=True,
        report_to=[],
    )  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in rows]
    trainer = kind(model=small_llama(), args=arguments, train_dataset=data, eval_dataset=data[:12], **options)
    trainer.train(resume_from_checkpoint=str(folder / "checkpoint-4") if resume else None)
    log = [(row["step"], row.get("loss"), row.get("grad_norm"), row.get("eval_loss")) for row in trainer.state.log_history[:-1]]
    return log, weights(trainer), trainer.evaluate()["eval_loss"]


class Kill(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **options):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGKILL)


def make_trainer(*args, **options):
    """Without dropout: ranks of DistributedDataParallel draw the same numbers, those of a step what one rank would. Two of the
    layers do; test_compile_step_options.py has them all."""
    trainer = fine_tune.make_trainer(*args, **options)
    for module in trainer.model.modules():
        if isinstance(module, torch.nn.ModuleList) and not combinations_cover.run_all():
            del module[2:]
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0
    return trainer


def rows(trainer):
    return [(row["step"], row["loss"], row["grad_norm"]) for row in trainer.state.log_history if "loss" in row]


def weights(trainer):
    return {name: value.double().sum().item() for name, value in trainer.model.state_dict().items()}


def main():
    mode, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    torch.set_num_threads(1)
    results = {}
    if mode == "layouts":
        for name in sys.argv[3:] or LAYOUTS:
            examples, accumulated, step = LAYOUTS[name]
            for resume in (False, True) if name in RESUMED else (False,):
                key, kind = name + "-resumed" * resume, fine_tune.Trainer
                results[key] = train_small(kind, folder / name, examples, accumulated, resume, step=step)
        if int(os.environ["RANK"]) == 0:
            (folder / "layouts.json").write_text(json.dumps(results))
    elif mode == "compare":
        for name, kind in ("transformers", transformers.Trainer), ("cleave", fine_tune.Trainer):
            trainer = make_trainer(folder / name, STEPS, kind)
            trainer.args.save_strategy = transformers.trainer_utils.SaveStrategy.NO
            trainer.train()
            results[name] = rows(trainer), weights(trainer)
            assert all(p.grad is None for p in trainer.model.parameters())
        write(folder / "losses.json", results, trainer)
        trainer = make_trainer(folder / "killed", STEPS, callbacks=[Kill()])
        trainer.train()
    else:
        trainer = make_trainer(folder / "killed", STEPS)
        trainer.train(resume_from_checkpoint=True)
        write(folder / "resumed.json", (rows(trainer), weights(trainer)), trainer)


def write(path, results, trainer):
    if trainer.is_world_process_zero():
        path.write_text(json.dumps(results))


if __name__ == "__main__":
    main()

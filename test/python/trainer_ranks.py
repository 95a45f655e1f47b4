"""What each rank of test_trainer.py does under torchrun: `trainer_ranks.py MODE FOLDER`.

MODE `compare` fine-tunes MiniLM by transformers' Trainer, then by Cleave's, and writes the losses and norms of both to
FOLDER/losses.json; then it begins again and is killed after step 3. `resume` goes on from the checkpoint of step 2 and
writes FOLDER/resumed.json.
"""

import json
import os
import pathlib
import signal
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / folder) for folder in ("python", "examples")]

import fine_tune
import torch
import transformers

STEPS = 4


class Kill(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **options):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGKILL)


def make_trainer(*args, **options):
    """Without dropout: ranks of DistributedDataParallel draw the same numbers, those of a step what one rank would."""
    trainer = fine_tune.make_trainer(*args, **options)
    for module in trainer.model.modules():
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
    if mode == "compare":
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

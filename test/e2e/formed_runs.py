"""Exported programs in a form of their own, trained on one rank or several beside PyTorch: what tests of runs share."""

from typing import NamedTuple

import cleave
import torch
import training
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel, testing


class Form(NamedTuple):
    """A plan, passes, the ranks that run what they make, and the microbatches of each."""

    ranks: int = 1
    microbatches: int = 2
    plan: Plan | None = None
    passes: tuple | list = ()


PLACED = ["--propagate-placements", "--partition"]
FSDP2 = Plan({"dp": 2}, {"": FSDP("dp")})
TP = {"up": ColwiseParallel("tp"), "down": RowwiseParallel("tp")}
TP2 = Plan({"tp": 2}, TP)
FSDP2_TP2 = Plan({"dp": 2, "tp": 2}, {"": FSDP("dp"), **TP})


def pipeline(schedule="1f1b", microbatches=2, more=()):
    """Passes that make two stages on two ranks; `more` run once there are stages."""
    split = ["--split-backward"] if schedule.startswith("zb") else []
    count = 4 if schedule == "zbv" else 2
    return [f"--outline-stages=count={count} balance=cost", *split, *more,
            f"--build-schedule=schedule={schedule} ranks=2 microbatches={microbatches}", "--insert-p2p"]  # fmt: skip


class FormedRun:
    """A spec's program in a form, and `steps` batches for it of `microbatches` examples' sizes each, over all ranks."""

    def __init__(self, build_dir, folder, spec, form=Form(), steps=6, microbatches=2, spoil=None):
        self.build_dir, self.folder, self.spec, self.form = build_dir, folder, spec, form
        self.steps, self.microbatches = steps, microbatches
        self.exported = cleave.export_spec(spec, folder)
        self.batches = training.random_batches(spec, steps, microbatches, seed=1)
        if spoil is not None:
            spoil(self.batches)
        self.data = f"safetensors:{training.save_batches(spec, self.batches, folder / 'data.safetensors')}"
        self.program = self.give_form(form)

    def give_form(self, form, exported=None):
        """The exported program, or another one, in a form."""
        exported, passes = exported or self.exported, form.passes
        program = self.folder / f"{exported.stem}.form.mlir"
        if form.plan is not None:
            form.plan.write(self.folder / "plan.json")
            passes = [f"--annotate-placements=plan={self.folder / 'plan.json'}", *passes]
        training.optimize(self.build_dir, exported, *passes, "-o", program)
        return program

    def options(self, steps=None):
        return ["--weights", self.exported.with_suffix(".safetensors"), "--ranks", self.form.ranks, "--microbatches",
                self.form.microbatches, "--threads", 1, "--data", self.data, "--metrics", self.folder / "m.jsonl",
                "--checkpoint", self.folder / "run", "--steps", steps or self.steps]  # fmt: skip

    def train(self, *more, steps=None):
        """The run's metrics."""
        training.train(self.build_dir, self.program, *self.options(steps), *more)
        return training.read_metrics(self.folder / "m.jsonl")

    def expect(self, **options):
        """What PyTorch makes of the same batches."""
        return testing.train(self.spec, self.batches, self.microbatches, **options)

    def tensors(self):
        """Those of the newest checkpoint."""
        return training.checkpoint_tensors(training.newest_checkpoint(self.folder / "run"))

    def differing(self, expected):
        """The names of tensors that are not what PyTorch has, bit for bit."""
        found, wanted = self.tensors(), training.expected_tensors(expected, self.spec)
        assert found.keys() >= wanted.keys()
        return [name for name in wanted if not torch.equal(found[name], wanted[name])]

    def far(self, expected, tolerance):
        """The names of tensors that are further than `tolerance` from what PyTorch has."""
        found, wanted = self.tensors(), training.expected_tensors(expected, self.spec)
        assert found.keys() >= wanted.keys()
        return [n for n in wanted if not torch.allclose(found[n], wanted[n], rtol=tolerance, atol=tolerance)]

"""Checkpoints of programs whose ranks hold parts of the model: each rank writes its own, and a run goes on under any
other layout as if it had not stopped. `CLEAVE_TEST_ALL=1` takes 50 pairs of layouts."""

import copy
import json
import os
import random
import shutil
import signal
import subprocess

import cleave
import combinations_cover
import pytest
import torch
import training
from cleave import FSDP, HSDP, ColwiseParallel, Plan, RowwiseParallel, testing
from cleave.convert import convert
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

VOCABULARY, WIDTH, LENGTH, ROWS, MICROBATCHES, STEPS = 12, 8, 6, 4, 4, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.register_buffer("scale", torch.rand(WIDTH))

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x)))) * self.scale


class Small(nn.Module):
    """Has tied weights, a buffer, and one that state dicts omit."""

    def __init__(self):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("shift", torch.rand(WIDTH), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens) + self.shift
        for block in self.blocks:
            x = block(x)
        return self.head(x)


PLACING = ["--propagate-placements", "--partition"]
STAGES = ["--outline-stages=count=2 balance=cost"]
TENSOR = {"blocks.*.up": ColwiseParallel("tp"), "blocks.*.down": RowwiseParallel("tp")}
ONCE = ["--split-fsdp-collectives", "--bucket-gradients"]


def pipeline(schedule, microbatches=MICROBATCHES, more=()):
    return [*STAGES, *more, f"--build-schedule=schedule={schedule} ranks=2 microbatches={microbatches}", "--insert-p2p"]


# Plan, passes, ranks, and microbatches of a rank: four of a step on all.
LAYOUTS = {
    "one": (None, [], 1, 4),
    "dp2": (None, ["--sync-gradients=axis=dp"], 2, 2),
    "dp4": (None, ["--sync-gradients=axis=dp", "--bucket-gradients"], 4, 1),
    "fsdp2": (Plan({"dp": 2}, {"": FSDP("dp")}), [*PLACING, *ONCE], 2, 4),
    "fsdp4": (Plan({"dp": 4}, {"": FSDP("dp")}), PLACING, 4, 4),
    "columns": (Plan({"dp": 2}, {"": FSDP("dp", dim=-1)}), PLACING, 2, 4),
    "hsdp": (Plan({"replicas": 2, "dp": 2}, {"": HSDP("replicas", "dp")}), PLACING, 4, 4),
    "tp2": (Plan({"tp": 2}, TENSOR), PLACING, 2, 4),
    "fsdp2 x tp2": (Plan({"dp": 2, "tp": 2}, {**TENSOR, "": FSDP("dp")}), PLACING, 4, 4),
    "uneven": (Plan({"tp": 3}, TENSOR), ["--propagate-placements=uneven=true", "--partition=uneven=true"], 3, 4),
    "1f1b": (None, pipeline("1f1b"), 2, None),
    "zb-h1": (None, pipeline("zb-h1", more=["--split-backward"]), 2, None),
    "dp2 x 1f1b": (None, ["--sync-gradients=axis=dp", *pipeline("1f1b", 2)], 4, None),
    "fsdp2 x 1f1b": (Plan({"dp": 2}, {"": FSDP("dp")}), [*PLACING, *pipeline("1f1b")], 4, None),
}  # fmt: skip
PARTED = [name for name, (plan, _, ranks, count) in LAYOUTS.items() if plan or (ranks > 1 and count is None)]


class Subject:
    """The model's program under every layout, and its run on one rank."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        torch.manual_seed(0)
        module = Small().double()
        tokens = torch.randint(VOCABULARY, (ROWS, LENGTH))
        self.spec = cleave.ExportSpec(
            module, (tokens,), targets=(tokens.clone(),), name="small",
            loss=lambda out, target: functional.cross_entropy(out.flatten(0, 1), target.flatten()),
            optimizer=torch.optim.AdamW(module.parameters(), lr=0.05),
        )  # fmt: skip
        self.program = cleave.export_spec(self.spec, folder)
        batches = training.random_batches(self.spec, STEPS, MICROBATCHES, 1)
        self.data = f"safetensors:{training.save_batches(self.spec, batches, folder / 'data.safetensors')}"

    def lay_out(self, layout):
        plan, passes, ranks, count = LAYOUTS[layout]
        path = self.folder / f"{layout.replace(' ', '')}.mlir"
        if not path.exists():
            if plan:
                plan.write(path.with_suffix(".json"))
                passes = [f"--annotate-placements=plan={path.with_suffix('.json')}", *passes]
            training.optimize(self.build, self.program, *passes, "-o", path)
            path.with_suffix(".safetensors").symlink_to(self.program.with_suffix(".safetensors"))
        options = ["--data", self.data, "--threads", 1, "--seed", 2]
        options += ["--ranks", ranks, "--timeout", 60] if ranks > 1 else []
        return path, options + (["--microbatches", count] if count else [])

    def train(self, layout, steps, checkpoints, *options):
        """The losses of the steps that ran."""
        path, common = self.lay_out(layout)
        metrics = checkpoints.with_suffix(".jsonl")
        metrics.unlink(missing_ok=True)
        threads = ["--ranks-as", "threads"] if "--ranks" in common else []
        training.train(self.build, path, "--steps", steps, "--checkpoint", checkpoints, "--metrics", metrics, *common,
                       *threads, *options)  # fmt: skip
        return training.losses(metrics)

    def saved(self, layout):
        """The run's checkpoints after half of the steps: made once, and not to be written to."""
        folder = self.folder / f"{layout}.saved"
        if not folder.exists():
            self.train(layout, STEPS // 2, folder)
        return folder


@pytest.fixture(scope="module")
def subject(build_dir, tmp_path_factory):
    return Subject(build_dir, tmp_path_factory.mktemp("subject"))


@pytest.fixture(scope="module")
def expected(subject):
    """The losses of the undisturbed run on one rank, and its last checkpoint."""
    losses = subject.train("one", STEPS, subject.folder / "whole")
    return losses, training.checkpoint_tensors(training.newest_checkpoint(subject.folder / "whole"))


def close(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(
            found[name], tensor, rtol=1e-8, atol=1e-11, msg=lambda text, name=name: f"{name}: {text}")  # fmt: skip


def pairs():
    """Of layouts, drawn by the day's seed."""
    generator = random.Random(combinations_cover.seed())
    names = list(LAYOUTS)
    if combinations_cover.run_all():
        return [tuple(generator.choices(names, k=2)) for _ in range(50)]
    # Each layout that writes parts once, and what it is continued by.
    first = generator.sample(PARTED, 6)
    return list(zip(first, generator.choices(names, k=6)))


@pytest.mark.parametrize("before, after", pairs())
def test_resumed_under_another_layout(subject, expected, tmp_path, before, after):
    print(f"CLEAVE_TEST_SEED={combinations_cover.seed()}")
    losses, tensors = expected
    shutil.copytree(subject.saved(before), tmp_path / "run")
    assert subject.train(after, STEPS, tmp_path / "run", "--resume") == pytest.approx(losses[STEPS // 2 :], rel=1e-9)
    close(training.checkpoint_tensors(training.newest_checkpoint(tmp_path / "run")), tensors)


def test_each_rank_writes_its_part(subject):
    folder = training.newest_checkpoint(subject.saved("fsdp2 x tp2"))
    files = sorted(path.name for path in folder.iterdir())
    assert files == sorted(
        [f"{group}-{rank:05}-of-00004.safetensors" for group in ("model", "optimizer") for rank in range(1, 5)]
        + ["parts.json", "state.json"])  # fmt: skip
    index = json.loads((folder / "parts.json").read_text())
    assert index["model"]["head.weight"] == {"alias_of": "embed.weight"}
    up = index["model"]["blocks.0.up.weight"]
    assert up["dtype"] == "F64" and up["shape"] == [16, 8] and len(up["parts"]) == 4
    for path in folder.glob("*.safetensors"):
        held = load_file(path)
        listed = [name for group in ("model", "optimizer") for name, entry in index[group].items()
                  if any(part["file"] == path.name for part in entry.get("parts", []))]  # fmt: skip
        assert held.keys() == set(listed)
    # No element twice: all files together are as large as the state.
    whole = training.checkpoint_tensors(folder)
    elements = sum(t.numel() for name, t in whole.items() if name != "state.head.weight")
    assert sum(t.numel() for path in folder.glob("*.safetensors") for t in load_file(path).values()) == elements


def test_stages_without_shards_are_read_by_others(subject):
    """Their tensors are whole, so Hugging Face's index says where they are."""
    folder = training.newest_checkpoint(subject.saved("1f1b"))
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    whole = training.checkpoint_group(folder)
    assert index["weight_map"].keys() == whole.keys() - {"head.weight"}
    for name, file in index["weight_map"].items():
        assert torch.equal(load_file(folder / file)[name], whole[name])


@pytest.mark.parametrize("layout", ["fsdp2 x tp2", "1f1b", "fsdp2 x 1f1b"])
def test_back_to_pytorch(build_dir, subject, tmp_path, layout):
    """state_dict (strict), the forms of cleave.convert, and --weights on one rank."""
    run = subject.saved(layout)
    module = copy.deepcopy(subject.spec.module)
    cleave.load_checkpoint(module, run)
    close(module.state_dict(), training.checkpoint_group(training.newest_checkpoint(subject.saved("one"))))
    assert module.head.weight is module.embed.weight
    convert(run, tmp_path / "model.safetensors", "safetensors")
    whole = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(whole[name], value) for name, value in module.state_dict().items())
    convert(run, tmp_path / "dcp", "dcp", key="model")
    import torch.distributed.checkpoint as dcp

    state = {"model": copy.deepcopy(subject.spec.module).state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert all(torch.equal(state["model"][name], value) for name, value in whole.items())

    loss = []
    for weights in (training.newest_checkpoint(run), tmp_path / "model.safetensors", tmp_path / "dcp"):
        prefix = ["--weight-prefix", "model."] if weights.name == "dcp" else []
        training.train(build_dir, subject.program, "--steps", 1, "--data", subject.data, "--lr", 0, "--threads", 1,
                       "--metrics", tmp_path / "m", "--weights", weights, *prefix)  # fmt: skip
        loss += training.losses(tmp_path / "m")
    batch = testing.split_batch(subject.spec, load_file(subject.data.removeprefix("safetensors:")), 1)
    (tokens, target), *_ = [tuple(part.values()) for part in batch]
    assert loss == pytest.approx([subject.spec.loss(module(tokens), target).item()] * 3, rel=1e-12)


@pytest.mark.parametrize("layout", ["fsdp2", "1f1b"] if combinations_cover.run_all() else ["fsdp2"])
def test_killed_while_saving(subject, tmp_path, layout):
    """A checkpoint at every step; whatever is there after a kill is whole, and the run goes on bit for bit."""
    generator = random.Random(combinations_cover.seed())
    path, options = subject.lay_out(layout)
    command = training.command(subject.build, path, *options, "--steps", 40, "--checkpoint-every", 1, "--keep-last", 2,
                               "--quiet")  # fmt: skip
    whole = [*command, "--checkpoint", str(tmp_path / "whole"), "--metrics", str(tmp_path / "whole.jsonl")]
    subprocess.run(whole, check=True, env=training.ENVIRONMENT)
    killed = [*command, "--checkpoint", str(tmp_path / "run"), "--metrics", str(tmp_path / "run.jsonl"), "--resume"]
    kills = []
    for _ in range(3):
        process = subprocess.Popen(killed, env=training.ENVIRONMENT, start_new_session=True)
        kills.append(generator.uniform(0.3, 1.2))
        try:
            process.wait(kills[-1])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for checkpoint in (tmp_path / "run").glob("step-*"):
            assert training.checkpoint_tensors(checkpoint)
    print(f"killed after {kills} s")
    subprocess.run(killed, check=True, env=training.ENVIRONMENT)
    assert training.losses(tmp_path / "run.jsonl") == training.losses(tmp_path / "whole.jsonl")
    newest = [training.newest_checkpoint(tmp_path / name) for name in ("run", "whole")]
    found, expected = map(training.checkpoint_tensors, newest)
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)
    assert not list((tmp_path / "run").glob(".step-*"))


# Bad files.


def edit_index(change):
    def edit(folder):
        index = json.loads((folder / "parts.json").read_text())
        change(index["model"])
        (folder / "parts.json").write_text(json.dumps(index))

    return edit


def set_part(name, number, **fields):
    return edit_index(lambda model: model[name]["parts"][number].update(fields))


UP = "blocks.0.up.weight"
DAMAGED = {
    "lost file": (lambda folder: (folder / "model-00002-of-00004.safetensors").unlink(),
                  "model-00002-of-00004.safetensors"),
    "short file": (lambda folder: os.truncate(folder / "model-00002-of-00004.safetensors", 900),
                   "model-00002-of-00004.safetensors"),
    "of another rank": (
        lambda folder: shutil.copy(*(folder / f"model-0000{rank}-of-00004.safetensors" for rank in (1, 2))),
        "model-00002-of-00004.safetensors"),
    "other file": (set_part(UP, 0, file="model-00009-of-00004.safetensors"), "model-00009-of-00004.safetensors"),
    "above": (set_part(UP, 0, file="../x.safetensors"), "in the same folder"),
    "overlap": (edit_index(lambda model: model[UP]["parts"][0].update(begin=model[UP]["parts"][1]["begin"])),
                "hold the same elements"),
    "outside": (set_part(UP, 0, begin=[15, 0]), "lies outside of the tensor"),
    "hole": (edit_index(lambda model: model[UP]["parts"].pop()), "parts.json"),
    "shape": (set_part(UP, 0, shape=[1, 1]), "parts.json: "),
    "dtype": (edit_index(lambda model: model[UP].update(dtype="F32")), "the index says"),
    "unlisted": (edit_index(lambda model: model.pop("blocks.1.norm.weight")), "which the index does not list"),
    "alias": (edit_index(lambda model: model["head.weight"].update(alias_of="nothing")), "which has no parts"),
    "no tensors": (lambda folder: (folder / "parts.json").write_text('{"format": 1}'), "parts.json: expected an index"),
    "no JSON": (lambda folder: (folder / "parts.json").write_text("{"), "parts.json: "),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_damage(build_dir, subject, tmp_path, case):
    """One clear error: of --resume, which compares hashes; of --weights; and of load_checkpoint, which sets nothing."""
    damage, message = DAMAGED[case]
    shutil.copytree(subject.saved("fsdp2 x tp2"), tmp_path / "run")
    folder = training.newest_checkpoint(tmp_path / "run")
    damage(folder)
    result = training.run(build_dir, subject.program, "--steps", 1, "--data", subject.data, "--weights", folder)
    assert result.returncode == 1 and message in result.stderr, result.stderr
    assert result.stderr.count("error: ") == 1
    module = copy.deepcopy(subject.spec.module)
    with pytest.raises(ValueError) as refusal:
        cleave.load_checkpoint(module, folder)
    assert message in str(refusal.value)
    untouched = subject.spec.module.state_dict()
    assert all(torch.equal(value, untouched[name]) for name, value in module.state_dict().items())
    if case in ("lost file", "of another rank", "overlap"):
        path, options = subject.lay_out("fsdp2 x tp2")
        result = training.run(build_dir, path, "--steps", STEPS, "--checkpoint", tmp_path / "run", "--resume", *options)
        assert result.returncode == 1 and "remove this checkpoint to resume from the one before it" in result.stderr
        assert "error: " in result.stderr and not list((tmp_path / "run").glob(".step-*"))


# Hugging Face.


GPT2 = {
    "model.transformer.h.*.attn.c_attn": ColwiseParallel("tp"),
    "model.transformer.h.*.attn.c_proj": RowwiseParallel("tp"),
    "model.transformer.h.*.mlp.c_fc": ColwiseParallel("tp"),
    "model.transformer.h.*.mlp.c_proj": RowwiseParallel("tp"),
}


def test_from_a_hugging_face_folder_and_back(build_dir, model, tmp_path):
    """Trained on four ranks, FSDP x TP, from_pretrained generates the text of the same training in PyTorch."""
    from transformers import AutoModelForCausalLM

    gpt2 = model("gpt2")
    gpt2.spec.module.model.save_pretrained(tmp_path / "original", max_shard_size="30KB")
    (tmp_path / "names.json").write_text('{"model.*": "*"}')
    Plan({"dp": 2, "tp": 2}, {**GPT2, "": FSDP("dp")}).write(tmp_path / "plan.json")
    program = tmp_path / "gpt2.mlir"
    training.optimize(build_dir, gpt2.program, f"--annotate-placements=plan={tmp_path / 'plan.json'}", *PLACING, *ONCE,
                      "-o", program)  # fmt: skip
    program.with_suffix(".safetensors").symlink_to(gpt2.weights)
    batches = training.random_batches(gpt2.spec, 4, 2, 5)
    data = training.save_batches(gpt2.spec, batches, tmp_path / "data.safetensors")
    training.train(build_dir, program, "--ranks", 4, "--steps", 4, "--microbatches", 2, "--data", f"safetensors:{data}",
                   "--threads", 1, "--weights", tmp_path / "original", "--weight-names", tmp_path / "names.json",
                   "--checkpoint", tmp_path / "run")  # fmt: skip
    convert(tmp_path / "run", tmp_path / "trained", "huggingface", config=tmp_path / "original", prefix="model.")
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "trained").eval()

    trained = testing.train(gpt2.spec, batches, microbatches=2).tensors
    eager = copy.deepcopy(gpt2.spec.module).eval()
    with torch.no_grad():
        for name, parameter in eager.named_parameters():
            parameter.copy_(trained[f"param.{name}"])
    prompt = torch.tensor([[1, 2, 3], [7, 5, 4]])
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(found.generate(prompt, **options), eager.model.generate(prompt, **options))
    logits = found(prompt).logits
    torch.testing.assert_close(logits, eager.model(prompt).logits, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(logits, gpt2.spec.module.eval().model(prompt).logits, rtol=1e-3, atol=1e-3)

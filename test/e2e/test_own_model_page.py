"""docs/own-model.md: its files and commands, run in their order, do what the page says."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "own-model.md"


@pytest.fixture(scope="module")
def followed(build_dir, source_dir, tmp_path_factory):
    """A folder where all of the page was done, and what its last command printed."""
    folder = tmp_path_factory.mktemp("own")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(build_dir / "bin"), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(source_dir / "python"),
        "OMP_NUM_THREADS": "1",
    }
    text = PAGE.read_text()
    names = re.findall(r"`(\w+\.py)`:\n\n```python\n", text)
    blocks = re.findall(r"```(python|sh)\n(.*?)```", text, re.DOTALL)
    files = iter([*names[:2], None, names[2]])
    commands = []
    for kind, block in blocks:
        if kind == "sh":
            commands.append(block)
            continue
        name = next(files)
        (folder / (name or "microbatch.py")).write_text(block)
    printed = ""
    for command in commands:
        if "--inputs microbatch.safetensors" in command:
            subprocess.run([sys.executable, "microbatch.py"], cwd=folder, env=environment, check=True)
        result = subprocess.run(
            ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
        printed = result.stdout
    return folder, printed


def losses(path):
    return torch.tensor([json.loads(line)["loss"] for line in path.read_text().splitlines()])


def test_it_learns_and_two_ranks_do_the_same(followed):
    folder, _ = followed
    one, two = losses(folder / "metrics.jsonl"), losses(folder / "metrics.dp.jsonl")
    assert len(one) == 60 and one[-1] < 0.2 * one[0], one
    torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)


def test_evaluation_and_pytorch_agree_with_training(followed):
    folder, printed = followed
    values = dict(line.split() for line in printed.splitlines())
    assert float(values["right"]) > 0.9 and float(values["loss"]) < 0.4, printed
    sys.path.insert(0, str(folder))
    try:
        import mymodel
    finally:
        sys.path.remove(str(folder))
    model = mymodel.Tagger()
    model.load_state_dict(load_file(folder / "checkpoints/step-00000060/model.safetensors"))
    batch = load_file(folder / "microbatch.safetensors")
    evaluated = load_file(folder / "evaluated.safetensors")
    scores = model(batch["words"])
    assert torch.equal(evaluated["output.0"], scores.detach())
    assert torch.equal(evaluated["loss"], mymodel.loss(scores, batch["tags"]).detach())

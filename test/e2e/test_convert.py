"""What cleave-run has trained goes back to PyTorch, and what PyTorch has comes in: load_checkpoint, cleave.convert."""

import copy
import pathlib
import shutil
import subprocess
import sys

import cleave
import pytest
import torch
import training
from cleave.convert import convert, main
from safetensors.torch import load_file

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture(scope="module")
def gpt2(model):
    return model("gpt2")


@pytest.fixture(scope="module")
def run(build_dir, gpt2, tmp_path_factory):
    """The folder of a run with two checkpoints."""
    folder = tmp_path_factory.mktemp("run")
    batches = training.random_batches(gpt2.spec, 2, 1, 0)
    data = training.save_batches(gpt2.spec, batches, folder / "data.safetensors")
    training.train(build_dir, gpt2.program, "--data", f"safetensors:{data}", "--steps", 2, "--checkpoint",
                   folder / "run", "--checkpoint-every", 1)  # fmt: skip
    return folder / "run"


@pytest.fixture(scope="module")
def original(gpt2, tmp_path_factory):
    """The Hugging Face folder that the training began with."""
    folder = tmp_path_factory.mktemp("original")
    gpt2.spec.module.model.save_pretrained(folder)
    return folder


def expect_state(module, checkpoint, prefix=""):
    expected = load_file(checkpoint / "model.safetensors")
    state = module.state_dict()
    assert {prefix + name for name in state} == expected.keys()
    for name, tensor in state.items():
        assert torch.equal(tensor, expected[prefix + name]), name


def test_load_checkpoint(gpt2, run):
    module = copy.deepcopy(gpt2.spec.module)
    cleave.load_checkpoint(module, run)
    expect_state(module, run / "step-00000002")
    cleave.load_checkpoint(module, run / "step-00000001")
    expect_state(module, run / "step-00000001")
    cleave.load_checkpoint(module.model, run, prefix="model.")
    expect_state(module, run / "step-00000002")


def test_load_checkpoint_of_other_forms(gpt2, run, original, tmp_path):
    """Hugging Face's folders, where tied weights have one name, and those of torch.distributed.checkpoint."""
    convert(run, tmp_path / "hf", "huggingface", config=original, prefix="model.", max_shard_size="30KB")
    convert(run, tmp_path / "dcp", "dcp", key="model")
    module = copy.deepcopy(gpt2.spec.module)
    before = copy.deepcopy(module.state_dict())
    assert cleave.load_checkpoint(module.model, tmp_path / "hf") is None
    expect_state(module, run / "step-00000002")
    assert module.model.lm_head.weight is module.model.transformer.wte.weight
    module.load_state_dict(before)
    cleave.load_checkpoint(module, tmp_path / "dcp", prefix="model.")
    expect_state(module, run / "step-00000002")

    module.load_state_dict(before)
    with pytest.raises(ValueError, match="(?s)do not match the module:.*missing: 'model.transformer.wpe.weight'"):
        cleave.load_checkpoint(module, tmp_path / "hf")
    with pytest.raises(ValueError, match="has the state of a loss or optimizer, found none"):
        cleave.load_checkpoint(module.model, tmp_path / "hf", loss=torch.nn.Linear(1, 1))
    (tmp_path / "dcp" / "__0_0.distcp").unlink()
    with pytest.raises(ValueError, match="dcp: "):
        cleave.load_checkpoint(module, tmp_path / "dcp", prefix="model.")
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_load_checkpoint_refuses(gpt2, run, tmp_path):
    module = copy.deepcopy(gpt2.spec.module)
    before = copy.deepcopy(module.state_dict())
    with pytest.raises(ValueError, match="(?s)do not match the module:.*missing: 'transformer.wte.weight'.*and 38 more"):
        cleave.load_checkpoint(module.model, run)
    with pytest.raises(ValueError, match="expected names that begin with 'other.'"):
        cleave.load_checkpoint(module, run, prefix="other.")
    with pytest.raises(ValueError, match="has no parameters or buffers"):
        cleave.load_checkpoint(module, run, loss=torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="expected a checkpoint of cleave-run"):
        cleave.load_checkpoint(module, tmp_path)
    module.model.transformer.wpe = torch.nn.Embedding(3, 3)
    with pytest.raises(ValueError, match=r"'model.transformer.wpe.weight': the module has float32 \[3, 3\], the file"):
        cleave.load_checkpoint(module, run)
    damaged = tmp_path / "step-00000002"
    shutil.copytree(run / "step-00000002", damaged)
    path = damaged / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="model.safetensors: "):
        cleave.load_checkpoint(module, tmp_path)
    for name, tensor in before.items():
        if "wpe" not in name:
            assert torch.equal(module.state_dict()[name], tensor)


def test_to_hugging_face(gpt2, run, original, tmp_path):
    """from_pretrained gives the trained model: the same logits and text as in the module."""
    from transformers import AutoModelForCausalLM

    result = subprocess.run(
        [sys.executable, "-m", "cleave.convert", run, tmp_path / "hf", "--to", "huggingface", "--config", original,
         "--prefix", "model.", "--max-shard-size", "30KB"], capture_output=True, text=True)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert len(list((tmp_path / "hf").glob("model-*.safetensors"))) > 1
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    trained = copy.deepcopy(gpt2.spec.module).eval()
    cleave.load_checkpoint(trained, run)
    expect_state(found, run / "step-00000002", "model.")
    assert found.lm_head.weight is found.transformer.wte.weight
    prompt = torch.tensor([[1, 2, 3]])
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(found.generate(prompt, **options), trained.model.generate(prompt, **options))


def test_to_distributed_checkpoint(gpt2, run, tmp_path):
    import torch.distributed.checkpoint as dcp

    convert(run, tmp_path / "dcp", "dcp", key="model")
    module = copy.deepcopy(gpt2.spec.module)
    state = {"model": module.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    module.load_state_dict(state["model"])
    expect_state(module, run / "step-00000002")
    # And back.
    convert(tmp_path / "dcp", tmp_path / "back.safetensors", "safetensors", prefix="model.")
    module.load_state_dict(load_file(tmp_path / "back.safetensors"))
    expect_state(module, run / "step-00000002")


def test_state_dicts(gpt2, run, original, tmp_path):
    """All forms of PyTorch's, in and out."""
    module = copy.deepcopy(gpt2.spec.module)
    convert(run / "step-00000001", tmp_path / "model.pt", "torch")
    module.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True), strict=True)
    expect_state(module, run / "step-00000001")
    convert(tmp_path / "model.pt", tmp_path / "model.safetensors", "safetensors")
    module.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=True)
    expect_state(module, run / "step-00000001")
    gpt2.spec.module.model.save_pretrained(tmp_path / "shards", max_shard_size="30KB", safe_serialization=False)
    convert(tmp_path / "shards", tmp_path / "again", "huggingface", config=original)
    assert load_file(tmp_path / "again/model.safetensors").keys() == load_file(original / "model.safetensors").keys()


class Unwelcome:
    def __reduce__(self):
        return (pathlib.Path.touch, (pathlib.Path("ran"),))


ERRORS = {
    "taken": (["{run}", "{run}", "--to", "safetensors"], "expected a name that is free, found a folder"),
    "nothing": (["{tmp}", "{tmp}/x", "--to", "torch"], "expected a checkpoint of cleave-run, a Hugging Face folder"),
    "no file": (["{tmp}/none.safetensors", "{tmp}/x", "--to", "torch"], "none.safetensors: No such file"),
    "no config": (["{run}", "{tmp}/x", "--to", "huggingface"], "needs --config FOLDER"),
    "no config.json": (["{run}", "{tmp}/x", "--to", "huggingface", "--config", "{tmp}"], "found none in it"),
    "names": (["{run}", "{tmp}/x", "--to", "huggingface", "--config", "{original}"], "missing: 'transformer."),
    "prefix": (["{run}", "{tmp}/x", "--to", "dcp", "--prefix", "z."], "begin with 'z.', found none"),
    "pickle": (["{tmp}/hostile.pt", "{tmp}/x", "--to", "safetensors"], "hostile.pt: Weights only load failed"),
    "no state dict": (["{tmp}/list.pt", "{tmp}/x", "--to", "safetensors"], "expected a state dict"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case, run, original, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(Unwelcome(), tmp_path / "hostile.pt")
    torch.save([torch.ones(1)], tmp_path / "list.pt")
    arguments, message = ERRORS[case]
    before = sorted(tmp_path.iterdir())
    assert main([part.format(run=run, tmp=tmp_path, original=original) for part in arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error, error
    assert sorted(tmp_path.iterdir()) == before

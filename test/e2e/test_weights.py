"""--weights reads weights as others write them: Hugging Face's folders and torch.distributed.checkpoint's. Each rank
reads its part; what a run computes is what it computes from the program's own file, bit for bit."""

import copy
import json
import os
import pickle
import shutil
import subprocess

import pytest
import torch
import training
from cleave import FSDP, ColwiseParallel, Plan, RowwiseParallel
from combinations_cover import covered
from safetensors.torch import load_file, save_file
from saved_weights import save_sharded

TOKENS = {"--steps": 2, "--microbatches": 2}
GPT2 = {
    "model.transformer.h.*.attn.c_attn": ColwiseParallel(),
    "model.transformer.h.*.attn.c_proj": RowwiseParallel(),
    "model.transformer.h.*.mlp.c_fc": ColwiseParallel(),
    "model.transformer.h.*.mlp.c_proj": RowwiseParallel(),
}
LAYOUTS = {1: None, 2: Plan({"dp": 2}, {"": FSDP("dp")}), 4: Plan({"dp": 2, "tp": 2}, {**GPT2, "": FSDP("dp")})}


@pytest.fixture(scope="module")
def gpt2(model):
    return model("gpt2")


@pytest.fixture(scope="module")
def folders(gpt2, tmp_path_factory):
    """The weights of the program in all forms, and what --weights is given with them."""
    folder = tmp_path_factory.mktemp("weights")
    gpt2.spec.module.model.save_pretrained(folder / "whole")
    gpt2.spec.module.model.save_pretrained(folder / "shards", max_shard_size="30KB")
    assert len(list((folder / "shards").glob("model-*.safetensors"))) > 3
    save_sharded(gpt2.weights, folder / "dcp")
    (folder / "names.json").write_text('{"model.*": "*"}')
    names = ["--weight-names", folder / "names.json"]
    return {
        "whole": [folder / "whole", *names],
        "shards": [folder / "shards", *names],
        "index": [folder / "shards/model.safetensors.index.json", *names],
        "dcp": [folder / "dcp", "--weight-prefix", "model."],
    }


@pytest.fixture(scope="module")
def program(build_dir, gpt2, tmp_path_factory):
    """The program on that many ranks. Its own weights are not beside it, but constants are."""
    folder = tmp_path_factory.mktemp("programs")

    def lay_out(ranks):
        path = folder / f"gpt2.{ranks}.mlir"
        if not path.exists():
            plan = folder / f"plan.{ranks}.json"
            passes = []
            if LAYOUTS[ranks]:
                LAYOUTS[ranks].write(plan)
                passes = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition"]
            training.optimize(build_dir, gpt2.program, *passes, "-o", path)
            path.with_suffix(".safetensors").symlink_to(gpt2.weights)
        return path

    return lay_out


@pytest.fixture(scope="module")
def data(gpt2, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.safetensors"
    return training.save_batches(gpt2.spec, training.random_batches(gpt2.spec, 2, 2, 0), path)


@pytest.fixture(scope="module")
def losses(build_dir, program, data, tmp_path_factory):
    metrics = tmp_path_factory.mktemp("losses") / "metrics.jsonl"

    def train(ranks, *options):
        training.train(build_dir, program(ranks), "--ranks", ranks, "--data", f"safetensors:{data}", "--steps", 2,
                       "--microbatches", 2, "--metrics", metrics, *options)  # fmt: skip
        return training.losses(metrics)

    return train


@pytest.mark.parametrize("ranks", LAYOUTS)
def test_every_form_starts_the_same_run(ranks, folders, losses):
    expected = losses(ranks)
    for form, weights in folders.items():
        if form != "index" or ranks == 1:
            assert losses(ranks, "--weights", *weights) == expected, form


def test_hugging_face_to_four_ranks_and_back(build_dir, gpt2, folders, program, tmp_path):
    """A folder, FSDP x TP, a checkpoint, and from_pretrained: the text that the same training in PyTorch gives."""
    from cleave import testing
    from cleave.convert import convert
    from transformers import AutoModelForCausalLM

    steps = 12
    batches = training.random_batches(gpt2.spec, steps, 2, 3)
    data = training.save_batches(gpt2.spec, batches, tmp_path / "data.safetensors")
    training.train(build_dir, program(4), "--ranks", 4, "--data", f"safetensors:{data}", "--steps", steps, "--microbatches", 2,
                   "--checkpoint", tmp_path / "run", "--weights", *folders["shards"])  # fmt: skip
    convert(tmp_path / "run", tmp_path / "hf", "huggingface", prefix="model.", config=folders["whole"][0])
    expected = testing.train(gpt2.spec, batches, 2)
    module = copy.deepcopy(gpt2.spec.module)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(expected.tensors[f"param.{name}"])
    prompts = torch.arange(12).view(4, 3) * 5
    texts = [
        model.eval().generate(prompts, max_new_tokens=10, do_sample=False, pad_token_id=0)
        for model in (AutoModelForCausalLM.from_pretrained(tmp_path / "hf"), module.model,
                      AutoModelForCausalLM.from_pretrained(folders["whole"][0]))
    ]  # fmt: skip
    assert torch.equal(texts[0], texts[1]) and not torch.equal(texts[0], texts[2])


# Parts.


def read_part(build_dir, path, name, box, to):
    """The part, and how many bytes of each file the process touched for it."""
    ranges = ",".join(f"{begin}:{size}" for begin, size in box)
    result = subprocess.run([build_dir / "unit/cleave_weights_driver", "read", path, name, ranges, to],
                            capture_output=True, text=True, check=True)  # fmt: skip
    touched = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in result.stdout.splitlines()}
    part = torch.tensor([])
    if to.stat().st_size:
        part = torch.frombuffer(bytearray(to.read_bytes()), dtype=torch.float32)
    return part.view([size for _, size in box]), touched


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Three tensors of 16 MiB: as Hugging Face's shards, and saved from two ranks."""
    folder = tmp_path_factory.mktemp("large")
    generator = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(2048, 2048, generator=generator) for name in "abc"}
    (folder / "shards").mkdir()
    weight_map = {}
    for shard, names in {"model-1.safetensors": "a", "model-2.safetensors": "bc"}.items():
        save_file({name: tensors[name] for name in names}, folder / "shards" / shard)
        weight_map |= dict.fromkeys(names, shard)
    (folder / "shards/model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    save_file(tensors, folder / "all.safetensors")
    save_sharded(folder / "all.safetensors", folder / "dcp")
    return folder, tensors


PARTS = {
    "rows": [(1024, 512), (0, 2048)],
    "columns": [(0, 2048), (512, 1024)],
    "corner": [(900, 500), (1000, 300)],
    "nothing": [(100, 0), (0, 2048)],
}


@covered({"form": ["shards", "dcp"], "part": list(PARTS)}, strength=1)
def test_parts(build_dir, tmp_path, large, form, part):
    folder, tensors = large
    box = PARTS[part]
    for name in ["b"] if form == "shards" else ["model.a", "model.b"]:
        found, _ = read_part(build_dir, folder / form, name, box, tmp_path / "out")
        expected = tensors[name[-1]][tuple(slice(begin, begin + size) for begin, size in box)]
        assert torch.equal(found, expected), name


def test_only_the_part_is_read(build_dir, tmp_path, large):
    """4 MiB of rows touch 4 MiB of one shard, and of a distributed checkpoint one rank's file alone. (The system
    may map up to 2 MiB around a page.)"""
    folder, _ = large
    part, slack = 4 << 20, 2 << 20
    _, touched = read_part(build_dir, folder / "shards", "c", PARTS["rows"], tmp_path / "out")
    assert touched["model-1.safetensors"] == 0
    assert part - slack <= touched["model-2.safetensors"] <= part + 2 * slack
    # "a" lies in rows: the second rank has all of these. "b" lies in columns: each has some.
    _, touched = read_part(build_dir, folder / "dcp", "model.a", PARTS["rows"], tmp_path / "out")
    assert touched["__0_0.distcp"] == 0
    assert part - slack <= touched["__1_0.distcp"] <= part + 3 * slack
    _, touched = read_part(build_dir, folder / "dcp", "model.b", PARTS["rows"], tmp_path / "out")
    assert all(0 < touched[name] <= part // 2 + 3 * slack for name in ("__0_0.distcp", "__1_0.distcp"))


# Errors.


@pytest.fixture
def refuse(build_dir, program, data):
    """The message of a run that must refuse its weights."""

    def run(*weights):
        result = training.run(build_dir, program(1), "--data", f"safetensors:{data}", "--steps", 1,
                              "--microbatches", 2, "--weights", *weights)  # fmt: skip
        assert result.returncode == 1, (result.returncode, result.stderr)
        assert result.stderr.count("error: ") == 1
        for trace in ("Stack dump", "Aborted", "terminate called", "Assertion", "Exception raised"):
            assert trace not in result.stderr, result.stderr
        return result.stderr

    return run


@pytest.fixture
def shards(folders, tmp_path):
    """A copy of the sharded folder, and its index as an object to change."""
    folder = tmp_path / "shards"
    shutil.copytree(folders["shards"][0], folder)
    index = folder / "model.safetensors.index.json"
    return folder, json.loads(index.read_text()), index


def change_index(case, folder, index):
    weights = index["weight_map"]
    last = max(weights.values())
    if case == "lost shard":
        (folder / last).unlink()
    elif case == "truncated shard":
        os.truncate(folder / last, (folder / last).stat().st_size // 2)
    elif case == "wrong shard":
        weights["transformer.wpe.weight"] = last
    elif case == "two shards":
        tensors = load_file(folder / last)
        other = weights["transformer.wpe.weight"]
        assert other != last
        save_file(tensors | {"transformer.wpe.weight": load_file(folder / other)["transformer.wpe.weight"]}, folder / last)
    elif case == "unlisted":
        name = next(name for name, shard in weights.items() if shard == last)
        del weights[name]
    elif case == "above":
        weights["transformer.wpe.weight"] = "../other.safetensors"
    elif case == "absolute":
        weights["transformer.wpe.weight"] = "/etc/passwd"
    elif case == "number":
        weights["transformer.wpe.weight"] = 3
    elif case == "no map":
        del index["weight_map"]


INDEX_ERRORS = {
    "lost shard": ["the shard \"model-", "is missing"],
    "truncated shard": [".safetensors:", "expected data_offsets inside"],
    "wrong shard": ["\"transformer.wpe.weight\" is said to be in model-", "which does not have it"],
    "two shards": ["\"transformer.wpe.weight\" is in two shards: model-"],
    "unlisted": ["which the index does not list"],
    "above": ["is said to be in \"../other.safetensors\": expected the name of a file in the same folder"],
    "absolute": ["is said to be in \"/etc/passwd\": expected the name of a file in the same folder"],
    "number": ["expected a file name for \"transformer.wpe.weight\", found 3"],
    "no map": ["expected an object \"weight_map\""],
}  # fmt: skip


@pytest.mark.parametrize("case", INDEX_ERRORS)
def test_an_index_that_lies(case, shards, folders, refuse):
    folder, index, path = shards
    change_index(case, folder, index)
    path.write_text(json.dumps(index))
    message = refuse(folder, *folders["shards"][1:])
    for part in INDEX_ERRORS[case]:
        assert part in message, message


def test_an_index_that_names_a_tensor_twice(shards, folders, refuse):
    folder, index, path = shards
    text = path.read_text()
    entry = '"transformer.wpe.weight": '
    path.write_text(text.replace(entry, f'{entry}"model-00001-of-00002.safetensors", {entry}'))
    assert 'found "transformer.wpe.weight" twice' in refuse(folder, *folders["shards"][1:])


def test_other_types(shards, folders, refuse):
    folder, index, _ = shards
    shard = folder / index["weight_map"]["transformer.wpe.weight"]
    tensors = load_file(shard)
    save_file(tensors | {"transformer.wpe.weight": tensors["transformer.wpe.weight"].half()}, shard)
    message = refuse(folder, *folders["shards"][1:])
    assert "'model.transformer.wpe.weight' (there 'transformer.wpe.weight'): the program has F32 [" in message
    assert "the file F16 [" in message


NAME_ERRORS = {
    '{"model.transformer.wpe.weight": "nowhere"}': "missing: 'model.transformer.wpe.weight' (there 'nowhere')",
    '{"model.*": "*", "model.transformer.nobody": "x"}': 'the program has no weight "model.transformer.nobody"',
    '{"model.*": "*", "other.*": "*"}': 'no weight of the program matches "other.*"',
    '{"model.*": "*.*"}': '"model.*" has 1 *, but "*.*" has 2',
    '{"model.*": 3}': 'expected a string for "model.*", found 3',
    '{"model.*": "*", "model.*": "*"}': 'found "model.*" twice',
    '["model.*"]': "expected a JSON object from names of the program",
    '{"model.*": ': "names.json",
}


@pytest.mark.parametrize("names", NAME_ERRORS)
def test_names_that_do_not_map(names, folders, refuse, tmp_path):
    (tmp_path / "names.json").write_text(names)
    message = refuse(folders["whole"][0], "--weight-names", tmp_path / "names.json")
    assert NAME_ERRORS[names] in message, message


def test_without_names(folders, refuse):
    assert "missing: 'model.transformer.wte.weight'" in refuse(folders["whole"][0])
    message = refuse(folders["dcp"][0], "--weight-prefix", "nothing.")
    assert 'expected tensors whose names begin with "nothing.", found none' in message


def test_names_of_one_tensor_each(gpt2, folders, losses, tmp_path):
    """Exact names go before patterns, longer patterns before shorter ones."""
    tensors = load_file(gpt2.weights)
    renamed = {}
    for name, tensor in tensors.items():
        place = name.replace("model.transformer.", "")
        renamed["positions" if place == "wpe.weight" else "blocks/" + place[2:] if place[:2] == "h." else name] = tensor
    save_file(renamed, tmp_path / "renamed.safetensors")
    (tmp_path / "names.json").write_text(json.dumps(
        {"model.transformer.wpe.weight": "positions", "model.transformer.h.*.*": "blocks/*.*", "model.*": "model.*"}))  # fmt: skip
    assert losses(1, "--weights", tmp_path / "renamed.safetensors", "--weight-names", tmp_path / "names.json") == losses(1)


class Reduced:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def nested(depth):
    return b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b"."


def hostile_pickles(marker):
    return {
        "os.system": pickle.dumps(Reduced(os.system, f"touch {marker}")),
        "builtins.eval": pickle.dumps(Reduced(eval, f"open({str(marker)!r}, 'w')"), protocol=2),
        # A name that is known, called as no checkpoint calls it.
        "odd calls": b"\x80\x04\x8c\x05torch\x8c\x04Size\x93\x8c\x05torch\x8c\x04Size\x93R.",
        "a long string": b"\x80\x04\x8d" + (1 << 62).to_bytes(8, "little") + b"x.",
        "a long frame": b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
        "nesting": nested(1_000_000),
        "a memo with nothing": b"\x80\x02j\xff\xff\xff\xff.",
        "a list in itself": b"\x80\x02]q\x00h\x00a.",
        "growth": b"\x80\x02(" + b"N" * 100_000 + b"tq\x00" + b"ctorch\nSize\nh\x00R0" * 100_000 + b"0N.",
        "an empty stack": b"\x80\x02R.",
        "another opcode": b"\x80\x02I1\n.",
        "another protocol": b"\x80\x09N.",
        "no end": b"\x80\x04N",
        "nothing": b"",
        "two values": b"\x80\x02NN.",
        "another object": pickle.dumps({"state_dict_metadata": 3}),
    }


MESSAGES = {
    "os.system": 'it names "posix.system", which is not part of this format (nothing was imported or called)',
    "builtins.eval": 'it names "__builtin__.eval"',
    "odd calls": "expected the call of a name with a tuple",
    "a long string": "truncated",
    "a long frame": "truncated",
    "nesting": "expected the metadata of a checkpoint",
    "a memo with nothing": "it reads memo 4294967295, which holds nothing",
    "a list in itself": "expected the metadata of a checkpoint",
    "growth": "expected the metadata of a checkpoint",
    "an empty stack": "its stack holds too little",
    "another opcode": "opcode 0x49 is not one of plain data",
    "another protocol": "expected protocol 2 to 5, found 9",
    "no end": "truncated",
    "nothing": "truncated",
    "two values": "it ends with 2 values, expected one",
    "another object": "expected the metadata of a checkpoint",
}


def list_tensors(build_dir, *folders):
    driver = [build_dir / "unit/cleave_weights_driver", "list", *folders]
    return subprocess.run(driver, capture_output=True, text=True, errors="replace")


def test_hostile_metadata(build_dir, tmp_path):
    marker = tmp_path / "ran"
    cases = hostile_pickles(marker)
    for number, case in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / ".metadata").write_bytes(cases[case])
    result = list_tensors(build_dir, *(tmp_path / str(number) for number in range(len(cases))))
    assert result.returncode == 1 and not marker.exists()
    lines = result.stderr.splitlines()
    assert len(lines) == len(cases), result.stderr
    for number, (case, line) in enumerate(zip(cases, lines)):
        assert line.startswith(f"error: {tmp_path / str(number)}/.metadata: ") and MESSAGES[case] in line, line


def test_hostile_metadata_in_python(tmp_path):
    """load_checkpoint and cleave.convert read the same files."""
    import cleave
    from cleave.convert import main

    marker = tmp_path / "ran"
    for number, (case, pickled) in enumerate(hostile_pickles(marker).items()):
        if case in ("nesting", "growth"):
            continue  # Python's own reader takes plain data of any size
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / ".metadata").write_bytes(pickled)
        with pytest.raises(ValueError, match=".metadata: expected the metadata of a checkpoint"):
            cleave.load_checkpoint(torch.nn.Linear(2, 2), folder)
        assert main([str(folder), str(tmp_path / "out"), "--to", "torch"]) == 1
        assert not marker.exists() and not (tmp_path / "out").exists(), case


def test_damaged_metadata(build_dir, folders, tmp_path):
    """Whatever byte is another, or where the file ends: an error or tensors, and no crash."""
    source = folders["dcp"][0]
    whole = (source / ".metadata").read_bytes()
    generator = torch.Generator().manual_seed(0)
    copies = []
    for number in range(300):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file in source.glob("*.distcp"):
            (folder / file.name).symlink_to(file)
        place, value = (int(torch.randint(most, (), generator=generator)) for most in (len(whole), 256))
        changed = whole[:place] + bytes([value]) + whole[place + 1 :]
        (folder / ".metadata").write_bytes(whole[:place] if value % 4 == 0 else changed)
        copies.append(folder)
    result = list_tensors(build_dir, *copies)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert 150 < len(lines) <= 300 and all(line.startswith("error: ") for line in lines), result.stderr


@pytest.fixture
def saved(tmp_path):
    """A small checkpoint by this process, and its metadata to change."""
    import torch.distributed.checkpoint as dcp

    def save(tensors, change=None):
        folder = tmp_path / "dcp"
        dcp.save(tensors, checkpoint_id=folder, no_dist=True)
        if change:
            metadata = pickle.loads((folder / ".metadata").read_bytes())
            change(metadata)
            (folder / ".metadata").write_bytes(pickle.dumps(metadata))
        return folder

    return save


def first_storage(metadata):
    return next(iter(metadata.storage_data.values()))


def set_dtype(metadata):
    metadata.state_dict_metadata["a"].properties.dtype = torch.int32


def set_shape(metadata):
    entry = metadata.state_dict_metadata["a"]
    entry.size = entry.chunks[0].sizes = torch.Size([3, 4])


def overlap(metadata):
    entry = metadata.state_dict_metadata["a"]
    entry.chunks.append(type(entry.chunks[0])(offsets=torch.Size([0, 0]), sizes=torch.Size([4, 3])))


def set_name(metadata):
    metadata.state_dict_metadata["a\nb"] = metadata.state_dict_metadata["a"]


METADATA_ERRORS = {
    "dtype": (set_dtype, "the metadata says I32 [4, 3], the file has F32 [4, 3]"),
    "shape": (set_shape, "the metadata says F32 [3, 4], the file has F32 [4, 3]"),
    "overlap": (overlap, "its chunks hold 24 elements, expected 12"),
    "above": (lambda m: setattr(first_storage(m), "relative_path", "../x"), 'in the same folder, found "../x"'),
    "absolute": (lambda m: setattr(first_storage(m), "relative_path", "/etc/passwd"), 'found "/etc/passwd"'),
    "lost file": (lambda m: setattr(first_storage(m), "relative_path", "__9_0.distcp"), "__9_0.distcp: cannot open"),
    "offset": (lambda m: setattr(first_storage(m), "offset", 1 << 40), "the file is truncated"),
    "name": (set_name, r'expected names without control characters as keys of state_dict_metadata, found "a\0Ab"'),
    "file name": (lambda m: setattr(first_storage(m), "relative_path", "a\rb"), r'in the same folder, found "a\0Db"'),
    "no chunk": (lambda m: m.storage_data.clear(), "storage_data does not say where a chunk is"),
    "half a chunk": (lambda m: setattr(first_storage(m), "length", 700), "__0_0.distcp: tensor \"a\", at byte 0: "),
}  # fmt: skip


@pytest.mark.parametrize("case", METADATA_ERRORS)
def test_metadata_that_lies(build_dir, saved, tmp_path, case):
    change, message = METADATA_ERRORS[case]
    folder = saved({"a": torch.randn(4, 3)}, change)
    box = "0:3,0:4" if case == "shape" else "0:4,0:3"
    driver = [build_dir / "unit/cleave_weights_driver", "read", folder, "a", box, tmp_path / "out"]
    result = subprocess.run(driver, capture_output=True, text=True)
    assert result.returncode == 1 and message in result.stderr, result.stderr
    assert "Exception raised" not in result.stderr and not (tmp_path / "out").exists()


def test_truncated_chunks(build_dir, folders, refuse, tmp_path):
    shutil.copytree(folders["dcp"][0], tmp_path / "dcp")
    os.truncate(tmp_path / "dcp/__1_0.distcp", 10_000)
    message = refuse(tmp_path / "dcp", *folders["dcp"][1:])
    assert "__1_0.distcp, which has 10000: the file is truncated" in message


@pytest.mark.parametrize("tensor", [torch.arange(12.0).view(3, 4).t(), torch.arange(24.0)[::2].view(4, 3),
                                    torch.tensor(3.0), torch.zeros(0, 3), torch.arange(6).view(2, 3).half()])  # fmt: skip
def test_layouts_of_tensors(build_dir, saved, tmp_path, tensor):
    """Transposed ones, parts of others, none, numbers."""
    folder = saved({"a": tensor})
    box = ",".join(f"0:{size}" for size in tensor.shape)
    driver = [build_dir / "unit/cleave_weights_driver", "read", folder, "a", box, tmp_path / "out"]
    subprocess.run(driver, check=True)
    assert (tmp_path / "out").read_bytes() == tensor.contiguous().numpy().tobytes()


def test_pickled_weights(gpt2, refuse, tmp_path):
    state = gpt2.spec.module.model.state_dict()
    torch.save(state, tmp_path / "weights.pt")
    torch.save(state, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    (tmp_path / "folder").mkdir()
    torch.save(state, tmp_path / "folder/pytorch_model.bin")
    for path in ("weights.pt", "old.bin", "folder"):
        message = refuse(tmp_path / path)
        assert "found pickled weights, which run code when they are read" in message
        assert "python -m cleave.convert" in message


def test_folders_with_nothing_to_read(folders, refuse, tmp_path):
    assert "expected model.safetensors, model.safetensors.index.json or .metadata" in refuse(tmp_path)
    (tmp_path / "step-00000004").mkdir()
    assert "the directory has checkpoints: name one of them" in refuse(tmp_path)
    shutil.copytree(folders["dcp"][0], tmp_path / "dcp")
    (tmp_path / "dcp/.metadata").unlink()
    assert "the checkpoint was not finished" in refuse(tmp_path / "dcp")
    shutil.copytree(folders["whole"][0], tmp_path / "both")
    (tmp_path / "both/.metadata").write_text("")
    assert "expected one set of weights, found .metadata and model.safetensors" in refuse(tmp_path / "both")


def test_names_without_weights(build_dir, gpt2):
    result = training.run(build_dir, gpt2.program, "--weight-prefix", "model.", "--dry-run")
    assert result.returncode == 1 and "--weight-prefix is for --weights" in result.stderr

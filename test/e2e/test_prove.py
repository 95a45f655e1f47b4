"""Local programs of exported models are proved to be the program for one device, and changed ones are not."""

import itertools
import json
import re
import subprocess

import placement_cases as cases
import pytest
from cleave import FSDP, ContextParallel, Plan
from combinations_cover import covered
from safetensors.torch import load_file, save_file
from training import ENVIRONMENT

MESHES = ["dp2", "tp2", "fsdp2", "dp2 x tp2", "tp2, sequence", "fsdp2 x tp2"]


@pytest.fixture(scope="module")
def local(build_dir, model):
    """The local program of a model on a mesh, made once."""
    made = {}

    def get(name, mesh, *passes):
        key = name, mesh, passes
        if key not in made:
            program = whole(name)
            stem = program.with_name(f"{re.sub(r'[^a-z0-9]+', '_', mesh)}{len(made)}")
            plan = cases.plan(name.replace("_bf16", "_untied"), mesh).write(stem.with_suffix(".json"))
            made[key] = stem.with_suffix(".local.mlir")
            subprocess.run(
                [build_dir / "bin" / "cleave-opt", program, f"--annotate-placements=plan={plan}",
                 "--propagate-placements", "--partition", *passes, "--prove-each", "--mlir-print-debuginfo", "-o",
                 made[key]],
                check=True, env=ENVIRONMENT, timeout=120,
            )  # fmt: skip
        return whole(name), made[key]

    def whole(name):
        if name == "gpt_bf16":
            program = model("gpt_untied").program
            half = program.with_name("gpt_bf16.mlir")
            # The step and the learning rate, which updates take, stay as they are.
            microbatch, update = re.sub(r"(?<=x)f32\b", "bf16", program.read_text()).split("func.func @update")
            # So do the logarithms of attention's sums.
            microbatch = re.sub(r"\bf32\b", "bf16", microbatch).replace("<2x4x32xbf16>", "<2x4x32xf32>")
            half.write_text(microbatch + "func.func @update" + update)
            return half
        if name != "gpt_philox":
            return model(name).program
        # The same draws, of the other generator.
        program = model("gpt_dropout").program
        philox = program.with_name("gpt_philox.mlir")
        philox.write_text(program.read_text().replace("<mt19937>", "<philox>"))
        weights = philox.with_suffix(".safetensors")
        if not weights.exists():
            weights.symlink_to(program.with_suffix(".safetensors"))
        return philox

    return get


@covered({"name": ["gpt_untied", "llama"], "mesh": MESHES}, strength=1)
def test_models_on_meshes(prove, local, name, mesh):
    answer = prove(*local(name, mesh))
    assert answer["answer"] == "proved", answer["findings"][:3]
    assert answer["results"] > 80


def test_parts_of_a_microbatch(prove, local):
    """What a forward saves, and what a backward computes again, is in the proof of what it returns."""
    for passes in (["--partition-joint"], ["--partition-joint=policy=min-cut recompute=all"],
                   ["--partition-joint", "--split-backward"]):
        answer = prove(*local("llama", "tp2", *passes))
        assert answer["answer"] == "proved", (passes, answer["findings"][:3], answer.get("reason"))


@pytest.mark.parametrize("mesh, passes", [("dp2", []), ("fsdp2", ["--split-fsdp-collectives"]),
                                          ("dp2 x tp2", [])])  # fmt: skip
def test_buckets(prove, local, mesh, passes):
    """A bucket is its members: accumulated, and reduced over the axes that it says."""
    passes = (*passes, "--bucket-gradients=bucket-size-mb=0.02 first-bucket-mb=0.005")
    whole, part = local("gpt_untied", mesh, *passes)
    assert part.read_text().count("train.reduce_bucket") > 1
    answer = prove(whole, part)
    assert answer["answer"] == "proved", (answer["findings"][:3], answer.get("reason"))
    # Another gradient of the same type, and one member's gradients twice while the other has none.
    (first, one), (second, other) = re.findall(r'contribute (%\w+) to "(h.1.ln_2.\w+)"', part.read_text())
    for old, new, result in [
        (rf"contribute {second} to", f"contribute {first} to", other),
        (rf'to "{one}" in', f'to "{other}" in', one),
    ]:  # fmt: skip
        wrong = prove(whole, changed(part, old, new))
        assert wrong["answer"] == "unknown"
        assert {finding["result"] for finding in wrong["findings"]} >= {f"gradient {result}"}


def test_sums_in_another_type(prove, local):
    """A vocabulary-parallel loss of bfloat16 logits takes its sums in float32: that is another value, or is said to be
    the same; a wrong one is neither."""
    whole, part = local("gpt_bf16", "tp2")
    assert "dtype = f32" in part.read_text() and "dtype = f32" not in whole.read_text()
    assert prove(whole, part)["answer"] == "unknown"
    answer = prove(whole, part, "--assume=exact-casts")
    assert answer["answer"] == "proved" and answer["assumptions"] == ["exact-casts"], answer["findings"][:3]
    wrong = changed(part, r"other = 128\) : \(tensor<i64", "other = 127) : (tensor<i64")
    assert prove(whole, wrong, "--assume=exact-casts")["answer"] == "unknown"


@pytest.mark.parametrize("name", ["gpt_untied", "llama", "minilm"])
def test_attention_round_a_ring(prove, local, name):
    """With a causal mask, and with given ones."""
    answer = prove(*local(name, "cp2"))
    assert answer["answer"] == "proved", answer["findings"][:3]
    assert local(name, "cp2")[1].read_text().count("dist.shift") > 10


@pytest.mark.parametrize("mesh", [(2, 4, 2), (1, 8, 2), (2, 4, 1), (1, 4, 2)])
def test_a_ring_whose_axis_is_cut_inside(build_dir, prove, model, tmp_path, mesh):
    """Parameters in parts over dp and cp cut heads at places within cp, round which attention goes."""
    program = model("llama").program
    dp, cp, tp = mesh
    styles = [*cases.tensor_parallel("llama"), ("", FSDP("dp")), ("", ContextParallel("cp", shard_parameters=True))]
    plan = Plan({"dp": dp, "cp": cp, "tp": tp}, styles).write(tmp_path / "plan.json")
    ring = tmp_path / "ring.mlir"
    passes = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition", "--partition-joint"]
    subprocess.run([build_dir / "bin" / "cleave-opt", program, *passes, "-o", ring], check=True, env=ENVIRONMENT, timeout=120)
    assert ring.read_text().count("dist.shift") > 10
    answer = prove(program, ring)
    assert answer["answer"] == "proved", answer["findings"][:2]
    assert answer["results"] == 85
    # The first and the last block go the other way round.
    text = ring.read_text()
    shifts = [match.end() for match in re.finditer(r"dist\.shift\(%\w+\) by (?=1 wrap)", text)]
    for at in (shifts[0], shifts[-1]):
        wrong = ring.with_suffix(".wrong.mlir")
        wrong.write_text(f"{text[:at]}-{text[at:]}")
        assert prove(program, wrong)["answer"] == "unknown"


RINGS_OF_PRODUCTS = [
    *itertools.product(["llama", "gpt_untied"], ["tp2, sequence", "fsdp2 x tp2"], ["", "chunks=2"]),
    *itertools.product(["gpt2", "minilm"], ["tp2, sequence"], ["", "chunks=2"]),
    # On sharded parameters a chunk has one row of a router's weight.
    *itertools.product(["moe"], ["tp2, sequence", "fsdp2 x tp2"], ["", "chunks=2"]),
]


@pytest.mark.parametrize("name, mesh, options", RINGS_OF_PRODUCTS)
def test_products_round_a_ring(prove, local, name, mesh, options):
    """Blocks that ranks multiply while others come: parts of rows by parts of columns, also where q, k and v are one
    product, in chunks, and of what depends on a place in an expert's queue."""
    program, ring = local(name, mesh, f"--async-tp=min-mb=0 {options}", "--cse")
    text = ring.read_text()
    assert "dist.shift" in text and "aten.index_select" in text
    answer = prove(program, ring)
    assert answer["answer"] == "proved", answer["findings"][:2]


@pytest.mark.parametrize("name, mesh, options", [("llama", "fsdp2 x tp2", "chunks=2"), ("gpt_untied", "tp2, sequence", "chunks=2"),
                                                 ("moe", "tp2, sequence", "chunks=2")])  # fmt: skip
def test_wrong_products_round_a_ring(prove, local, name, mesh, options):
    program, ring = local(name, mesh, f"--async-tp=min-mb=0 {options}", "--cse")
    text = ring.read_text()
    # Parts of the first and of the last concatenation that change places; another rank's block; a chunk that is sent
    # twice.
    joins = re.findall(r"aten\.cat\(\[(%\w+), (?!\1)(%\w+)(?=[^\n]*f32)", text)
    sent = re.findall(r"dist\.shift\((%\w+)\)", text)
    for old, new in [
        *((rf"aten\.cat\(\[{a}, {b}", f"aten.cat([{b}, {a}") for a, b in (joins[0], joins[-1])),
        (r"(aten\.sub_scalar\(%\w+, other = )1\)", r"\g<1>2)"),
        (rf"dist\.shift\({sent[1]}\)", f"dist.shift({sent[0]})"),
    ]:
        assert prove(program, changed(ring, old, new))["answer"] == "unknown", (old, new)


def test_a_mask_of_another_block_is_refuted(prove, local):
    whole, part = local("llama", "cp2")
    answer = prove(whole, changed(part, r"other = 2\) : \(tensor<i64", "other = 1) : (tensor<i64"), "--seed=3", runs=True)
    assert answer["answer"] == "refuted"
    assert "self_attn" in answer["findings"][0]["location"], answer["findings"][0]


@pytest.mark.parametrize("name, mesh", [("resnet18", "dp2"), ("moe", "dp2"), ("llama", "tp4"),
                                        ("gpt2", "tp2, sequence")])  # fmt: skip
def test_statistics_counts_and_shared_heads(prove, local, name, mesh):
    """A batch's variance from those of parts; places in an expert's queue over ranks; two ranks with one head;
    positions that a part of the ranks look up."""
    answer = prove(*local(name, mesh))
    assert answer["answer"] == "proved", answer["findings"][:3]


@pytest.mark.parametrize("name, mesh", [("gpt_dropout", "dp2 x tp2"), ("gpt_philox", "fsdp2"), ("gpt_philox", "cp2"),
                                        ("gpt2", "dp2"), ("minilm", "fsdp2 x tp2")])  # fmt: skip
def test_random_numbers_and_losses(prove, local, name, mesh):
    answer = prove(*local(name, mesh))
    assert answer["answer"] == "proved", answer["findings"][:3]


def test_wrong_seeds_are_not_proved(prove, local):
    """The next op's place in the stream, and the offset as seed."""
    whole, part = local("gpt_philox", "dp2")
    seed = re.search(r"rng_native_dropout\(%\w+, (%\w+), (%\w+)", part.read_text())
    for old, new in [(r"position = [1-9]\d*", "position = 0"), (rf"{seed[1]}, {seed[2]}", f"{seed[2]}, {seed[1]}")]:
        answer = prove(whole, changed(part, old, new))
        assert answer["findings"][0]["op"] == "aten.rng_native_dropout", answer["findings"][0]


def changed(path, old, new):
    text = path.read_text()
    copy = path.with_name(f"changed{abs(hash((old, new)))}.mlir")
    assert re.search(old, text), old
    copy.write_text(re.sub(old, new, text, count=1))
    return copy


@pytest.mark.parametrize(
    "mesh, old, new, op",
    [
        # A wrong offset of a rank's rows, in the forward.
        ("tp2", r"other = 128\) : \(tensor<i64", "other = 127) : (tensor<i64", "aten.mul_scalar"),
        # Too wide a mark: a row of the next rank counts as this rank's.
        ("tp2", r"aten.ge_scalar\((%\w+), other = 128", r"aten.ge_scalar(\1, other = 129", "aten.ge_scalar"),
        # A loss that is the sum over the ranks' means.
        ("dp2", r"(nll_loss_forward\(.*?)reduction = 2", r"\1reduction = 1", "aten.nll_loss_forward"),
        # Another gradient is accumulated.
        ("dp2", r"(train.accumulate) %\w+ (into %\w+ : tensor<32xf32)", r"\1 %g \2", None),
    ],
)
def test_wrong_programs_are_not_proved(prove, local, mesh, old, new, op):
    whole, part = local("gpt_untied", mesh)
    if "%g " in new:
        # The gradient of another parameter of this type.
        uses = re.findall(r"train.accumulate (%\w+) into %\w+ : tensor<32xf32", part.read_text())
        new = new.replace("%g ", f"{uses[1]} ")
    answer = prove(whole, changed(part, old, new))
    assert answer["answer"] == "unknown" and "execution" not in answer
    if op:
        assert answer["findings"][0]["op"] == op, answer["findings"][0]
        assert "gpt.py" in answer["findings"][0]["location"]


@pytest.mark.parametrize(
    "name, mesh, old, new, value",
    [
        # Row 127 is two ranks' own.
        ("gpt_untied", "tp2", r"other = 128\) : \(tensor<i64", "other = 127) : (tensor<i64", "grad.wpe.weight"),
        # A number, of which types know nothing.
        ("gpt_untied", "dp2", r"eps = 1\.000000e-05", "eps = 1.000000e-01", "grad.wpe.weight"),
        # 3 % of one term of a norm's gradient, which weights make small: less than a tolerance for float32.
        ("llama", "dp2", r"div_scalar\((%\w+), other = 32\)", r"div_scalar(\1, other = 33)", "grad.model.model.embed_tokens.weight"),
        # In bfloat16 rounding may be larger than that.
        ("gpt_autocast", "dp2", r"eps = 1\.0+e-05", "eps = 2.0e-05", "grad.wpe.weight"),
    ],
)
def test_a_run_refutes_what_differs(build_dir, prove, local, tmp_path, name, mesh, old, new, value):
    """The counterexample is what each program computes, but for its rounding, and only what is wrong is refuted."""
    whole, part = local(name, mesh)
    wrong = changed(part, old, new)
    kept = tmp_path / "inputs.safetensors"
    answer = prove(whole, wrong, f"--counterexample={kept}", runs=True)
    assert answer["answer"] == "refuted", answer
    assert answer["execution"]["float64"] and answer["execution"]["tolerance"] == 1e-6
    found = {example["name"]: example for example in answer["execution"]["counterexamples"]}
    assert value in found, found.keys()
    # Gradients are the mean of those of both microbatches.
    inputs, dumps = load_file(kept), {wrong: [], whole: []}
    for half, program in itertools.product((0, 1), dumps):
        part = tmp_path / f"part{half}.safetensors"
        save_file({key: tensor.chunk(2)[half].contiguous() for key, tensor in inputs.items()}, part)
        dumps[program].append(tmp_path / f"{len(dumps[wrong])}{len(dumps[whole])}.safetensors")
        subprocess.run(
            [build_dir / "bin" / "cleave-run", program, "--weights", kept.with_suffix(".weights.safetensors"), "--inputs", part,
             "--dump", dumps[program][-1], "--ranks", str(1 if program == whole else answer["execution"]["ranks"])],
            check=True, env=ENVIRONMENT, timeout=120,
        )  # fmt: skip

    def mean(paths):
        first, second = map(load_file, paths)
        return {key: (first[key].double() + second[key].double()) / 2 for key in first}

    here, there = mean(dumps[wrong]), mean(dumps[whole])
    compared = {key: example for key, example in found.items() if key in here}
    assert compared
    for value_name, example in compared.items():
        at = tuple(example["at"])
        rounding = (2.0**-6 if name == "gpt_autocast" else 1e-4) * there[value_name].abs().max().item()
        assert here[value_name][at].item() == pytest.approx(example["local"], abs=rounding), example
        assert there[value_name][at].item() == pytest.approx(example["global"], abs=rounding), example


@pytest.fixture
def not_proved(local):
    """Right, and not proved today: no row is without keys, so what a sum of zero is replaced by does not matter."""
    whole, part = local("llama", "cp2")
    return whole, changed(part, r"value = 1\.0+e\+00", "value = 2.0")


def test_a_run_does_not_refute_what_is_right(prove, not_proved):
    answer = prove(*not_proved, "--seed=3", runs=True)
    assert answer["answer"] == "unknown"
    assert answer["execution"]["values"] > 10 and not answer["execution"]["counterexamples"]


def test_what_is_not_run_says_why(prove, local, not_proved, tmp_path):
    whole, part = not_proved
    missing = tmp_path / "no.safetensors"
    answer = prove(whole, part, f"--weights={missing}", runs=True)
    assert answer["answer"] == "unknown"
    assert answer["execution"] == {"not_run": f"expected weights in '{missing}', or --weights"}

    many = prove(whole, changed(part, r'"cp" = 2', '"cp" = 2, "more" = 16'), runs=True)
    assert many["execution"] == {"not_run": "it is for 32 ranks, of which at most 16 are run"}



def test_what_cannot_be_run_in_float64_is_run_as_it_is(prove, local, tmp_path):
    """Weights in several files are not read into one in float64."""
    for model, says in (("gpt_untied", None), ("gpt_autocast", "less than float32")):
        whole, part = local(model, "dp2")
        weights = tmp_path / model
        weights.mkdir()
        tensors = load_file(whole.with_suffix(".safetensors"))
        save_file(tensors, weights / "one.safetensors")
        index = {"metadata": {}, "weight_map": {name: "one.safetensors" for name in tensors}}
        (weights / "model.safetensors.index.json").write_text(json.dumps(index))
        answer = prove(whole, changed(part, r"eps = 1\.0+e-05", "eps = 1.0e-01"), f"--weights={weights}", runs=True)
        if says:
            assert says in answer["execution"]["not_run"], answer["execution"]
        else:
            assert answer["answer"] == "refuted" and not answer["execution"]["float64"], answer["execution"]
            assert answer["execution"]["tolerance"] == 1e-2


def test_without_time_nothing_is_proved(prove, local):
    answer = prove(*local("gpt_untied", "dp2"), "--time-limit=1e-6", runs=True)
    assert answer["answer"] == "unknown" and answer["reason"] == "the time limit was reached"

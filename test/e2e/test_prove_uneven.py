"""Programs whose ranks hold parts of different sizes, and have functions of their own, are proved; changed ones are not."""

import random
import re
import subprocess

import cleave
import placement_cases as cases
import pytest
import torch
from cleave import FSDP, Plan
from combinations_cover import part_of_today, seed
from safetensors.torch import save_file

# Ranks and examples. The last rank holds less of some dimensions than others: of 32, 96, 128 and 256 elements.
SHAPES = [(3, 3), (3, 6), (3, 9), (6, 6), (6, 12), (5, 5), (7, 7), (11, 11)]
# Beside attention in a GPT: no tied weights, draws, and rows of heads and halves that parts cut anywhere.
OTHERS = ["gpt_untied", "gpt_dropout", "gpt_philox", "moe", "gpt2", "llama", "resnet18"]
RANKS_OF_DP = re.compile(r"dp = array<i64: [0-9, ]+>")


@pytest.fixture(scope="module")
def programs(build_dir, tmp_path_factory):
    """The program for one device and the local one, by the numbers of ranks and examples."""
    made = {}

    def get(ranks, batch, model="gpt_tied"):
        if (ranks, batch, model) not in made:
            folder = tmp_path_factory.mktemp(f"{model}{ranks}_{batch}")
            program = cleave.export_spec(cases.spec(model, batch), folder)
            plan = Plan({"dp": ranks}, {"": FSDP()}).write(folder / "plan.json")
            local = folder / "program.local.mlir"
            subprocess.run(
                [build_dir / "bin" / "cleave-opt", program, f"--annotate-placements=plan={plan} uneven=true",
                 "--propagate-placements=uneven=true", "--partition=uneven=true", "-o", local],
                check=True, timeout=120,
            )  # fmt: skip
            assert "train.ranks" in local.read_text()
            made[ranks, batch, model] = program, local
        return made[ranks, batch, model]

    return get


def agree(build_dir, program, local, ranks, batch):
    """Runs both: they give the same results."""
    inputs = local.with_name("inputs.safetensors")
    save_file({name: torch.randint(0, 256, (batch, 32)) for name in ("tokens", "targets")}, inputs)
    subprocess.run(
        [build_dir / "bin" / "cleave-run", local, "--ranks", str(ranks), "--against", program, "--weights",
         program.with_suffix(".safetensors"), "--inputs", inputs, "--tolerance", "1e-2"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


def check(build_dir, prove, program, local, ranks, batch, lemmas):
    """It is proved, runs as one rank does, and is not proved without any of the lemmas."""
    answer = prove(program, local)
    assert answer["answer"] == "proved" and answer["results"] > 100, answer
    agree(build_dir, program, local, ranks, batch)
    for lemma in lemmas:
        broken = prove(program, local, f"--break-lemma={lemma}")
        assert broken["answer"] == "unknown" and broken["findings"], lemma


@pytest.mark.parametrize("model", part_of_today(OTHERS))
def test_other_models_are_proved(programs, prove, model):
    answer = prove(*programs(3, cases.UNEVEN_BATCH, model))
    assert answer["answer"] == "proved" and not answer["findings"], answer
    # Parts are put together, and wholes written in one digit, as a concatenation is.
    broken = prove(*programs(3, cases.UNEVEN_BATCH, model), "--break-lemma=concatenation")
    assert broken["answer"] == "unknown"


@pytest.mark.parametrize("ranks, batch", part_of_today(SHAPES))
def test_parts_of_different_sizes_are_proved(build_dir, programs, prove, ranks, batch):
    check(build_dir, prove, *programs(ranks, batch), ranks, batch, ["uneven-part"])


# The last rank has fewer examples, or one.
NUMBERS = [(3, 5), (3, 8), (4, 7), (5, 9), (7, 13)]


@pytest.mark.parametrize("ranks, batch", part_of_today(NUMBERS))
def test_ranks_with_other_numbers_of_examples_are_proved(build_dir, programs, prove, ranks, batch):
    """Sums over the examples of some ranks go on over those of the next; what one example makes is an element of the whole."""
    check(build_dir, prove, *programs(ranks, batch), ranks, batch, ["sum-goes-on", *["joined-place"] * (batch % 2)])


@pytest.mark.parametrize("ranks, batch", part_of_today(NUMBERS))
def test_experts_in_slots_with_other_numbers_of_examples_are_proved(build_dir, programs, prove, ranks, batch):
    """A place in an expert's queue depends on the examples of all ranks before."""
    check(build_dir, prove, *programs(ranks, batch, "moe"), ranks, batch, ["sum-goes-on", "part-stays"])


@pytest.mark.parametrize("model", part_of_today(["gpt2", "llama", "minilm", "resnet18"]))
def test_other_models_with_other_numbers_of_examples_are_proved(programs, prove, model):
    program, local = programs(3, 5, model)
    answer = prove(program, local)
    assert answer["answer"] == "proved" and answer["results"] > 80, answer
    for lemma in ("sum-goes-on", "elements-alike"):
        assert prove(program, local, f"--break-lemma={lemma}")["answer"] == "unknown", lemma


@pytest.mark.parametrize("ranks, batch", part_of_today([(3, 3), (5, 5), (3, 6), (6, 6), (7, 7), (11, 11)]))
def test_parts_in_zeros_are_proved(build_dir, programs, prove, ranks, batch):
    """Gradients of experts are put, a rank's part of 128, where it lies in zeros, and go on as terms of a sum."""
    program, local = programs(ranks, batch, "moe")
    assert "S2_dp> -> tensor<4x" in local.read_text()
    check(build_dir, prove, program, local, ranks, batch, ["part-in-zeros"])


def change(text, old, new):
    """The text with the first `old` in the microbatch of the second class changed."""
    begin, end = text.index("func.func @microbatch_1("), text.index("func.func @update_0(")
    function = text[begin:end]
    assert re.search(old, function), old
    return text[:begin] + re.sub(old, new, function, count=1) + text[end:]


@pytest.mark.parametrize(
    "old, new",
    [
        (r"(dist\.all_gather)\(%arg2\)", r"\1(%arg3)"),
        (r"(dist\.reduce_scatter sum)\(%grad_weight_28\)", r"\1(%grad_bias_29)"),
        (r"train\.accumulate (%\d+) into %arg50", r"train.accumulate \1 into %arg22"),
        (r"aten\.arange\(end = 32\)", "aten.arange_start(start = 1, end = 33)"),
    ],
)
def test_an_error_in_one_class_is_not_proved(programs, prove, tmp_path, old, new):
    program, local = programs(3, 6)
    changed = tmp_path / "changed.mlir"
    changed.write_text(change(local.read_text(), old, new))
    assert prove(program, changed)["answer"] == "unknown"


def refuse(build_dir, program, text, folder):
    """What cleave-prove says of a program that it can read, or of one that is none."""
    changed = folder / "changed.mlir"
    changed.write_text(text)
    result = subprocess.run(
        [build_dir / "bin" / "cleave-prove", program, changed, "--execute=false"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return result.returncode, result.stdout + result.stderr


def with_places(text, *places):
    """The program whose classes, one after the other, are of these places."""
    found = iter(places * 2)
    return RANKS_OF_DP.sub(lambda _: f"dp = array<i64: {next(found)}>", text)


def test_swapped_classes_are_not_proved(programs, build_dir, tmp_path):
    """The check of programs permits it; the prover compares sizes with where parts begin."""
    program, local = programs(3, 6)
    code, said = refuse(build_dir, program, with_places(local.read_text(), "1, 2", "0"), tmp_path)
    assert code == 2 and "has another size in" in said, said


@pytest.mark.parametrize(
    "places, message",
    [
        (("0", "2"), "no function of the program is for the rank with dp = 1"),
        (("0, 1, 2", "2"), "is for the rank with dp = 2, which has other functions already"),
    ],
)
def test_classes_cover_each_rank_once(programs, build_dir, tmp_path, places, message):
    """The check of programs says so."""
    program, local = programs(3, 6)
    code, said = refuse(build_dir, program, with_places(local.read_text(), *places), tmp_path)
    assert code == 3 and message in said, said


def test_wrong_sizes_are_refused(programs, build_dir, tmp_path):
    """By the check of programs where ops no longer fit; by the prover where all do: one of five each."""
    program, local = programs(3, 6)
    text = local.read_text()
    code, said = refuse(build_dir, program, change(text, "<10x128xf32", "<11x128xf32"), tmp_path)
    assert code == 3, said
    program, local = write(tmp_path, 3)
    text = local.read_text().replace("tensor<2xf32", "tensor<1xf32")
    code, said = refuse(build_dir, program, text, tmp_path)
    assert code == 2 and "has another size in" in said, said


def test_communication_in_another_order_is_refused(programs, build_dir, tmp_path):
    """The check of programs says so: ranks would wait for each other."""
    program, local = programs(3, 6)
    text = change(local.read_text(), r"%1 = (dist\.all_gather.*)", r"%1 = \1\n    %more = \1")
    code, said = refuse(build_dir, program, text, tmp_path)
    assert code == 3 and "where other ranks" in said, said


CALL = re.compile(r"= [a-z_]+\.[a-z_]+\((%[^)]*)\).* : \(?(.*?)\)? -> (tensor<.*)$")


def other_operands(text, count):
    """The program with one operand of an op replaced by another value of its type, in one class and in both: `count`
    such."""
    chosen, lines = random.Random(seed()), text.split("\n")
    types, sites, begins, function = {}, [], {}, ""
    for number, line in enumerate(lines):
        if "func.func @" in line:
            types, function = {}, re.search(r"@(\w+)", line)[1]
            begins[function] = number
        for name, type_ in re.findall(r"(%arg\d+): (tensor<[^>]*(?:<[^>]*>)?[^>]*>)", line):
            types[name] = type_
        found = CALL.search(line)
        made = re.match(r"\s*(%\w+) = ", line)
        if not found:
            continue
        for operand in re.findall(r"%\w+", found[1]):
            others = [name for name, type_ in types.items() if name != operand and type_ == types.get(operand)]
            if others:
                sites.append((function, number - begins[function], operand, others))
        if made:
            types[made[1]] = found[3]
    for function, offset, operand, others in chosen.sample(sites, min(count, len(sites))):
        other, changed, texts = chosen.choice(others), list(lines), []
        for name in (function, function[:-1] + str(1 - int(function[-1]))):
            number = begins[name] + offset
            changed[number] = re.sub(rf"(?<=[(, ]){operand}\b(?=[,)])", other, changed[number], count=1)
            texts.append("\n".join(changed))
        yield f"{function}: {changed[begins[function] + offset].strip()}", *texts


@pytest.mark.parametrize("model, batch, count", [("gpt_tied", 6, 60), ("gpt_tied", 5, 60), ("moe", 6, 40), ("moe", 5, 40)])
def test_no_operand_is_changed_in_one_class_and_proved(programs, prove, build_dir, tmp_path, model, batch, count):
    """What is proved all the same is right where both classes do it: cleave-run takes no classes that differ."""
    program, local = programs(3, batch, model)
    changed, unknown = tmp_path / "changed.mlir", 0
    for line, in_one, in_both in other_operands(local.read_text(), count):
        changed.write_text(in_one)
        if prove(program, changed)["answer"] == "proved":
            print("proved:", line)
            changed.write_text(in_both)
            agree(build_dir, program, changed, 3, batch)
        else:
            unknown += 1
    assert unknown > count * 2 // 3


WHOLE = """
func.func @microbatch(%w: tensor<{n}xf32> {{train.role = #train.role<parameter "w">}},
    %x: tensor<{ranks}xf32> {{train.role = #train.role<input "x" batch 0>}})
    -> (tensor<f32> {{train.role = #train.role<loss>}}, tensor<{ranks}xf32> {{train.role = #train.role<output "y">}})
    attributes {{train.phase = #train.phase<microbatch>}} {{
  %sum = aten.sum(%x) : (tensor<{ranks}xf32>) -> tensor<f32>
  %loss = aten.mul_scalar(%sum, other = 1.0) : (tensor<f32>) -> tensor<f32>
  %last = aten.select(%x, dim = 0, index = {last}) : (tensor<{ranks}xf32>) -> tensor<f32>
  %more = aten.mul_scalar(%last, other = {more}) : (tensor<f32>) -> tensor<f32>
  %all = aten.add(%loss, %more) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %all, %x : tensor<f32>, tensor<{ranks}xf32>
}}
"""

OF_CLASS = """
func.func @microbatch_{number}(%w: tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>> {{train.role = #train.role<parameter "w">}},
    %x: tensor<1xf32, #dist.on<@mesh, dp = S(0)>> {{train.role = #train.role<input "x" batch 0>}})
    -> (tensor<f32, #dist.on<@mesh, dp = R>> {{train.role = #train.role<loss>}},
        tensor<1xf32, #dist.on<@mesh, dp = S(0)>> {{train.role = #train.role<output "y">}})
    attributes {{train.phase = #train.phase<microbatch>, train.ranks = {{dp = array<i64: {places}>}}}} {{
  %v = dist.reinterpret %w : tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>> -> tensor<{size}xf32, #dist.on<@mesh, dp = V>>
  %own = aten.sum(%v) : (tensor<{size}xf32, #dist.on<@mesh, dp = V>>) -> tensor<f32, #dist.on<@mesh, dp = V>>
  %z = dist.reinterpret %x : tensor<1xf32, #dist.on<@mesh, dp = S(0)>> -> tensor<1xf32, #dist.on<@mesh, dp = V>>
  %more = aten.add(%z, %own) : (tensor<1xf32, #dist.on<@mesh, dp = V>>, tensor<f32, #dist.on<@mesh, dp = V>>) -> tensor<1xf32, #dist.on<@mesh, dp = V>>
  %less = aten.sub(%more, %own) : (tensor<1xf32, #dist.on<@mesh, dp = V>>, tensor<f32, #dist.on<@mesh, dp = V>>) -> tensor<1xf32, #dist.on<@mesh, dp = V>>
  %y = dist.reinterpret %less : tensor<1xf32, #dist.on<@mesh, dp = V>> -> tensor<1xf32, #dist.on<@mesh, dp = S(0)>>
  %sum = aten.sum(%x) : (tensor<1xf32, #dist.on<@mesh, dp = S(0)>>) -> tensor<f32, #dist.on<@mesh, dp = P>>
  %scaled = aten.mul_scalar(%sum, other = {factor}) : (tensor<f32, #dist.on<@mesh, dp = P>>) -> tensor<f32, #dist.on<@mesh, dp = P>>
  %loss = dist.all_reduce sum(%scaled) over @mesh ["dp"] : tensor<f32, #dist.on<@mesh, dp = P>> -> tensor<f32, #dist.on<@mesh, dp = R>>
  return %loss, %y : tensor<f32, #dist.on<@mesh, dp = R>>, tensor<1xf32, #dist.on<@mesh, dp = S(0)>>
}}
"""


def write(folder, ranks, more=0.0, factors=(1.0, 1.0)):
    """x is returned by way of values that depend on a part's size; the loss is the sum of all, by factors of classes."""
    n = 2 * ranks - 1
    paths = folder / "whole.mlir", folder / "ranks.mlir"
    paths[0].write_text(WHOLE.format(n=n, ranks=ranks, last=ranks - 1, more=more))
    places = ", ".join(map(str, range(ranks - 1))), str(ranks - 1)
    paths[1].write_text(
        f'dist.mesh @mesh ["dp" = {ranks}]\n'
        + "".join(
            OF_CLASS.format(number=i, size=2 - i, places=places[i], factor=factors[i]) for i in range(2)
        )
    )
    return paths


@pytest.mark.parametrize("ranks", [3, 4, 5, 8, 9])
def test_lemmas_of_classes(prove, tmp_path, ranks):
    """What is right is proved, and not where a lemma is wrong; or what is wrong then is."""
    right = write(tmp_path, ranks)
    assert prove(*right)["answer"] == "proved"
    assert prove(*right, "--break-lemma=value-in-class")["answer"] == "unknown"
    # One class doubles its terms.
    wrong = write(tmp_path, ranks, factors=(1.0, 2.0))
    assert prove(*wrong)["answer"] == "unknown"
    assert prove(*wrong, "--break-lemma=same-in-classes")["answer"] == "proved"
    # As if each rank had what the classes of all places make.
    wrong = write(tmp_path, ranks, more=2.0 * ranks, factors=(1.0, 2.0))
    assert prove(*wrong)["answer"] == "unknown"
    assert prove(*wrong, "--break-lemma=class-by-place")["answer"] == "proved"


CUT = """
func.func @microbatch_{number}(%w: tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>> {{train.role = #train.role<parameter "w">}},
    %x: tensor<{size}x{n}xf32, #dist.on<@mesh, dp = S(0)>> {{train.role = #train.role<parameter "x">}})
    -> (tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>> {{train.role = #train.role<output "w2">}},
        tensor<{n}x{size}xf32, #dist.on<@mesh, dp = S(1)>> {{train.role = #train.role<output "x2">}})
    attributes {{train.phase = #train.phase<microbatch>, train.ranks = {{dp = array<i64: {number}>}}}} {{
  %all = dist.all_gather(%w) dim 0 over @mesh ["dp"] : tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>> -> tensor<{n}xf32, #dist.on<@mesh, dp = R>>
  %v = dist.reinterpret %all : tensor<{n}xf32, #dist.on<@mesh, dp = R>> -> tensor<{n}xf32, #dist.on<@mesh, dp = V>>
  %own = aten.slice(%v, dim = 0, start = {start}, end = {end}) : (tensor<{n}xf32, #dist.on<@mesh, dp = V>>) -> tensor<{size}xf32, #dist.on<@mesh, dp = V>>
  %w2 = dist.reinterpret %own : tensor<{size}xf32, #dist.on<@mesh, dp = V>> -> tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>>
  %x2 = dist.all_to_all(%x) split {split} concat {concat} over @mesh ["dp"] : tensor<{size}x{n}xf32, #dist.on<@mesh, dp = S(0)>> -> tensor<{n}x{size}xf32, #dist.on<@mesh, dp = S(1)>>
  return %w2, %x2 : tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>>, tensor<{n}x{size}xf32, #dist.on<@mesh, dp = S(1)>>
}}
"""

UNCUT = """
func.func @microbatch(%w: tensor<{n}xf32> {{train.role = #train.role<parameter "w">}},
    %x: tensor<{n}x{n}xf32> {{train.role = #train.role<parameter "x">}})
    -> (tensor<{n}xf32> {{train.role = #train.role<output "w2">}}, tensor<{n}x{n}xf32> {{train.role = #train.role<output "x2">}})
    attributes {{train.phase = #train.phase<microbatch>}} {{
  {x2}return %w, {name} : tensor<{n}xf32>, tensor<{n}x{n}xf32>
}}
"""


@pytest.mark.parametrize("n", [5, 7, 9, 11, 33])
def test_parts_begin_where_they_do(prove, tmp_path, n):
    """Each of 2 ranks takes its part of a whole by numbers, and exchanges parts of rows for parts of columns."""
    whole, local = tmp_path / "whole.mlir", tmp_path / "ranks.mlir"

    def answer(begin, x2="", name="%x"):
        whole.write_text(UNCUT.format(n=n, x2=x2, name=name))
        first = (n + 1) // 2
        local.write_text(
            'dist.mesh @mesh ["dp" = 2]\n'
            + CUT.format(number=0, size=first, n=n, start=0, end=first, split=1, concat=0)
            + CUT.format(number=1, size=n - first, n=n, start=begin, end=begin + n - first, split=1, concat=0)
        )
        return prove(whole, local)

    right = (n + 1) // 2
    assert answer(right)["answer"] == "proved"
    for wrong in {0, right - 1}:
        found = answer(wrong)
        assert [finding["result"] for finding in found["findings"]] == ["output w2"]
        assert found["findings"][0]["function"] == "microbatch_1"
    turned = f"%t = aten.t(%x) : (tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>\n  "
    assert [finding["result"] for finding in answer(right, turned, "%t")["findings"]] == ["output x2"]


IN_ZEROS = """
func.func @microbatch_{number}(%w: tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>> {{train.role = #train.role<parameter "w">}},
    %x: tensor<{n}x{n}xf32, #dist.on<@mesh, dp = R>> {{train.role = #train.role<parameter "x">}})
    -> (tensor<{n}xf32, #dist.on<@mesh, dp = R>> {{train.role = #train.role<output "w2">}},
        tensor<{n}x{n}xf32, #dist.on<@mesh, dp = R>> {{train.role = #train.role<output "x2">}})
    attributes {{train.phase = #train.phase<microbatch>, train.ranks = {{dp = array<i64: {places}>}}}} {{
  %scaled = aten.mul_scalar(%w, other = {factor}) : (tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>>) -> tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>>
  %term = dist.convert %scaled : tensor<{size}xf32, #dist.on<@mesh, dp = S(0)>> -> tensor<{n}xf32, #dist.on<@mesh, dp = P>>
  %w2 = dist.all_reduce sum(%term) over @mesh ["dp"] : tensor<{n}xf32, #dist.on<@mesh, dp = P>> -> tensor<{n}xf32, #dist.on<@mesh, dp = R>>
  return %w2, %x : tensor<{n}xf32, #dist.on<@mesh, dp = R>>, tensor<{n}x{n}xf32, #dist.on<@mesh, dp = R>>
}}
"""


@pytest.mark.parametrize("ranks, n", [(2, 5), (3, 8), (4, 31), (5, 23), (7, 100)])
def test_parts_lie_in_zeros_where_they_do(prove, tmp_path, ranks, n):
    """Each rank puts its part in zeros, which added up are the whole: as long as no class has another factor."""
    whole, local = tmp_path / "whole.mlir", tmp_path / "ranks.mlir"
    size = -(-n // ranks)
    whole.write_text(UNCUT.format(n=n, x2="", name="%x"))

    def answer(*factors):
        places = ", ".join(map(str, range(ranks - 1))), str(ranks - 1)
        sizes = size, n - size * (ranks - 1)
        local.write_text(
            f'dist.mesh @mesh ["dp" = {ranks}]\n'
            + "".join(
                IN_ZEROS.format(number=i, size=sizes[i], n=n, places=places[i], factor=factors[i]) for i in range(2)
            )
        )
        return [finding["result"] for finding in prove(whole, local)["findings"]]

    assert answer(1.0, 1.0) == []
    assert answer(1.0, 2.0) == answer(2.0, 1.0) == ["output w2"]


@pytest.mark.parametrize("ranks", [3, 5])
def test_what_differs_within_a_class_is_not_proved(prove, tmp_path, ranks):
    """Each rank of the first class adds its place: 0 on the first one."""
    program, local = write(tmp_path, ranks)
    one, place = (f"tensor<{shape}, #dist.on<@mesh, dp = V>>" for shape in ("1xf32", "i64"))
    added = f"""%at = dist.axis_index over @mesh ["dp"] : {place}
  %off = aten.add(%more, %at) : ({one}, {place}) -> {one}
  %less = aten.sub(%off,"""
    text = local.read_text()
    assert text.count("%less = aten.sub(%more,") == 2
    local.write_text(text.replace("%less = aten.sub(%more,", added, 1))
    found = prove(program, local)["findings"]
    assert [(finding["function"], finding["result"]) for finding in found] == [("microbatch_0", "output y")]

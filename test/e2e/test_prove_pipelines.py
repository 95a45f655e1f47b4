"""Pipelines are proved to be the step of one device, and no change of a schedule or of a stage that computes
something else is: what is proved is run, in float64."""

import collections
import random
import re
import subprocess

import float64
import placement_cases as cases
import pytest
from combinations_cover import seed
from exported_models import MODELS
from pipelines import SCHEDULES, pipelines, schedule_passes, write_batch  # noqa: F401: fixtures

MUTANTS = 24  # of each kind and program
M = 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A model in float64."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            spec = float64.doubled(MODELS[name]())
            program = float64.export(spec, folder)
            made[name] = program, write_batch(spec, folder / "inputs.safetensors", M)
        return made[name]

    return get


PIPELINES = [
    ("gpt_untied", "1f1b", 2), ("gpt_tied", "gpipe", 2), ("llama", "interleaved-1f1b", 2), ("gpt_dropout", "zb-h1", 2),
    ("gpt_untied", "zbv", 2), ("gpt_tied", "looped-bfs", 2), ("moe", "dualpipev", 1), ("gpt_tied", "v-half", 2),
    ("llama", "interleaved-zero-bubble", 2), ("gpt_untied", "zb-h2", 2), ("gpt_dropout", "v-min", 2),
]  # fmt: skip


def test_each_schedule_is_among_them(source_dir):
    documented = re.findall(r"^\| `(\S+)`", (source_dir / "docs" / "schedules.md").read_text().split("## The schedules")[1], re.MULTILINE)
    assert {schedule for _, schedule, _ in PIPELINES} == set(SCHEDULES) == set(documented) - {"offline"}


@pytest.mark.parametrize("name, schedule, ranks", PIPELINES)
def test_schedules(prove, pipelines, program, name, schedule, ranks):  # noqa: F811
    _, source = program(name)
    answer = prove(source, pipelines.schedule(source, schedule, ranks))
    assert answer["answer"] == "proved", (answer["findings"][:3], answer.get("reason"))


@pytest.mark.parametrize("name, mesh", [("gpt_untied", "dp2 x tp2"), ("llama", "fsdp2")])
def test_stages_of_placed_programs(build_dir, prove, pipelines, program, tmp_path, name, mesh):  # noqa: F811
    """Stages with parallelism inside, buckets, and the norm of all gradients as a sum over stages."""
    _, source = program(name)
    plan = cases.plan(name, mesh).write(tmp_path / "plan.json")
    clipped = pipelines.make(source, f"{name}.clipped", "--clip-gradients=max-norm=0.05")
    more = ["--split-fsdp-collectives", "--bucket-gradients=bucket-size-mb=0.02", "--clip-gradients=max-norm=0.05"]
    part = pipelines.make(
        source, f"{name}.placed", f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition",
        *schedule_passes("1f1b", 2, M, more=more),
    )  # fmt: skip
    assert "stage_sum.gradient_norm_squared" in part.read_text()
    answer = prove(clipped, part)
    assert answer["answer"] == "proved", (answer["findings"][:3], answer.get("reason"))
    # Another function of the norm, and a sum over stages and ranks that is one over ranks twice.
    text = part.read_text()
    for old, new in ((r"aten\.sqrt\(", "aten.exp("), (r"dist\.all_reduce sum", "dist.all_reduce avg")):
        wrong = part.with_name(f"{name}.wrong.mlir")
        wrong.write_text(re.sub(old, new, text, count=1))
        assert prove(clipped, wrong, expect=(2, 3))["answer"] != "proved"


# Changes.


def mutate_schedule(text, choose):
    """A change of one rank's list: of one action, or of two."""
    head, body = re.split(r"(?=pipeline\.schedule)", text, maxsplit=1)
    lists = re.findall(r"rank \d+: ((?:(?!rank \d+:)[^}])*)", body)
    ranks = [each.split() for each in lists]
    rank = choose.randrange(len(ranks))
    actions = ranks[rank]
    at = choose.randrange(len(actions))
    kind = choose.choice(["drop", "double", "swap neighbours", "swap", "move", "other microbatch", "other stage", "rank"])
    if kind == "drop":
        del actions[at]
    elif kind == "double":
        actions.insert(choose.randrange(len(actions) + 1), actions[at])
    elif kind in ("swap neighbours", "swap"):
        other = (at + 1) % len(actions) if kind != "swap" else choose.randrange(len(actions))
        actions[at], actions[other] = actions[other], actions[at]
    elif kind == "move":
        actions.insert(choose.randrange(len(actions)), actions.pop(at))
    elif kind == "rank":
        ranks[(rank + 1) % len(ranks)].append(actions.pop(at))
    else:
        number = r"\.(\d+)$" if kind == "other microbatch" else r"(\d+)(?=\.|$)"
        actions[at] = re.sub(number, lambda found: found[0].replace(found[1], str(choose.randrange(3))), actions[at])
    for before, after in zip(lists, ranks, strict=True):
        body = body.replace(before, " ".join(after) + "\n", 1)
    return f"schedule: {kind}", head + body


def mutate_stage(text, choose):
    """A change of what stages hand each other, or keep."""
    kind = choose.choice(["role", "role", "operand", "accumulate", "reduce", "number"])
    if kind == "role":
        # Two arguments, or results, of one type and kind get each other's names.
        role = r"(tensor<[^>]+>) \{train\.role = #train\.role<(\w+) (\"[^\"]*\")"
        found = list(re.finditer(role, text))
        one = choose.choice(found)
        alike = [m for m in found if m[1] == one[1] and m[2] == one[2] and m[3] != one[3]]
        if not alike:
            return kind, text
        other = choose.choice(alike)
        first, second = sorted((one, other), key=lambda m: m.start())
        swapped = text[: first.start(3)] + second[3] + text[first.end(3) : second.start(3)] + first[3]
        return f"stage: other {one[2]}", swapped + text[second.end(3) :]
    lines = text.splitlines()
    if kind == "operand":
        # Another value of the same type, in one line of one function.
        uses = [i for i, line in enumerate(lines) if re.match(r"    %[\w:, %]+ = (aten|train)\.", line)]
        i = choose.choice(uses)
        types = re.findall(r"tensor<[^>]+>", lines[i].split(" : ")[-1])
        defined = []
        for line in reversed(lines[:i]):
            if "func.func" in line:
                break
            defined += re.findall(r"^    (%\w+) = .*-> (tensor<[^>]+>)", line)
            defined += re.findall(r"^      (%\w+): (tensor<[^>]+>)", line)
        same = [name for name, of in defined if types and of == types[0]]
        operand = re.search(r"(%\w+(?:#\d+)?)[,)]", lines[i].split(" = ", 1)[1])
        if not operand or not same:
            return kind, text
        left, right = lines[i].split(" = ", 1)
        lines[i] = left + " = " + right.replace(operand[1], choose.choice(same), 1)
    elif kind == "accumulate":
        places = [i for i, line in enumerate(lines) if "train.accumulate" in line]
        i = choose.choice(places)
        gradient, into, rest = re.search(r"train.accumulate (\S+) into (\S+) :(.*)", lines[i]).groups()
        lines[i] = lines[i].split("train.")[0] + choose.choice([
            f"train.accumulate {gradient} into {gradient} :{rest}",
            f"aten.mul_scalar({gradient}, other = 1.0) : ({rest.strip()}) ->{rest}",
            f"aten.sub({into}, {gradient}) : ({rest.strip()},{rest}) ->{rest}",
        ])  # fmt: skip
    elif kind == "reduce":
        places = [i for i, line in enumerate(lines) if "sum_dim_int_list" in line]
        i = choose.choice(places)
        lines[i] = lines[i].replace("aten.sum_dim_int_list", "aten.mean_dim")
    else:
        places = [i for i, line in enumerate(lines) if re.search(r"(scale|other|eps|draws) = [\d.e-]+", line)]
        i = choose.choice(places)
        lines[i] = re.sub(r"(scale|other|eps|draws) = ([\d.e+-]+)", lambda m: f"{m[1]} = {changed(m[2])}", lines[i])
    return f"stage: {kind}", "\n".join(lines) + "\n"


def changed(number):
    return str(int(number) + 1) if number.isdigit() else repr(float(number) * 1.5)


def check_mutants(build_dir, prove, source, inputs, right, mutations):
    """Of changes of a program on 2 ranks, those that are proved compute the same."""
    text = right.read_text()
    assert prove(source, right)["answer"] == "proved"
    choose = random.Random(seed())
    counts = collections.Counter()
    mutant = right.with_name(f"{right.stem}.mutant.mlir")
    weights = source.with_suffix(".safetensors")
    # More, up to three times as many, where none that is proved could be executed.
    for number in range(3 * MUTANTS * len(mutations)):
        if number >= MUTANTS * len(mutations) and counts["proved"] > counts["not run"]:
            break
        kind, wrong = mutations[number % len(mutations)](text, choose)
        if wrong == text:
            continue
        mutant.write_text(wrong)
        answer = prove(source, mutant, expect=(0, 2, 3))["answer"]
        counts[answer] += 1
        if answer != "proved":
            continue
        report = mutant.with_suffix(".json")
        report.unlink(missing_ok=True)
        run = subprocess.run(
            [build_dir / "bin" / "cleave-run", mutant, "--against", source, "--inputs", inputs, "--tolerance", "1e-9",
             "--ranks", "2", "--ranks-as", "threads", "--weights", weights, "--timeout", "60", "--json", report],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        # A view that needs other strides, and types that do not fit, end in an error; a step before the last
        # transfer leaves no gradients to compare.
        if not report.exists():
            counts["not run"] += 1
            continue
        changes = [pair for pair in zip(text.splitlines(), wrong.splitlines(), strict=False) if pair[0] != pair[1]]
        assert run.returncode == 0, (kind, changes[:3], run.stdout[-2000:], run.stderr[-2000:])
    print(right.stem, dict(counts))
    # Not all are refused unread.
    assert counts["unknown"] > MUTANTS / 2, counts
    return counts


@pytest.mark.parametrize("name, schedule", [("gpt_tied", "1f1b"), ("gpt_dropout", "zbv")])
def test_no_mutant_that_differs_is_proved(build_dir, prove, pipelines, whole, name, schedule):  # noqa: F811
    source, inputs = whole(name)
    right = pipelines.schedule(source, schedule, 2, microbatches=M)
    counts = check_mutants(build_dir, prove, source, inputs, right, (mutate_stage, mutate_schedule))
    assert counts["proved"] > counts["not run"], counts


@pytest.mark.parametrize("name, mesh", [("moe", "dp2"), ("gpt_untied", "tp2, sequence")])
def test_no_mutant_of_ranks_is_proved(build_dir, prove, pipelines, whole, tmp_path, name, mesh):  # noqa: F811
    source, inputs = whole(name)
    plan = cases.plan(name, mesh).write(tmp_path / "plan.json")
    passes = [f"--annotate-placements=plan={plan}", "--propagate-placements", "--partition"]
    right = pipelines.make(source, f"{name}.ranks", *passes)
    check_mutants(build_dir, prove, source, inputs, right, (mutate_stage,))

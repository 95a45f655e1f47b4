"""Schedules that come from files, PyTorch's among them, or from the search train like named ones."""

import csv
import re
import subprocess
from combinations_cover import covered
from types import SimpleNamespace

import pytest
from pipelines import check_sequence, pipelines, schedule_passes, text, write_batch  # noqa: F401
from safetensors.torch import load_file, save_file

schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
RANKS, MICROBATCHES = 2, 4
STAGES = ["--outline-stages=count=4 balance=cost", "--split-backward"]


def training(data, ranks=RANKS, steps=2):
    return ["--ranks", ranks, "--steps", steps, "--data", data, "--seed", 3, "--quiet", "--timeout", 60]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def complete(file, *more, p2p=True):
    """Passes that put a program into four stages and give it the schedule of a file."""
    transfers = ["--insert-p2p"] if p2p else []
    return [*STAGES, *more, f"--build-schedule=file={file}", *transfers, "--verify-schedule"]


class Stage(SimpleNamespace):
    """What the constructors of torch's schedules ask of a stage."""

    def __init__(self, stages):
        super().__init__(group_size=RANKS, num_stages=stages, group_rank=0, stage_index=0,
                         has_backward=True, is_first=True, is_last=False, submod=None)  # fmt: skip


def torch_order(cls):
    """The lists of a schedule that torch made, with its reductions of gradients."""
    order = cls([Stage(4) for _ in range(2)], MICROBATCHES, loss_fn=lambda *_: None).pipeline_order
    return {rank: schedules._add_reduce_grad(actions, MICROBATCHES) for rank, actions in order.items()}


def write_csv(order, path):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([[str(action) for action in order[rank]] for rank in sorted(order)])
    return path


@pytest.fixture(scope="module")
def named(model, pipelines):  # noqa: F811
    """A program with the schedule with that name, and passes between stages and schedule."""

    def make(schedule, *more):
        name = f"{schedule}.{len(more)}"
        return pipelines.make(model("gpt_tied").program, name, *schedule_passes(schedule, RANKS, more=more))

    return make


CLASSES = {"interleaved-1f1b": "ScheduleInterleaved1F1B", "zbv": "ScheduleZBVZeroBubble"}


@covered({"form": ["computations", "lowered"], "schedule": list(CLASSES)}, strength=1)
def test_what_torch_writes_trains(schedule, form, model, named, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """Bitwise as the schedule of this name; steps, and the sum over stages that clipping needs, are added."""
    order = torch_order(getattr(schedules, CLASSES[schedule]))
    if form == "lowered":
        style = "v" if schedule == "zbv" else "loop"
        place = schedules.generate_stage_to_rank_mapping(RANKS, 4, style)
        order = {rank: schedules._add_unshard_reshard(actions) for rank, actions in order.items()}
        order = schedules._add_send_recv(order, stage_to_rank=lambda stage: place[stage], num_stages=4)
    file = write_csv(order, tmp_path / "torch.csv")
    assert "REDUCE_GRAD" in file.read_text()
    source = model("gpt_tied").program
    passes = complete(file, "--clip-gradients", p2p=form == "computations")
    path = pipelines.make(source, f"torch.{schedule}.{form}", *passes)
    assert 'collective "stage_sum.' in path.read_text()
    cleave_run.succeed(path, *training(text), "--against", named(schedule, "--clip-gradients"))


def test_what_the_search_writes_trains(build_dir, model, named, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    source, file = model("gpt_tied").program, tmp_path / "found.txt"
    staged = pipelines.make(source, "staged", *STAGES)
    run(build_dir / "bin" / "cleave-sim", staged, "--schedule=auto", f"--ranks={RANKS}", "--effort=0.01",
        f"--microbatches={MICROBATCHES}", "--costs=1,1,1,0.1", "-o", file)  # fmt: skip
    assert "step" not in file.read_text()
    path = pipelines.make(source, "found", *complete(file, "--clip-gradients"))
    cleave_run.succeed(path, *training(text), "--against", named("zbv", "--clip-gradients"))


def test_cleave_opt_searches(model, named, pipelines, text, cleave_run):  # noqa: F811
    source = model("gpt_tied").program
    search = [f"--build-schedule=schedule=auto ranks={RANKS} microbatches={MICROBATCHES} effort=0.01",
              "--insert-p2p", "--verify-schedule"]  # fmt: skip
    path = pipelines.make(source, "auto", *STAGES, *search)
    assert '"auto" ranks 2 stages 4' in path.read_text()
    cleave_run.succeed(path, *training(text), "--against", source)
    # With whole backwards: the best of the schedules that have these.
    whole = pipelines.make(source, "auto.whole", STAGES[0], *search).read_text()
    assert " B0.0" in whole and " W0.0" not in whole


def test_buckets_go_through_csv(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """Two pipelines side by side: buckets become torch's REDUCE_GRAD, and buckets again."""
    source, file = model("gpt_tied").program, tmp_path / "exported.csv"
    more = ["--sync-gradients=axis=dp size=2", "--bucket-gradients=bucket-size-mb=0.02", "--clip-gradients"]
    build = f"--build-schedule=schedule=zbv ranks={RANKS} microbatches={MICROBATCHES}"
    first = pipelines.make(source, "buckets", *STAGES, *more, build, f"--export-schedule=output={file}",
                           "--insert-p2p", "--verify-schedule")  # fmt: skip
    reductions = [cell for row in csv.reader(file.open()) for cell in row if "REDUCE" in cell]
    reduced = re.findall(r" reduce(\d+)\.", first.read_text())
    assert sorted(reductions) == [f"{stage}REDUCE_GRAD" for stage in sorted(set(reduced))]
    assert len(reduced) > len(reductions) > 1
    again = pipelines.make(source, "buckets.again", *complete(file, *more))
    cleave_run.succeed(again, *training(text, ranks=4), "--against", first)


def test_ranks_with_different_numbers_of_stages(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """Three stages around two ranks, from a file without a word about reductions and steps."""
    lists = {rank: [] for rank in range(RANKS)}
    for microbatch in range(MICROBATCHES):
        for stage in range(3):
            lists[stage % RANKS].append(f"F{stage}.{microbatch}")
        for stage in reversed(range(3)):
            lists[stage % RANKS].append(f"B{stage}.{microbatch}")
    file = tmp_path / "uneven.txt"
    file.write_text(f"ranks 2 stages 3 microbatches {MICROBATCHES} topology loop\n"
                    + "".join(f"rank {rank}: {' '.join(actions)}\n" for rank, actions in lists.items()))  # fmt: skip
    source = model("gpt_tied").program
    stages = "--outline-stages=count=3 balance=cost"
    path = pipelines.make(source, "uneven", stages, f"--build-schedule=file={file}", "--insert-p2p",
                          "--verify-schedule")  # fmt: skip
    assert "stages 3 microbatches 4 topology loop" in path.read_text()
    cleave_run.succeed(path, *training(text), "--against", source)
    named = pipelines.make(source, "uneven.bfs", *schedule_passes("looped-bfs", RANKS, stages="count=3 balance=cost"))
    assert "stages 3 microbatches 4 topology loop" in named.read_text()
    cleave_run.succeed(named, *training(text))


def test_forward_only_keeps_nothing(model, pipelines, cleave_run, tmp_path):  # noqa: F811
    """Of a training program only what makes the loss is left; and that is the loss of the whole program."""
    subject = model("gpt_tied")
    build = f"--build-schedule=schedule=looped-bfs ranks={RANKS} microbatches={MICROBATCHES}"
    stages = "--outline-stages=count=4 balance=cost"
    whole = pipelines.make(subject.program, "bfs", stages, build, "--insert-p2p")
    path = pipelines.make(subject.program, "forward", stages, f"{build} forward-only=true", "--insert-p2p",
                          "--verify-schedule")  # fmt: skip
    program = path.read_text()
    assert "<saved" in whole.read_text() and "<backward>" in whole.read_text()
    assert not any(word in program for word in ("<saved", "<backward>", "<update>", "optimizer_state", "crossing_gradient"))
    batch = write_batch(subject.spec, tmp_path / "batch.safetensors", MICROBATCHES)
    losses = []
    for program, *options in ((path, "--ranks", RANKS), (whole, "--ranks", RANKS)):
        dump = tmp_path / f"{program.stem}.safetensors"
        cleave_run.succeed(program, *options, "--inputs", batch, "--dump", dump)
        losses.append(load_file(dump)["loss"])
    assert losses[0].isfinite() and losses[0] == losses[1]


def test_a_profile_names_sums_over_stages(named, text, cleave_run, tmp_path):  # noqa: F811
    path = tmp_path / "profile.json"
    program = named("1f1b", "--clip-gradients")
    cleave_run.succeed(program, *training(text, steps=4), "--profile", path)
    assert 'collective \\"stage_sum.gradient_norm_squared\\"[0 1]' in path.read_text()


def test_actions_of_the_user_need_a_callback(named, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    path = pipelines.edited(named("1f1b"), "called", lambda program: program.replace(" step0", ' call "log" step0'))
    error = cleave_run.fail(path, *training(text))
    assert 'call "log" is an action of the embedding program: expected a function @log or a callback' in error


FUNCTION = """
  func.func @halve(%w: {type} {{train.role = #train.role<parameter "{name}">}})
      -> ({type} {{train.role = #train.role<parameter "{name}">}},
          tensor<f32> {{train.role = #train.role<output "largest">}}) {{
    %0 = aten.mul_scalar(%w, other = 0.5) : ({type}) -> {type}
    %1 = aten.abs(%0) : ({type}) -> {type}
    %2 = aten.call "aten::max"(self = %1) : ({type}) -> tensor<f32>
    return %0, %2 : {type}, tensor<f32>
  }}
"""


@pytest.fixture(scope="module")
def halving(build_dir, model, pipelines, tmp_path_factory):  # noqa: F811
    """A program of two stages, one in which its second rank halves a parameter first, and that parameter."""
    subject, folder = model("gpt_tied"), tmp_path_factory.mktemp("halving")
    stages, build = "--outline-stages=count=2 balance=cost", "--build-schedule=schedule=1f1b"
    build += f" ranks={RANKS} microbatches={MICROBATCHES}"
    plain = pipelines.make(subject.program, "plain", stages, build, "--insert-p2p")
    last = re.search(r"func\.func @forward_1\((.*?)\) *->", plain.read_text(), re.DOTALL)[1]
    kind, name = re.search(r'(tensor<\d+xf32>) {train\.role = #train\.role<parameter "([^"]+)"', last).groups()
    # The function is in the program from the beginning, the call in the schedule's file.
    source = folder / "source.mlir"
    text = subject.program.read_text()
    start = text.index("func.func")
    source.write_text(text[:start] + FUNCTION.format(type=kind, name=name).strip() + "\n  " + text[start:])
    source.with_suffix(".safetensors").symlink_to(subject.program.with_suffix(".safetensors").resolve())
    file = folder / "halving.txt"
    run(build_dir / "bin" / "cleave-opt", subject.program, stages, build, f"--export-schedule=output={file}",
        "-o", folder / "ignored.mlir")  # fmt: skip
    file.write_text(file.read_text().replace("rank 1:", 'rank 1: call "halve"'))
    calling = pipelines.make(source, "calling", stages, f"--build-schedule=file={file}", "--insert-p2p",
                             "--verify-schedule")  # fmt: skip
    return SimpleNamespace(plain=plain, calling=calling, name=name, spec=subject.spec)


def test_a_schedule_calls_functions_of_the_program(halving, cleave_run, tmp_path):
    """One that halves a parameter: the step is that of a program whose weights are so."""
    batch = write_batch(halving.spec, tmp_path / "batch.safetensors", MICROBATCHES)
    weights = load_file(halving.plain.with_suffix(".safetensors"))
    weights[halving.name] = weights[halving.name] * 0.5
    save_file(weights, tmp_path / "halved.safetensors")
    results = []
    for program, *options in ((halving.calling,), (halving.plain, "--weights", tmp_path / "halved.safetensors")):
        dump = tmp_path / f"{program.stem}.dump"
        cleave_run.succeed(program, *options, "--ranks", RANKS, "--inputs", batch, "--dump", dump)
        results.append(load_file(dump))
    called, expected = results
    largest = called.pop("output.largest")
    assert largest == weights[halving.name].abs().max()
    assert called.keys() == expected.keys()
    assert all(called[name].equal(expected[name]) for name in called)


def test_functions_of_the_schedule_train(halving, text, cleave_run):  # noqa: F811
    cleave_run.succeed(halving.calling, *training(text))
    error = cleave_run.fail(halving.calling, "--steps", 1, "--data", text, "--quiet")
    assert "call \"halve\" of its schedule replaces 'param." in error
    assert "needs the schedule's 2 ranks" in error


def test_a_function_of_another_rank_is_refused(halving, pipelines, text, cleave_run):  # noqa: F811
    swap = lambda program: program.replace('call "halve"', "").replace("rank 0:", 'rank 0: call "halve"')  # noqa: E731
    path = pipelines.edited(halving.calling, "misplaced", swap)
    error = cleave_run.fail(path, *training(text))
    assert f"rank 0, position 0: call \"halve\" takes 'param.{halving.name}', which rank 0 does not hold" in error


def test_a_trace_shows_the_schedule_of_a_file(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    order = torch_order(schedules.ScheduleInterleaved1F1B)
    file, trace = write_csv(order, tmp_path / "torch.csv"), tmp_path / "trace.json"
    path = pipelines.make(model("gpt_tied").program, "traced", *complete(file))
    cleave_run.succeed(path, *training(text, steps=1), "--trace", trace)
    check_sequence(trace, path)

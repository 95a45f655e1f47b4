"""Schedules that several ranks run train as one rank does."""

import json

import combinations_cover
import training
from pipelines import CHUNKED, SPLIT, check_sequence, pipelines, schedule_passes, text  # noqa: F401

BUILDERS = ["gpipe", "1f1b"] + sorted(SPLIT | CHUNKED)


@combinations_cover.covered({"schedule": BUILDERS, "ranks": [2, 4]}, strength=1)
def test_every_schedule_trains(schedule, ranks, model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """Tied weights, AdamW, and microbatches accumulated in order: the same bits as one rank's; 20 steps with CLEAVE_TEST_ALL."""
    source = model("gpt_tied").program
    path = pipelines.schedule(source, schedule, ranks, microbatches=8)
    steps = 20 if combinations_cover.run_all() else 2
    options = ["--data", text, "--seed", 3, "--quiet", "--timeout", 60]
    if schedule != "looped-bfs":
        cleave_run.succeed(path, "--ranks", ranks, "--steps", steps, *options, "--against", source)
        return
    # The last microbatch's backward comes first, so that gradients are added in another order.
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    cleave_run.succeed(path, "--ranks", ranks, "--steps", 20, *options, "--metrics", ours)
    cleave_run.succeed(source, "--microbatches", 8, "--steps", 20, *options, "--metrics", theirs)
    pairs = zip(training.losses(ours), training.losses(theirs))
    assert max(abs(a - b) / b for a, b in pairs) < 1e-5


def test_twenty_steps(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """Losses are reported by the first rank, though the last one has them."""
    source = model("gpt_tied").program
    options = ["--steps", 20, "--data", text, "--seed", 3, "--quiet"]
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    cleave_run.succeed(source, *options, "--microbatches", 4, "--metrics", one)
    path = pipelines.schedule(source, "1f1b", 2)
    cleave_run.succeed(path, *options, "--ranks", 2, "--metrics", two)
    assert training.losses(one) == training.losses(two)


def test_one_rank_runs_all_stages(model, pipelines, text, cleave_run):  # noqa: F811
    source = model("gpt_tied").program
    for schedule in ("1f1b", "zbv"):
        path = pipelines.schedule(source, schedule, 2)
        cleave_run.succeed(path, "--steps", 2, "--data", text, "--against", source)
    offline = pipelines.make(source, "offline", *schedule_passes("offline", 1, stages="count=3 balance=cost"))
    cleave_run.succeed(offline, "--steps", 2, "--data", text, "--against", source)


def test_threads_and_dropout(model, pipelines, text, cleave_run):  # noqa: F811
    """Every rank draws the numbers of its part of the whole program."""
    source = model("gpt_untied_dropout").program
    path = pipelines.schedule(source, "zbv", 2)
    cleave_run.succeed(path, "--ranks", 2, "--ranks-as", "threads", "--steps", 2, "--data", text,
                       "--seed", 9, "--against", source)  # fmt: skip


def test_pipeline_and_data_parallel(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """Two pipelines of two ranks train as two data-parallel ranks do, bit for bit."""
    source = model("gpt_tied").program
    plain = pipelines.make(source, "dp", "--sync-gradients=axis=dp")
    options = ["--steps", 3, "--data", text, "--quiet", "--checkpoint"]
    cleave_run.succeed(plain, "--ranks", 2, "--microbatches", 4, *options, tmp_path / "dp")
    for schedule in ("1f1b", "zbv"):
        both = pipelines.schedule(plain, schedule, 2)
        folder = tmp_path / schedule
        cleave_run.succeed(both, "--ranks", 4, *options, folder)
        expected = training.checkpoint_tensors(training.newest_checkpoint(tmp_path / "dp"))
        found = training.checkpoint_tensors(training.newest_checkpoint(folder))
        assert expected.keys() == found.keys()
        assert all(expected[key].equal(found[key]) for key in expected)


def test_checkpoints_are_whole(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """A run goes from one rank to two, to four, and ends as one that never changed."""
    source = model("gpt_tied").program
    options = ["--data", text, "--quiet", "--checkpoint"]
    cleave_run.succeed(source, "--microbatches", 4, "--steps", 6, *options, tmp_path / "one")
    resumed = tmp_path / "resumed"
    two = pipelines.schedule(source, "1f1b", 2)
    four = pipelines.schedule(source, "zb-h1", 4)
    cleave_run.succeed(source, "--microbatches", 4, "--steps", 2, *options, resumed)
    cleave_run.succeed(two, "--ranks", 2, "--steps", 4, *options, resumed, "--resume")
    cleave_run.succeed(four, "--ranks", 4, "--steps", 6, *options, resumed, "--resume")
    expected = training.checkpoint_tensors(training.newest_checkpoint(tmp_path / "one"))
    found = training.checkpoint_tensors(training.newest_checkpoint(resumed))
    assert expected.keys() == found.keys()
    assert all(expected[key].equal(found[key]) for key in expected)


def test_trace_has_the_actions(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    path = pipelines.schedule(model("gpt_tied").program, "1f1b", 2)
    trace = tmp_path / "trace.json"
    cleave_run.succeed(path, "--ranks", 2, "--steps", 1, "--data", text, "--trace", trace, "--quiet")
    check_sequence(trace, path)
    events = json.loads(trace.read_text())["traceEvents"]
    names = [{e["name"] for e in events if e.get("ph") == "X" and e["pid"] == r} for r in (0, 1)]
    assert {"F0.3", "B0.3", "sendF0.3", "recvB0.3", "wait for B0.3", "step0"} <= names[0]
    assert {"F1.0", "B1.0", "recvF1.0", "sendB1.0", "step1"} <= names[1]


def test_clipping_sees_all_stages(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """The norm is of the gradients of all ranks: a sum over stages, in their order."""
    source = model("gpt_tied").program
    passes = schedule_passes("1f1b", 2, more=("--clip-gradients=max-norm=0.05",))
    path = pipelines.make(source, "clipped", *passes)
    options = ["--steps", 3, "--data", text, "--quiet", "--metrics"]
    cleave_run.succeed(path, "--ranks", 2, *options, tmp_path / "two")
    cleave_run.succeed(path, *options, tmp_path / "one")
    assert training.losses(tmp_path / "two") == training.losses(tmp_path / "one")
    free = pipelines.schedule(source, "1f1b", 2)
    cleave_run.succeed(free, *options, tmp_path / "free")
    assert training.losses(tmp_path / "free") != training.losses(tmp_path / "one")


def test_buckets_are_reduced_under_computation(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    source = model("gpt_tied").program
    plain = pipelines.make(source, "dp", "--sync-gradients=axis=dp")
    passes = schedule_passes("1f1b", 2, more=("--bucket-gradients",))
    path = pipelines.make(plain, "buckets", *passes)
    assert "reduce1.0" in path.read_text()
    options = ["--steps", 3, "--data", text, "--quiet", "--metrics"]
    cleave_run.succeed(path, "--ranks", 4, *options, tmp_path / "four")
    cleave_run.succeed(plain, "--ranks", 2, "--microbatches", 4, *options, tmp_path / "two")
    assert training.losses(tmp_path / "four") == training.losses(tmp_path / "two")


def test_a_mesh_with_the_pipelines_axis(model, pipelines, text, cleave_run, tmp_path):  # noqa: F811
    """The axis may be any of the mesh: here ranks 0 and 1 are a pipeline's, there 0 and 2."""
    source = model("gpt_tied").program
    losses = []
    for mesh in ('"dp" = 2, "depth" = 2', '"depth" = ?, "dp" = 2'):
        name = f"mesh{len(losses)}"
        text_with_mesh = source.with_name(f"{name}.mlir")
        lines = source.read_text().splitlines(keepends=True)
        at = next(i for i, line in enumerate(lines) if line.startswith("module"))
        lines.insert(at + 1, f"  dist.mesh @mesh [{mesh}]\n")
        text_with_mesh.write_text("".join(lines))
        text_with_mesh.with_suffix(".safetensors").symlink_to(source.with_suffix(".safetensors"))
        passes = schedule_passes("1f1b", 2)
        passes = ["--sync-gradients=axis=dp"] + [
            p + " axis=depth" if p.startswith("--build-schedule") else p for p in passes]  # fmt: skip
        path = pipelines.make(text_with_mesh, name, *passes)
        assert 'over "depth"' in path.read_text()
        cleave_run.succeed(path, "--ranks", 4, "--steps", 2, "--data", text, "--quiet",
                           "--metrics", tmp_path / name)  # fmt: skip
        losses.append(training.losses(tmp_path / name))
    assert losses[0] == losses[1]

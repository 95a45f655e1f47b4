"""cleave-run's training loop: early stopping, the best checkpoint, changes of a run that is continued, and its status."""

import json
import os
import signal
import subprocess
import time
import urllib.request

import cleave
import pytest
import torch
import training
from cleave import status_page
from test_schedulers import make_spec
from torch.optim import lr_scheduler as schedulers

STEPS = 20


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    """A tiny program whose evaluation loss falls and then rises: its training data soon teach what is not in the other's."""
    folder = tmp_path_factory.mktemp("tiny")
    spec = make_spec(lambda o: cleave.Constant())
    program = cleave.export_spec(spec, folder)
    training.save_batches(spec, training.random_batches(spec, 2, 1, 5), folder / "data.safetensors")
    training.save_batches(spec, training.random_batches(spec, 60, 1, 7), folder / "other.safetensors")
    training.save_batches(spec, training.random_batches(spec, 3, 1, 6), folder / "eval.safetensors")
    return spec, program


def options(subject, tmp_path, *more, steps=STEPS):
    folder = subject[1].parent
    return [subject[1], "--data", f"safetensors:{folder / 'data.safetensors'}", "--threads", 1, "--steps", steps,
            "--metrics", tmp_path / "m", *more]  # fmt: skip


def evaluating(subject):
    return ["--eval-data", f"safetensors:{subject[1].parent / 'eval.safetensors'}", "--eval-every", 2]


def first_stop(losses, patience):
    """How many evaluations there are until `patience` in a row were not lower."""
    worse, best = 0, float("inf")
    for count, loss in enumerate(losses, 1):
        worse, best = (0, loss) if loss < best else (worse + 1, best)
        if worse == patience:
            return count
    return None


@pytest.fixture(scope="module")
def whole(build_dir, tmp_path_factory, subject):
    """The metrics of a run that nothing stops."""
    folder = tmp_path_factory.mktemp("whole")
    training.train(build_dir, *options(subject, folder, *evaluating(subject), steps=60))
    return training.read_metrics(folder / "m")


def evaluations(rows):
    return [row["eval_loss"] for row in rows if "eval_loss" in row]


def test_early_stopping_and_the_best_checkpoint(build_dir, tmp_path, subject, whole):
    patience = 3
    stop = first_stop(evaluations(whole), patience)
    assert stop and stop > patience, evaluations(whole)  # it falls first
    arguments = options(subject, tmp_path, *evaluating(subject), "--early-stopping-patience", patience, "--keep-best",
                        "--checkpoint", tmp_path / "run", "--keep-last", 1, "--resume", steps=60)  # fmt: skip
    output = training.train(build_dir, *arguments)
    rows = training.read_metrics(tmp_path / "m")
    assert [row["loss"] for row in rows] == [row["loss"] for row in whole[: 2 * stop]]
    losses = evaluations(rows)
    best = 2 * (losses.index(min(losses)) + 1)
    assert f"stopped early after step {2 * stop}: no lower evaluation loss in {patience} evaluations; the lowest was" in output
    assert f"after step {best}" in output
    # --keep-last does not count the best one.
    assert sorted(path.name for path in (tmp_path / "run").glob("step-*")) == [f"step-{best:08}", f"step-{2 * stop:08}"]
    assert os.readlink(tmp_path / "run" / "best") == f"step-{best:08}"
    output = training.train(build_dir, subject[1], "--evaluate", "--data", evaluating(subject)[1], "--weights",
                            tmp_path / "run" / "best")  # fmt: skip
    assert float(output.splitlines()[-1].removeprefix("loss ")) == pytest.approx(min(losses), rel=1e-6)

    # It stays stopped, and goes on where more patience is asked for.
    assert f"has stopped early after step {2 * stop}" in training.train(build_dir, *arguments)
    arguments[arguments.index("--early-stopping-patience") + 1] = 100
    training.train(build_dir, *arguments)
    assert training.losses(tmp_path / "m") == [row["loss"] for row in whole]


def test_the_best_before_the_best_is_old(build_dir, tmp_path, subject, whole):
    losses = evaluations(whole)[:2]
    assert losses[1] < losses[0]
    training.train(build_dir, *options(subject, tmp_path, *evaluating(subject), "--keep-best", "--keep-last", 1, "--checkpoint",
                                       tmp_path / "run", steps=4))  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "run").glob("step-*")) == ["step-00000004"]


def test_a_resumed_run_counts_on(build_dir, tmp_path, subject, whole):
    stop = first_stop(evaluations(whole), 3)
    for steps in (2 * stop - 3, 60):
        arguments = options(subject, tmp_path, *evaluating(subject), "--early-stopping-patience", 3, "--checkpoint",
                            tmp_path / "run", "--resume", steps=steps)  # fmt: skip
        training.train(build_dir, *arguments)
    assert len(training.read_metrics(tmp_path / "m")) == 2 * stop


def test_ranks_stop_together(build_dir, tmp_path, subject, whole):
    program = tmp_path / "dp.mlir"
    training.optimize(build_dir, subject[1], "--sync-gradients=axis=dp", "-o", program)
    program.with_suffix(".safetensors").symlink_to(subject[1].with_suffix(".safetensors"))
    arguments = options((None, subject[1]), tmp_path, *evaluating(subject), "--early-stopping-patience", 3, "--ranks", 2,
                        "--keep-best", "--checkpoint", tmp_path / "run", steps=60)  # fmt: skip
    output = training.train(build_dir, program, *arguments[1:])
    rows = training.read_metrics(tmp_path / "m")
    assert "stopped early after step" in output and len(rows) == 2 * first_stop(evaluations(rows), 3)


def test_changes_of_a_run_that_is_continued(build_dir, tmp_path, subject):
    run = ["--checkpoint", tmp_path / "run", "--resume"]
    training.train(build_dir, *options(subject, tmp_path, *run, steps=4))
    other = ["--data", f"safetensors:{subject[1].parent / 'other.safetensors'}"]

    def refuse(*more, change):
        result = training.run(build_dir, *options(subject, tmp_path, *run, *more, steps=8))
        assert result.returncode == 1 and "resuming would change its results" in result.stderr, result.stderr
        assert f"(--continue-with={change})" in result.stderr
        return result.stderr

    def go_on(*more, steps):
        training.train(build_dir, *options(subject, tmp_path, *run, *more, steps=steps))
        return training.read_metrics(tmp_path / "m")

    arguments = options(subject, tmp_path, *run, steps=8)
    arguments[1:3] = other
    result = training.run(build_dir, *arguments)
    assert result.returncode == 1 and "(--continue-with=data)" in result.stderr
    arguments[arguments.index("--steps") + 1] = 6
    training.train(build_dir, *arguments, "--continue-with=data")
    assert len(training.read_metrics(tmp_path / "m")) == 6

    # The run's data are those from now on.
    message = training.run(build_dir, *options(subject, tmp_path, *run, steps=8)).stderr
    assert "(--continue-with=data)" in message
    rows = go_on("--continue-with=data", steps=8)

    message = refuse("--lr-scale", 0.5, change="lr")
    assert "learning rates in step 8 of 0.3, 0.1, found 0.15, 0.05" in message
    rows = go_on("--lr-scale", 0.5, "--continue-with=lr", steps=10)
    assert rows[7]["lr"] == [0.3, 0.1] and rows[8]["lr"] == [0.15, 0.05]
    message = refuse("--lr-scale", 0.5, "--microbatches", 2, change="batch")
    assert "microbatches in a step, over all ranks: 1, found 2" in message
    rows = go_on("--lr-scale", 0.5, "--microbatches", 2, "--continue-with=batch,data,lr", steps=12)
    assert len(rows) == 12
    # Never the seed.
    message = training.run(build_dir, *options(subject, tmp_path, *run, "--seed", 9, "--continue-with=batch,data,lr")).stderr
    assert "the run was started with --seed 0, found 9" in message


def test_options_are_checked(build_dir, tmp_path, subject):
    def refuse(*more):
        result = training.run(build_dir, *options(subject, tmp_path, *more))
        assert result.returncode == 1 and result.stderr.count("error") == 1, result.stderr
        return result.stderr

    for option in (["--early-stopping-patience", 2], ["--keep-best", "--checkpoint", tmp_path / "run"]):
        assert "go by the evaluation loss: expected --eval-data and --eval-every" in refuse(*option)
    data = evaluating(subject)
    assert "expected --early-stopping-patience of at least 1, found 0" in refuse(*data, "--early-stopping-patience", 0)
    assert "--keep-best needs --checkpoint DIRECTORY" in refuse(*data, "--keep-best")
    assert "expected --resume" in refuse("--continue-with=lr")
    assert "expected --peak-flops above 0" in refuse("--peak-flops", 0)
    result = training.run(build_dir, *options(subject, tmp_path, "--continue-with=seed"))
    assert result.returncode != 0 and "seed" in result.stderr
    assert "error" in refuse("--status", tmp_path / "nowhere" / "status.json")
    assert not (tmp_path / "m").exists()


def test_utilization(build_dir, tmp_path, subject):
    """Model FLOPs: products of the forward and, twice those, of the backward."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    output = training.train(build_dir, *options(subject, tmp_path, "--peak-flops", "1e6", "--tensorboard", tmp_path / "tb"))
    rows = training.read_metrics(tmp_path / "m")
    assert "mfu" in output and all(0 < row["mfu"] for row in rows)
    # Linear 4 -> 6 -> 3 for 2 examples; the first layer's input needs no gradient.
    flops = 2 * 2 * (4 * 6 * 2 + 6 * 3 * 3)
    assert [row["mfu"] * row["ms"] * 1e-3 * 1e6 for row in rows] == pytest.approx([flops] * STEPS, rel=0.05)
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert len(events.Scalars("speed/mfu")) == STEPS


def test_status(build_dir, tmp_path, subject):
    status = tmp_path / "status.json"
    training.train(build_dir, *options(subject, tmp_path, *evaluating(subject), "--status", status))
    found = json.loads(status.read_text())
    rows = training.read_metrics(tmp_path / "m")
    assert (found["state"], found["step"], found["steps"]) == ("finished", STEPS, STEPS)
    assert found["losses"] == [[row["step"], row["loss"]] for row in rows]
    assert found["eval_losses"] == [[row["step"], row["eval_loss"]] for row in rows if "eval_loss" in row]
    assert found["best"]["eval_loss"] == min(evaluations(rows)) and found["lr"] == [0.3, 0.1]
    assert [rank["rank"] for rank in found["ranks"]] == [0] and found["ranks"][0]["pid"] > 0

    result = training.run(build_dir, *options(subject, tmp_path, "--status", status, "--lr-scale", 1e30, "--stop-on-nan"))
    found = json.loads(status.read_text())
    assert result.returncode == 1 and found["state"] == "failed" and "--stop-on-nan" in found["message"]


def wait_for_status(process, status, wanted):
    deadline = time.monotonic() + 60
    while True:
        found = json.loads(status.read_text()) if status.exists() else {}
        if found and wanted(found):
            return found
        assert process.poll() is None and time.monotonic() < deadline, found
        time.sleep(0.1)


def test_status_says_who_waits_for_whom(build_dir, tmp_path, model):
    """A rank is stopped; the status names it, while the others wait, and the page shows it."""
    status, program = tmp_path / "status.json", model("gpt_tied").for_ranks(build_dir)
    process = subprocess.Popen(
        training.command(build_dir, program, "--ranks", 2, "--steps", 10**8, "--data", "text:/usr/share/common-licenses/GPL-3",
                         "--threads", 1, "--status", status, "--metrics", tmp_path / "m", "--timeout", 100),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=training.ENVIRONMENT)  # fmt: skip

    def wait_for(wanted):
        return wait_for_status(process, status, wanted)

    try:
        found = wait_for(lambda found: found["step"] > 2)
        assert found["state"] == "training" and "waits_for" not in found["ranks"][0]
        os.kill(found["ranks"][1]["pid"], signal.SIGSTOP)
        found = wait_for(lambda found: found["ranks"][0].get("waits_for"))
        first, second = found["ranks"]
        assert first["waits_for"] == [1] and first["responds"] and first["operation"]
        assert not second["responds"]
        with status_page.make_server(status, 0) as server:
            import threading

            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}"
            assert b'fetch("status.json"' in urllib.request.urlopen(address + "/").read()
            assert json.loads(urllib.request.urlopen(address + "/status.json").read())["ranks"][0]["waits_for"] == [1]
            server.shutdown()
        os.kill(second["pid"], signal.SIGCONT)
        wait_for(lambda now: now["step"] > found["step"] and "waits_for" not in now["ranks"][0])
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_status_says_who_waits_for_a_transfer(build_dir, tmp_path, model):
    """A stage waits for what the other one sends."""
    subject, program, status = model("gpt_tied"), tmp_path / "staged.mlir", tmp_path / "status.json"
    training.optimize(build_dir, subject.program, "--outline-stages=count=2 balance=cost",
                      "--build-schedule=schedule=1f1b ranks=2 microbatches=16", "--insert-p2p", "-o", program)  # fmt: skip
    process = subprocess.Popen(
        training.command(build_dir, program, "--ranks", 2, "--weights", subject.weights, "--steps", 10**8, "--data",
                         "text:/usr/share/common-licenses/GPL-3", "--threads", 1, "--status", status, "--timeout", 100),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=training.ENVIRONMENT)  # fmt: skip
    transfers = set()
    try:
        # It may be stopped where the first one comes to a collective, too.
        for number in range(8):
            step = wait_for_status(process, status, lambda found: found["state"] == "training" and found["step"] > 1)["step"]
            second = json.loads(status.read_text())["ranks"][1]["pid"]
            time.sleep(0.1 + 0.037 * number)
            os.kill(second, signal.SIGSTOP)
            first, _ = wait_for_status(process, status, lambda found: found["ranks"][0].get("waits_for"))["ranks"]
            assert first["waits_for"] == [1] and first["responds"]
            transfers.add(first["operation"].split(" of ")[0])
            os.kill(second, signal.SIGCONT)
            wait_for_status(process, status, lambda now, step=step: now["step"] > step)
            if "receive" in transfers:
                break
    finally:
        process.kill()
        process.communicate(timeout=60)
    assert "receive" in transfers, transfers


def test_traced_optimizers_have_schedulers_too(build_dir, tmp_path):
    spec = make_spec(lambda o: cleave.Constant())
    module = spec.module
    optimizer = torch.optim.RMSprop(module.parameters(), lr=0.01)
    scheduler = schedulers.CosineAnnealingLR(optimizer, 5)
    made = cleave.ExportSpec(
        module, spec.args, loss=spec.loss, targets=spec.targets, optimizer=optimizer, lr_schedule=scheduler,
        schedule_steps=8, name="traced")  # fmt: skip
    program = cleave.export_spec(made, tmp_path)
    data = training.save_batches(made, training.random_batches(made, 8, 1, 5), tmp_path / "data.safetensors")
    training.train(build_dir, program, "--data", f"safetensors:{data}", "--steps", 8, "--metrics", tmp_path / "m")
    expected = []
    for _ in range(8):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert [row["lr"] for row in training.read_metrics(tmp_path / "m")] == expected

"""Ranks of cleave-run: every way to start them, and every way to lose one."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from combinations_cover import cover, name
from training import ENVIRONMENT, Model, command, losses

TEXT = "/usr/share/common-licenses/GPL-3"
# Longer than any test waits for.
ENDLESS = 10**8
PEER_FAILURE = 76


@pytest.fixture(scope="module")
def programs(tmp_path_factory, build_dir):
    """Two programs for any number of ranks, of one signature."""
    folder = tmp_path_factory.mktemp("gpt_tied")
    program = Model("gpt_tied", folder).for_ranks(build_dir)
    other = program.with_name("other.mlir")
    text = program.read_text()
    assert "base = " in text
    other.write_text(re.sub(r"base = \S+ :", "base = 5.0e-01 :", text))
    other.with_suffix(".safetensors").symlink_to(program.with_suffix(".safetensors"))
    return program, other


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def torchrun_variables(rank, size, port):
    return {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}  # fmt: skip


def srun_variables(rank, size, port):
    return {"SLURM_PROCID": rank, "SLURM_NTASKS": size, "SLURM_LOCALID": rank,
            "SLURM_JOB_NODELIST": "localhost", "MASTER_PORT": port}  # fmt: skip


def mpirun_variables(rank, size, port):
    return {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": size,
            "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": size,
            "MASTER_PORT": port}  # fmt: skip


VARIABLES = {"torchrun": torchrun_variables, "srun": srun_variables, "mpirun": mpirun_variables}


def start(arguments, variables=None):
    environment = ENVIRONMENT | {n: str(v) for n, v in (variables or {}).items()}
    return subprocess.Popen(
        [str(part) for part in arguments], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@contextlib.contextmanager
def started(*jobs):
    """Processes that are gone at the end, whatever happens: (arguments, variables) each."""
    processes = [start(*job) for job in jobs]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def finish(process, timeout=60):
    """Waits for the end: exit status, output, errors."""
    output, errors = process.communicate(timeout=timeout)
    for trace in ("Stack dump", "Aborted", "terminate called", "Assertion", "Traceback"):
        assert trace not in errors, errors
    return process.returncode, output, errors


def children(process):
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def descendants(pid):
    with contextlib.suppress(FileNotFoundError):
        path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        for child in map(int, path.read_text().split()):
            yield child
            yield from descendants(child)


def wait_until(condition, seconds=60):
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def is_training(metrics):
    return metrics.exists() and metrics.stat().st_size > 0


def exists(pid):
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def train_options(metrics, steps, microbatches=1):
    return ["--steps", steps, "--microbatches", microbatches, "--data", f"text:{TEXT}",
            "--threads", 1, "--metrics", metrics]  # fmt: skip


@pytest.fixture(scope="module")
def one_rank(build_dir, programs, tmp_path_factory):
    """Losses of one rank that runs the microbatches of 2 or 4."""
    metrics = tmp_path_factory.mktemp("one") / "m.jsonl"
    cache = {}

    def get(ranks):
        if ranks not in cache:
            arguments = command(build_dir, programs[0], *train_options(metrics, 5, ranks))
            with started((arguments,)) as (process,):
                assert finish(process)[0] == 0
            cache[ranks] = losses(metrics)
        return cache[ranks]

    return get


def launch(how, ranks, arguments):
    """The jobs that run `arguments` on `ranks` ranks, started in the way `how`."""
    if how in ("processes", "threads"):
        return [(arguments + ["--ranks", ranks, "--ranks-as", how],)]
    if how == "torchrun itself":
        return [([sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node",
                  ranks, "--master-port", free_port(), *arguments],)]  # fmt: skip
    port = free_port()
    return [(arguments, VARIABLES[how](rank, ranks, port)) for rank in range(ranks)]


@pytest.mark.parametrize(
    "case",
    cover({"ranks": [2, 4], "how": ["processes", "threads", "torchrun itself", *VARIABLES]}, strength=1),
    ids=name,
)
def test_every_launcher_trains_alike(build_dir, tmp_path, programs, one_rank, case):
    metrics = tmp_path / "m.jsonl"
    arguments = command(build_dir, programs[0], *train_options(metrics, 5))
    with started(*launch(case["how"], case["ranks"], arguments)) as processes:
        for process in processes:
            status, _, errors = finish(process)
            assert status == 0, errors
    expected = one_rank(case["ranks"])
    assert losses(metrics) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("lost", [0, 2])
def test_killed_rank_is_named_and_nobody_is_left(build_dir, tmp_path, programs, lost):
    metrics = tmp_path / "m.jsonl"
    arguments = command(build_dir, programs[0], *train_options(metrics, ENDLESS), "--ranks", 4)
    with started((arguments,)) as (process,):
        wait_until(lambda: is_training(metrics))
        ranks = children(process)
        assert len(ranks) == 4
        os.kill(ranks[lost], signal.SIGKILL)
        status, _, errors = finish(process, timeout=20)
    assert status == 128 + signal.SIGKILL
    # One line: how the rank ended, and what the first that noticed could not complete.
    assert re.fullmatch(
        rf"error: rank {lost} was killed by signal 9 \(Killed\); "
        rf"rank \d was in .*(all_reduce|all_gather) of .*, operation \d+ of group \"\w+\"\n",
        errors,
    ), errors
    assert not any(map(exists, ranks))


def test_stopped_rank_is_named_within_the_timeout(build_dir, tmp_path, programs):
    metrics = tmp_path / "m.jsonl"
    arguments = command(
        build_dir, programs[0], *train_options(metrics, ENDLESS), "--ranks", 3, "--timeout", 2
    )
    with started((arguments,)) as (process,):
        wait_until(lambda: is_training(metrics))
        ranks = children(process)
        os.kill(ranks[1], signal.SIGSTOP)
        begin = time.monotonic()
        status, _, errors = finish(process, timeout=20)
    assert time.monotonic() - begin < 10
    assert status == PEER_FAILURE
    assert re.fullmatch(
        r"rank \d: error: .* did not complete within 2 s: rank 1 does not respond.*; "
        r"stopped rank 1, still running\n",
        errors,
    ), errors
    assert not any(map(exists, ranks))


def test_survivors_without_a_supervisor_end_and_name_the_lost_rank(build_dir, tmp_path, programs):
    metrics = tmp_path / "m.jsonl"
    arguments = command(build_dir, programs[0], *train_options(metrics, ENDLESS))
    for lost in (0, 1):
        metrics.unlink(missing_ok=True)
        with started(*launch("torchrun", 3, arguments)) as processes:
            wait_until(lambda: is_training(metrics))
            processes[lost].kill()
            for rank, process in enumerate(processes):
                status, _, errors = finish(process, timeout=20)
                if rank == lost:
                    assert status == -signal.SIGKILL
                    continue
                assert status == PEER_FAILURE
                assert f"rank {rank}: error: " in errors
                assert f"rank {lost} is lost: its process has ended" in errors


def test_killed_rank_under_torchrun(build_dir, tmp_path, programs):
    metrics = tmp_path / "m.jsonl"
    arguments = command(build_dir, programs[0], *train_options(metrics, ENDLESS))
    with started(*launch("torchrun itself", 2, arguments)) as (process,):
        wait_until(lambda: is_training(metrics))
        ranks = [
            pid
            for pid in descendants(process.pid)
            if b"cleave-run" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        ]
        assert len(ranks) == 2
        os.kill(ranks[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "rank 0: error: " in errors and "rank 1 is lost: its process has ended" in errors, errors
    assert not any(map(exists, ranks))


def test_different_programs_are_refused_at_the_start(build_dir, tmp_path, programs):
    metrics = tmp_path / "m.jsonl"
    port = free_port()
    jobs = [
        (command(build_dir, programs[rank == 1], *train_options(metrics, ENDLESS)),
         torchrun_variables(rank, 3, port))
        for rank in range(3)
    ]  # fmt: skip
    with started(*jobs) as processes:
        results = [finish(process) for process in processes]
    assert [status for status, _, _ in results] == [1, 1, 1]
    message = results[0][2]
    assert re.search(
        rf"error: the ranks were given different programs: \S*{programs[0].name} \(fingerprint "
        rf"[0-9a-f]+\) on ranks 0, 2; \S*{programs[1].name} \(fingerprint [0-9a-f]+\) on rank 1",
        message,
    ), message
    assert not metrics.exists()


@pytest.mark.parametrize(
    "option, values", [("--microbatches", (1, 2)), ("--seed", (1, 7)), ("--steps", (3, 4))]
)
def test_different_options_are_refused_at_the_start(build_dir, tmp_path, programs, option, values):
    port = free_port()
    jobs = []
    for rank, value in enumerate(values):
        options = train_options(tmp_path / "m.jsonl", 3)
        if option in options:
            options[options.index(option) + 1] = value
        else:
            options += [option, value]
        jobs.append((command(build_dir, programs[0], *options), torchrun_variables(rank, 2, port)))
    with started(*jobs) as processes:
        results = [finish(process) for process in processes]
    assert [status for status, _, _ in results] == [1, 1]
    expected = (
        f"the ranks were started with different values of {option}: {values[0]} on rank 0; "
        f"{values[1]} on rank 1"
    )
    assert expected in results[0][2]


def train_on_two_processors(build_dir, tmp_path, programs, *options):
    """Two ranks, one of which has an older processor as far as LibTorch knows: (status, errors) of each."""
    port = free_port()
    arguments = command(build_dir, programs[0], *train_options(tmp_path / "m.jsonl", 2), *options)
    jobs = [(arguments, torchrun_variables(rank, 2, port) | {"ATEN_CPU_CAPABILITY": instructions})
            for rank, instructions in enumerate(["default", "avx2"])]  # fmt: skip
    with started(*jobs) as processes:
        return [finish(process)[::2] for process in processes]


DIFFERENT_PROCESSORS = "processor instructions of LibTorch: DEFAULT on rank 0; AVX2 on rank 1"


def test_different_processors_are_noted(build_dir, tmp_path, programs):
    (first, note), (second, nothing) = train_on_two_processors(build_dir, tmp_path, programs)
    assert (first, second) == (0, 0)
    assert note == (
        f"note: the ranks' environments differ, so replicated results may differ in their last bits: {DIFFERENT_PROCESSORS}\n"
    )
    assert nothing == ""


def test_different_processors_are_refused_where_bits_are_compared(build_dir, tmp_path, programs):
    results = train_on_two_processors(build_dir, tmp_path, programs, "--check", "replicated")
    assert [status for status, _ in results] == [1, 1]
    assert results[0][1] == (
        f"error: the ranks' environments differ, so --check replicated would report differences that are not errors: {DIFFERENT_PROCESSORS}\n"
    )


def test_environment_is_printed_for_reports(build_dir):
    tool = build_dir / "bin" / "cleave-run"
    with started(([tool, "--environment"], {"RANK": "0", "NCCL_DEBUG": "INFO"})) as (process,):
        status, output, errors = finish(process)
    assert (status, errors) == (0, "")
    facts, variables = output.split("variables\n")
    names = [re.split("  +", line)[0] for line in facts.splitlines()]
    assert names[:4] == ["Cleave", "LibTorch", "device", "processor instructions of LibTorch"]
    assert re.search(r"^LibTorch +2\.11\.0", facts, re.MULTILINE)
    assert re.search(r"^instructions for compiled kernels +x86-64-v[234]$", facts, re.MULTILINE)
    assert "  NCCL_DEBUG=INFO\n" in variables and "  RANK=0\n" in variables
    # What a run would refuse is shown, and does not hide the rest.
    assert "  refused: the environment set by torchrun is not usable: WORLD_SIZE is not set" in variables
    with started(([tool, "--version"],)) as (process,):
        status, output, _ = finish(process)
    assert status == 0 and re.match(
        r"cleave-run 0\.1\.0( \([0-9a-f]{12}\+?\))?\nLibTorch 2\.11\.0\S* in /\S+/lib\n$", output
    ), output


@pytest.mark.parametrize(
    "options, variables, message",
    [
        (["--ranks", 0], {}, "--ranks=0: expected a number of ranks from 1 to 1024"),
        (["--ranks", 2], torchrun_variables(1, 4, "29500"),
         "--ranks=2, but torchrun has already assigned this process rank 1 of 4"),
        (["--ranks", 2, "--timeout", 0], {}, "--timeout: expected more than 0 seconds"),
        ([], {"RANK": 0, "WORLD_SIZE": 2}, "MASTER_ADDR is not set, but WORLD_SIZE=2"),
        ([], {"WORLD_SIZE": 2}, "RANK is not set, but WORLD_SIZE is"),
        ([], {"LOCAL_RANK": 2}, "LOCAL_RANK=2, but RANK and WORLD_SIZE are not set"),
        ([], torchrun_variables(0, 4, "29500") | srun_variables(0, 2, "29500") | {"SLURM_STEP_ID": 0},
         "WORLD_SIZE=4, but SLURM_NTASKS=2: expected the same number, since torchrun did not start "
         "this process"),
        ([], {"SLURM_PROCID": 2, "SLURM_NTASKS": 2, "SLURM_JOB_NODELIST": "n"},
         "SLURM_PROCID=2, but SLURM_NTASKS=2: expected a rank from 0 to 1"),
        (["--timeout", 1], torchrun_variables(0, 2, "0") | {"MASTER_PORT": "77777"},
         "MASTER_PORT=77777: expected a port, 1 to 65535"),
    ],
)  # fmt: skip
def test_bad_launches_are_refused(build_dir, tmp_path, programs, options, variables, message):
    arguments = command(build_dir, programs[0], *train_options(tmp_path / "m.jsonl", 1), *options)
    with started((arguments, variables)) as (process,):
        status, _, errors = finish(process, timeout=20)
    assert status == 1
    assert "error: " in errors and message in errors


def test_rank_that_never_starts_is_named(build_dir, tmp_path, programs):
    arguments = command(
        build_dir, programs[0], *train_options(tmp_path / "m.jsonl", 1), "--timeout", 1
    )
    with started((arguments, torchrun_variables(0, 3, free_port()))) as (process,):
        status, _, errors = finish(process, timeout=20)
    assert status == PEER_FAILURE
    assert "error: ranks 1, 2 of 3 did not join within 1 s" in errors

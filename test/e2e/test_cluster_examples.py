"""examples/torchrun and examples/slurm, run as their READMEs say, on the processor.

Two nodes are two agents of torchrun on this machine, which meet at its c10d rendezvous; or the tasks of a
stand-in for srun (slurm_stand_in/srun), since no SLURM is here.
"""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest
from training import losses, read_metrics
from test_launch import free_port

TEXT = "/usr/share/common-licenses/GPL-3"
SMALL = ["--layers", "2", "--width", "32", "--context", "32", "--microbatches", "2"]
TRAIN = ["--steps", "3", "--data", f"text:{TEXT}", "--threads", "1"]


@pytest.fixture(scope="module")
def environment(build_dir, source_dir):
    """Variables as `./dev env` sets them; of launchers none."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("SLURM_", "OMPI_"))}
    path = [str(build_dir / "bin"), str(source_dir / "test/e2e/slurm_stand_in"), os.environ["PATH"]]
    return kept | {"PATH": os.pathsep.join(path), "PYTHONPATH": str(source_dir / "python"),
                   "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "IFNAME": "lo"}  # fmt: skip


def run(command, environment, timeout=90):
    return subprocess.run(
        [str(part) for part in command], env={n: str(v) for n, v in environment.items()},
        capture_output=True, text=True, timeout=timeout)  # fmt: skip


@pytest.fixture(scope="module")
def make(source_dir, environment, tmp_path_factory):
    """The program of a mesh, by what make_program.py is given; made once."""
    folder = tmp_path_factory.mktemp("programs")
    cache = {}

    def get(**axes):
        name = "-".join(f"{axis}{size}" for axis, size in axes.items()) or "one"
        if name not in cache:
            arguments = [part for axis, size in axes.items() for part in (f"--{axis}", size)]
            result = run([sys.executable, source_dir / "examples/torchrun/make_program.py",
                          *SMALL, *arguments, "--out", folder / name], environment)  # fmt: skip
            assert result.returncode == 0, result.stderr
            suffix = "mlirbc" if "compile" in axes else "mlir"
            assert {p.name for p in folder.glob(f"*{name}*")} == {f"{name}.{suffix}", f"{name}.safetensors"}
            cache[name] = folder / f"{name}.{suffix}"
        return cache[name]

    return get


@pytest.fixture(scope="module")
def one_rank(make, environment, build_dir, tmp_path_factory):
    """Losses of the same training on one rank."""
    metrics = tmp_path_factory.mktemp("one") / "metrics.jsonl"
    result = run([build_dir / "bin/cleave-run", make(), *TRAIN, "--microbatches", 2, "--metrics", metrics],
                 environment)  # fmt: skip
    assert result.returncode == 0, result.stderr
    return losses(metrics)


@contextlib.contextmanager
def agents(script, program, nodes, environment, *options):
    """One torchrun for each node, as a user starts them; killed if they do not end."""
    head = f"localhost:{free_port()}"
    processes = []
    for _ in range(nodes):
        processes.append(subprocess.Popen(
            [str(part) for part in (script, program, *options)], text=True,
            env=environment | {"NNODES": str(nodes), "NPROC_PER_NODE": "1", "HEAD": head,
                               "LOCAL_ADDR": "localhost", "JOB": f"test-{os.getpid()}"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE))  # fmt: skip
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_torchrun_on_two_nodes(source_dir, make, one_rank, environment, tmp_path):
    """Two stages, a node each, have the bits of one rank."""
    metrics = tmp_path / "metrics.jsonl"
    script = source_dir / "examples/torchrun/train.sh"
    with agents(script, make(pp=2), 2, environment, *TRAIN, "--metrics", metrics) as processes:
        for process in processes:
            _, errors = process.communicate(timeout=90)
            assert process.returncode == 0, errors
    assert losses(metrics) == one_rank


def test_torchrun_with_another_program_on_one_node(source_dir, make, environment, tmp_path):
    """Each node reads its own files; ranks that read different ones are refused."""
    script = source_dir / "examples/torchrun/train.sh"
    other = tmp_path / "pp2.mlir"
    other.write_text(make(pp=2).read_text().replace("base = 1.0", "base = 2.0"))
    head = {"NNODES": "2", "NPROC_PER_NODE": "1", "HEAD": f"localhost:{free_port()}", "LOCAL_ADDR": "localhost"}
    processes = [
        subprocess.Popen([script, program, *TRAIN], env=environment | head, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for program in (make(pp=2), other)
    ]  # fmt: skip
    results = [process.communicate(timeout=90)[1] for process in processes]
    assert all(process.returncode for process in processes)
    assert "error: the ranks were given different programs" in "".join(results)


def batch_shell(job, nodes, tasks):
    """What sbatch leaves to the script's shell, on the first node of the job."""
    return {"SLURM_JOB_ID": job, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NNODES": nodes,
            "SLURM_JOB_NODELIST": f"127.0.0.[1-{nodes}]", "SLURM_NTASKS": nodes * tasks,
            "SLURM_NTASKS_PER_NODE": tasks, "SLURM_TASKS_PER_NODE": f"{tasks}(x{nodes})",
            "SLURM_PROCID": 0, "SLURM_LOCALID": 0, "SLURM_NODEID": 0}  # fmt: skip


def test_slurm_on_two_nodes(source_dir, make, one_rank, environment, tmp_path):
    """Two stages, each cut in two: stages on nodes, parts of a stage on one node; compiled."""
    metrics = tmp_path / "metrics.jsonl"
    result = run([source_dir / "examples/slurm/train.sbatch", make(pp=2, tp=2, compile="cpu"), *TRAIN, "--metrics", metrics],
                 environment | batch_shell(os.getpid(), 2, 2))  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert losses(metrics) == pytest.approx(one_rank, rel=1e-5)
    assert len(read_metrics(metrics)) == 3
    # Lines say whose they are; rank 0 reports.
    assert all(line.startswith("0: ") for line in result.stdout.splitlines()), result.stdout


def test_slurm_of_another_size_than_the_program(source_dir, make, environment):
    result = run([source_dir / "examples/slurm/train.sbatch", make(pp=2, tp=2, compile="cpu"), *TRAIN],
                 environment | batch_shell(os.getpid() + 1, 2, 1))  # fmt: skip
    assert result.returncode == 1
    assert "4 ranks" in result.stderr and result.stderr.count("error: ") == 1 + result.stderr.count("srun: error")


@pytest.mark.parametrize("script, arguments, variables, message", [
    ("torchrun/train.sh", [], {}, "usage: train.sh PROGRAM"),
    ("torchrun/train.sh", ["nowhere.mlir"], {}, "found no readable nowhere.mlir"),
    ("torchrun/train.sh", ["/dev/null"], {"NNODES": "2"}, "NNODES=2, but HEAD is not set: expected HOST:PORT"),
    ("slurm/train.sbatch", [], {}, "usage: sbatch train.sbatch PROGRAM"),
])  # fmt: skip
def test_misuse_of_the_scripts(source_dir, environment, script, arguments, variables, message):
    result = run([source_dir / "examples" / script, *arguments], environment | variables)
    assert result.returncode == 1 and message in result.stderr, result.stderr


def test_sizes_of_the_mesh_are_checked(source_dir, environment, tmp_path):
    result = run([sys.executable, source_dir / "examples/torchrun/make_program.py", "--pp", 0,
                  "--out", tmp_path / "x"], environment)  # fmt: skip
    assert result.returncode == 2 and "--pp: expected at least 1, found 0" in result.stderr
    result = run([sys.executable, source_dir / "examples/torchrun/make_program.py", *SMALL, "--tp", 3,
                  "--out", tmp_path / "x"], environment)  # fmt: skip
    assert result.returncode == 1 and "could not make the program" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_scripts_are_clean(source_dir):
    scripts = [*source_dir.glob("examples/torchrun/*.sh"), *source_dir.glob("examples/slurm/*.sbatch")]
    assert len(scripts) == 2
    result = run(["shellcheck", *scripts], os.environ)
    assert result.returncode == 0, result.stdout

"""cleave-opt reads every exported model, and printing it again changes nothing."""

import importlib
import subprocess

import cleave_path  # noqa: F401
import cleave
import huggingface
import pytest
from exported_models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_program_is_a_fixed_point_of_cleave_opt(exported, name, build_dir, tmp_path):
    check_fixed_point(exported(name).path, build_dir, tmp_path)


def check_fixed_point(path, build_dir, tmp_path):
    """The text parses and verifies, and printing it again changes nothing; bytecode too."""

    def opt(source, *options):
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        command = [build_dir / "bin/cleave-opt", source, *options, "-o", out]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[:2000]
        return out

    once = opt(path, "--mlir-print-debuginfo")
    assert opt(once, "--mlir-print-debuginfo").read_bytes() == once.read_bytes()
    assert (
        opt(opt(path, "--emit-bytecode"), "--mlir-print-debuginfo").read_bytes()
        == once.read_bytes()
    )


def test_a_graph_of_seven_thousand_ops(build_dir, tmp_path):
    path = cleave.export_spec(huggingface.llama32(), tmp_path)
    assert path.read_text().count(" = aten.") > 5000
    (tmp_path / "check").mkdir()
    check_fixed_point(path, build_dir, tmp_path / "check")


def test_a_program_of_calls_only(build_dir, tmp_path, monkeypatch):
    operators = importlib.import_module("cleave.export.operators")
    monkeypatch.setattr(operators, "load_typed_ops", dict)
    path = cleave.export_spec(MODELS["gpt_tied"](), tmp_path)
    assert path.read_text().count("aten.call") > 200 and "aten.mm(" not in path.read_text()
    (tmp_path / "check").mkdir()
    check_fixed_point(path, build_dir, tmp_path / "check")

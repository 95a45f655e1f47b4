"""bench/torch_compile.py: a row for each model whatever happens, rows that are there are kept, and the page."""

import json
import os
import sys
import time

import cleave_path
import pytest

sys.path.append(str(cleave_path.SOURCE / "bench"))
import torch_compile as bench  # noqa: E402


def part(**more):
    return {"accuracy": "bitwise", "compile": 1.5, "step": 0.002, "speed": 2.0, **more}


def row(model, **backends):
    return {"model": model, "rows": {"eager": {"step": 0.004, "speed": 1.0}, **backends}, "draws": True, "float64": True}


def by_cleave(model):
    return row(model, **{"cleave": part(), "cleave-kernels": part(accuracy="same")})


def run(monkeypatch, capsys, *options):
    monkeypatch.setattr(sys, "argv", ["torch_compile.py", *map(str, options)])
    bench.main()
    return capsys.readouterr().out


def test_what_happens_to_a_model_is_its_row(monkeypatch, capsys, tmp_path):
    def measure(name, backends, rounds, compiles_once):
        if name == "T5Small":
            raise RuntimeError("no such thing\nat all")
        if name == "GoogleFnet":
            time.sleep(60)
        if name == "ghostnet_100":
            os._exit(9)
        return by_cleave(name)

    monkeypatch.setattr(bench, "measure", measure)
    log, names = tmp_path / "log.jsonl", ["T5Small", "GoogleFnet", "ghostnet_100", "BertForMaskedLM"]
    options = ["--models", ",".join(names), "--backends", "cleave,cleave-kernels", "--limit", 1, "--log", log]
    text = run(monkeypatch, capsys, *options)
    assert "| T5Small |  | RuntimeError: no such thing |" in text
    assert "| GoogleFnet |  | not finished after 1 s |" in text
    assert "| ghostnet_100 |  | its process ended with status 9 |" in text
    assert "| BertForMaskedLM | 4.0 | bitwise | 1.5 | 2.00 | same | 1.5 | 2.00 |" in text
    assert "- cleave: 3 not measured, 1 bitwise; speed 2.00 (geometric mean)" in text
    assert [json.loads(line)["model"] for line in log.read_text().splitlines()] == names

    # What is there is not run again, but for back ends that it lacks.
    monkeypatch.setattr(bench, "measure", lambda name, backends, rounds, compiles_once: row(name, inductor=part(accuracy="same")))
    assert run(monkeypatch, capsys, *options).count("| BertForMaskedLM |") == 1
    assert len(log.read_text().splitlines()) == 4
    options[3] = "inductor"
    run(monkeypatch, capsys, *options)
    assert [json.loads(line)["model"] for line in log.read_text().splitlines()] == [*names, "BertForMaskedLM"]


def test_the_page(monkeypatch, capsys, tmp_path):
    log = tmp_path / "log.jsonl"
    cuts = {"cleave": 2, "pytorch": 1, "other nodes": 0}
    both = row("deit_tiny_patch16_224.fb_in1k", **{"inductor": part(), "inductor-min-cut": part(as_inductor=True, cuts=cuts)})
    left = row("T5Small", **{"cleave": part(left=2, why="an | op"), "cleave-kernels": {"accuracy": "fails", "why": "E: x"}})
    rows = [by_cleave("BertForMaskedLM"), left, {"model": "GoogleFnet", "failed": "not finished after 1 s"}, both]
    log.write_text("".join(json.dumps(each) + "\n" for each in rows))
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "page.md")
    run(monkeypatch, capsys, "--log", log, "--write", "--machine", "A quiet machine")
    page = (tmp_path / "page.md").read_text()
    assert "A quiet machine, " in page and "torch 2." in page
    assert "| T5Small | 4.0 | bitwise, 2 graphs by PyTorch: an \\| op | 1.5 | 2.00 |\n" in page
    assert "| T5Small | 4.0 | bitwise, 2 graphs by PyTorch: an \\| op | 1.5 | 2.00 | fails: E: x |  |  |\n" in page
    assert "| GoogleFnet |  | not finished after 1 s |" in page
    assert "Not run: AlbertForMaskedLM, " in page
    assert "## Beside Inductor" not in page
    assert "| deit_tiny_patch16_224.fb_in1k | 4.0 | bitwise | 1.5 | 2.00 | bitwise, inductor's bits, 2 cuts by cleave, 1 by PyTorch | 1.5 | 2.00 |" in page


@pytest.mark.parametrize("options", [("--models", "NoSuchModel"), ("--backends", "tvm")])
def test_unknown_names_are_refused(options, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, capsys, *options)
    assert "unknown" in capsys.readouterr().err

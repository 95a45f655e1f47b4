"""Llama 3 405B as bench/large_models.py lays it out, of four layers: each phase runs, and ranks hold what is published."""

import dataclasses
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import large_models  # noqa: E402

LAYERS = 4
WIDTH, HIDDEN, KEYS, VOCABULARY = 16384, 53248, 8 * 128, 128256
MATRICES = LAYERS * (2 * WIDTH * WIDTH + 2 * WIDTH * KEYS + 3 * WIDTH * HIDDEN) + 2 * VOCABULARY * WIDTH
NORMS = (2 * LAYERS + 1) * WIDTH


@pytest.mark.parametrize("name", ["llama3-405b", "llama3-405b-long"])
def test_published_layouts(name, build_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    model = dataclasses.replace(large_models.MODELS[name], stages=2)
    monkeypatch.setitem(large_models.MODELS, name, model)
    found = large_models.measure(name, LAYERS, build_dir, tmp_path)
    assert not found.failure
    assert all(processor < 30 and peak < 2**33 for _, processor, peak in found.phases.values())
    assert found.launches > found.kernels > 10

    # Two stages on each of two ranks of the pipeline. Norms are whole on the ranks of `tp`, which the sequence is sharded over.
    assert len(found.ranks) == 2 == model.chunks
    tensor = model.mesh["tp"]
    replicas = model.mesh["dp"] * model.mesh.get("cp", 1)
    elements = MATRICES / tensor + NORMS
    assert sum(rank["parameters"] for rank in found.ranks) == pytest.approx(2 * elements / replicas, rel=1e-3)
    assert sum(rank["optimizer state"] for rank in found.ranks) == pytest.approx(4 * elements / replicas, rel=1e-3)
    # In f32, of whole parameters, until a step's last microbatch; then each rank's shard of the sums beside them.
    in_buckets = 4 * elements * (1 + 1 / replicas)
    assert sum(rank["of these in buckets"] for rank in found.ranks) == pytest.approx(in_buckets, rel=1e-3)
    assert all(rank["flops"] > 0 and rank["sent"] > 0 for rank in found.ranks)

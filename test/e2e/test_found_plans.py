"""cleave-plan on models that Cleave did not write: what it finds for four devices trains as one rank does, and is proved.
These are models of which a bound was wrong, a plan refused, or no proof found; docs/models.md has all models on two
devices."""

import json
import subprocess

import float64
import found_plans
import hugging_face
import model_table
import other_models
import pytest
import timm_models
import torchtitan_models
from combinations_cover import part_of_today
from matrix_runs import Tools

CASES = [
    # Products in batches by example and head, which ranks with one example each need not gather.
    (hugging_face, "GPTNeoForCausalLM", "dp=2,tp=2,parameters=fsdp"),
    (hugging_face, "GPTNeoForCausalLM", "dp=2,tp=2,sequence=yes,parameters=zero1"),
    # Decoders that take an encoder's values: which layer has a part of a weight's gradient depends on bytes.
    (hugging_face, "T5Small", "dp=2,cp=2,parameters=fsdp,recompute=full"),
    # No layers.
    (hugging_face, "AlbertForMaskedLM", "dp=2,tp=2,parameters=fsdp"),
    # A head with five classes; parameters of one name in stages of several widths; branches that cross stages.
    (timm_models, "vit_base_patch16_siglip_256", "dp=2,tp=2"),
    (other_models, "coatnet_nano_rw_224", "dp=2,pp=2,parameters=zero1,recompute=cheap"),
    (other_models, "hrnet_w18_small", "dp=2,pp=2,recompute=cheap"),
    # A table that is joined with another one, which is empty, before a bias is added.
    (hugging_face, "MobileBertForMaskedLM", "dp=2,tp=2,sequence=yes,parameters=zero1"),
    # Copies that there are none of with one example.
    (timm_models, "repvgg_a2", "dp=2,pp=2,recompute=cheap"),
]


def name_of(value):
    return value if isinstance(value, str) else value.__name__


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("models,name,fixed", part_of_today(CASES), ids=name_of)
def test_plans_of_other_models(build_dir, tmp_path, models, name, fixed):
    subject = model_table.Subject(models.make, name, tmp_path, Tools(build_dir, model_table.LIMIT))
    model_table.train_on_one_rank(subject)
    folder = tmp_path / "a plan"  # commands quote their paths
    distance, where = found_plans.train(subject.tools, subject.training, folder, 4, fixed)
    assert distance <= subject.training.bound, where


# Several examples on each rank: heads of keys that `tp` does not divide are exchanged, or summed up and scattered. One on each:
# a shape along two axes, which nothing but a shape says the order of.
LARGER = [("mistralai/Mistral-7B-Instruct-v0.3", "dp=2,tp=2,parameters=fsdp"), ("T5Small", "dp=4,replicas=2,parameters=fsdp")]


@pytest.mark.parametrize("name,fixed", part_of_today(LARGER), ids=name_of)
def test_plans_of_larger_batches(build_dir, tmp_path, monkeypatch, name, fixed):
    monkeypatch.setattr(hugging_face, "BATCH", 4)
    subject = model_table.Subject(hugging_face.make, name, tmp_path, Tools(build_dir, model_table.LIMIT))
    model_table.train_on_one_rank(subject)
    distance, where = found_plans.train(subject.tools, subject.training, tmp_path / "plan", 4, fixed)
    assert distance <= subject.training.bound, where


def test_scales_of_layers_and_shards_of_the_sequence(build_dir, tmp_path, monkeypatch):
    """BEiT's layers have vectors of their own, its attention biases that are joined, and its last norm no sequence. Of images
    of nine patches it has ten tokens."""
    name, size = "beit_base_patch16_224", 48
    monkeypatch.setitem(timm_models.MODELS, name, (size, timm_models.MODELS[name][1] | {"img_size": size}))
    subject = model_table.Subject(timm_models.make, name, tmp_path, Tools(build_dir, model_table.LIMIT))
    model_table.train_on_one_rank(subject)
    distance, where = found_plans.train(subject.tools, subject.training, tmp_path / "plan", 2, "tp=2,sequence=yes")
    assert distance <= subject.training.bound, where


# A table with a padding row over `tp`; draws in the memory order of what is awaited; heads of queries that share one of
# keys, round a ring; places counted by a mask, over `cp`; shares that are dropped; two heads over four ranks, each with half of
# a head's columns.
PROVED = [
    (hugging_face, "OPTForCausalLM", "dp=2,tp=2,parameters=fsdp"),
    (hugging_face, "BartForConditionalGeneration", "dp=2,tp=2,sequence=yes,parameters=zero1"),
    (hugging_face, "DistillGPT2", "tp=2,pp=2,recompute=full"),
    (hugging_face, "T5Small", "tp=2,pp=2,recompute=full"),
    (torchtitan_models, "llama3", "dp=2,cp=2,parameters=fsdp"),
    (hugging_face, "AllenaiLongformerBase", "cp=2,pp=2,recompute=cheap"),
    (hugging_face, "YituTechConvBert", "cp=2,pp=2,recompute=cheap"),
    (other_models, "GPTNeoX", "tp=4"),
    (timm_models, "deit_base_distilled_patch16_224", "tp=4"),
]


@pytest.mark.parametrize("models,name,fixed", part_of_today(PROVED), ids=name_of)
def test_plans_are_proved(build_dir, tmp_path, models, name, fixed):
    tools = Tools(build_dir, model_table.LIMIT)
    program = float64.export(float64.doubled(models.make(name)), tmp_path)
    found = found_plans.find(tools, program, tmp_path / "plan", 4, fixed)
    found_plans.run(tools, found["commands"][0])
    command = [build_dir / "bin" / "cleave-prove", program, tmp_path / "plan" / "program.mlir", "--json"]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=300).stdout)
    assert answer["answer"] == "proved", answer

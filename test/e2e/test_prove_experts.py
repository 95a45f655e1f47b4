"""Experts whose rows ranks exchange: that a rank computes what one device does is proved, and with errors in it is not.

A mutant that is proved all the same is run on all ranks, in float64, and equal.
"""

import random
import re
import subprocess

import pytest
from cleave import FSDP, HSDP, ColwiseParallel, DataParallel, ExpertParallel, RowwiseParallel, SequenceParallel, Shard
from combinations_cover import run_all, seed
from test_expert_exchange import EXPERTS, REPLICAS, SHARDED, exported, lay_out  # noqa: F401

LIMIT = "--time-limit=20"

OSS = "model.layers.*.mlp.experts"
# The model, a mesh, the axis of its experts, and the rest of the plan.
LAYOUTS = {
    "deepseek_v3 on 4": ("deepseek_v3", {"dp": 4}, "dp", [("", FSDP("dp"))]),
    "deepseek_v3 on 2 x 2": ("deepseek_v3", REPLICAS, "ep", SHARDED),
    "qwen3_moe on 4": ("qwen3_moe", {"dp": 4}, "dp", [("", FSDP("dp"))]),
    "qwen3_moe on 2 x 2": ("qwen3_moe", REPLICAS, "ep", SHARDED),
    # Scores come to their rows from the rank's part of all rows in order.
    "llama4 on 2": ("llama4", {"dp": 2}, "dp", [("", FSDP("dp"))]),
    # Two heads of keys on four ranks cut their axis; and a rank has one expert.
    "llama4 on 4": ("llama4", {"dp": 4}, "dp", [("", FSDP("dp"))]),
    "llama4 on 4, parameters whole": ("llama4", {"dp": 4}, "dp", [("", DataParallel("dp"))]),
    # Scores are put, and taken, at numbers of all ranks' rows.
    "llama4 on 2 x 2": ("llama4", REPLICAS, "ep", SHARDED),
    "llama4 on 2 x 2, parameters whole": ("llama4", REPLICAS, "ep", [("", DataParallel("dp")), ("", DataParallel("ep"))]),
    # Experts' biases are rows of a table.
    "gpt_oss on 4": ("gpt_oss, four sequences", {"dp": 4}, "dp", [("", FSDP("dp"))]),
    "gpt_oss on 2 x 2": ("gpt_oss, four sequences", REPLICAS, "ep", SHARDED),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_that_ranks_exchange_are_proved(layout, exported, build_dir, prove, tmp_path):  # noqa: F811
    name, mesh, axis, rest = LAYOUTS[layout]
    _, path, _ = exported(name)
    experts = OSS if name.startswith("gpt_oss") else EXPERTS
    local = lay_out(build_dir, path, mesh, [(experts, ExpertParallel(axis)), *rest], tmp_path)
    assert "dist.ragged_all_to_all" in local.read_text()
    answer = prove(path, local, f"--log={tmp_path / 'log'}")
    assert answer["answer"] == "proved" and "assumptions" not in answer and "note" not in answer, answer


# Of experts that are modules scores' gradients go to the parts of all rows in order that ranks have.
MODULES = {
    "transformers_qwen3": "model.layers.*.mlp.experts",
    # A part of 3 times 16 rows on 2 ranks begins inside of the second 16.
    "mixtral": "model.layers.*.block_sparse_moe.experts",
    "mixtral, two of four": "model.layers.*.block_sparse_moe.experts",
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("capacity", [1.5, 2])
def test_exchanged_rows_of_experts_that_are_modules_are_proved(name, capacity, exported, build_dir, prove, tmp_path):  # noqa: F811
    _, path, _ = exported(name)
    plan = [(MODULES[name], ExpertParallel("dp", capacity)), ("", FSDP("dp"))]
    local = lay_out(build_dir, path, {"dp": 2}, plan, tmp_path)
    text = local.read_text()
    assert "dist.ragged_all_to_all" in text
    # With a capacity of 2 there is room for all rows.
    answer = prove(path, local, *["--assume=room-for-rows"] * (capacity < 2))
    assert answer["answer"] == "proved" and ("assumptions" in answer) == (capacity < 2), answer
    # Rows that come back by another count, and numbers by another room.
    for wrong, other in (
        (r"(ragged_all_to_all\(%\d+), (%\d+), (%\d+)(?=.*train.backward.*-> tensor<(?:16|24)x1x)", r"\1, \3, \2"),
        (r"(aten\.remainder_scalar\(%\d+, other = )(\d+)(?=.*train.backward)", r"\g<1>5"),
    ):
        changed, count = re.subn(wrong, other, text, count=1)
        assert count == 1
        (tmp_path / "wrong.mlir").write_text(changed)
        answer = prove(path, tmp_path / "wrong.mlir", "--assume=room-for-rows")
        assert answer["answer"] == "unknown", answer


def test_exchanged_rows_of_experts_that_are_divided_within(exported, build_dir, prove, tmp_path):  # noqa: F811
    """Rows lie alike on the ranks that divide each expert, which add up what they make of them."""
    _, path, _ = exported("mixtral")
    experts = MODULES["mixtral"]
    plan = [(experts, ExpertParallel("ep", 2)), (f"{experts}.*.w1", ColwiseParallel("tp")), (f"{experts}.*.w3", ColwiseParallel("tp")),
            (f"{experts}.*.w2", RowwiseParallel("tp")), ("", DataParallel("ep"))]  # fmt: skip
    local = lay_out(build_dir, path, {"ep": 2, "tp": 2}, plan, tmp_path)
    text = local.read_text()
    assert "dist.ragged_all_to_all" in text
    answer = prove(path, local)
    assert answer["answer"] == "proved" and "assumptions" not in answer, answer
    # What ranks make of rows is added up along the axis that rows go along, not at all, twice, or is the largest.
    summed = r'(?m)^(.*dist\.all_reduce) sum\((%\d+)\) over @mesh \["tp"\] : (tensor<\d+x16xf64, #V_ep_P_tp>|tensor<\d+x16xf64, #S0_ep_P_tp>) -> .*$'
    found = [each for each in re.finditer(summed, text)]
    assert found
    for each in found:
        line = each[0]
        for wrong in (line.replace('["tp"]', '["ep"]'), line.replace(" sum(", " max("), line.replace(" sum(", " avg("),
                      line.replace(" sum(", " premul_sum<2.000000e+00>(")):  # fmt: skip
            assert wrong != line
            (tmp_path / "wrong.mlir").write_text(text[: each.start()] + wrong + text[each.end() :])
            answer = prove(path, tmp_path / "wrong.mlir", expect=(1, 2, 3))
            assert answer["answer"] != "proved", (wrong, answer)


# Without an exchange ranks gather the rows, and each multiplies its part of them in the experts' order.
GATHERED = {
    "deepseek_v3, replicas": ("deepseek_v3", {"dp": 2}, [("", DataParallel("dp"))]),
    "deepseek_v3, sharded": ("deepseek_v3", {"dp": 4}, [("", FSDP("dp"))]),
    "qwen3_moe, sharded twice": ("qwen3_moe", REPLICAS, SHARDED),
    "llama4, replicas": ("llama4", {"dp": 2}, [("", DataParallel("dp"))]),
    "llama4, sharded": ("llama4", {"dp": 4}, [("", FSDP("dp"))]),
}


def prove_without_exchange(layout, op, exported, build_dir, prove, folder):  # noqa: F811
    """Proves a layout whose ranks exchange no rows, but have this op: the model's program, and the text of a rank's."""
    name, mesh, plan = layout
    _, path, _ = exported(name)
    local = lay_out(build_dir, path, mesh, plan, folder)
    text = local.read_text()
    assert "ragged_all_to_all" not in text and op in text and "aten._grouped_mm" in text
    answer = prove(path, local, f"--log={folder / 'log'}")
    assert answer["answer"] == "proved" and "assumptions" not in answer, answer
    return path, text


@pytest.mark.parametrize("layout", GATHERED)
def test_rows_that_ranks_gather_are_proved(layout, exported, build_dir, prove, tmp_path):  # noqa: F811
    path, text = prove_without_exchange(GATHERED[layout], "aten.clamp", exported, build_dir, prove, tmp_path)
    # Groups that end a row too early, and parts that begin too early.
    for wrong in (r"(aten\.clamp\(%\d+, min = 0, max = )(\d+)", r"(aten\.mul_scalar\(%\d+, other = )(\d+)(?=\) : \(tensor<i64)"):
        found = re.search(wrong, text)
        changed = tmp_path / "wrong.mlir"
        changed.write_text(text[: found.start(2)] + str(int(found[2]) - 1) + text[found.end(2) :])
        answer = prove(path, changed)
        assert answer["answer"] == "unknown", answer


# Ranks that have all rows, or a part of them beside it, and some experts each turn the rows until their own come first.
TURNED = {
    "deepseek_v3 on 2": ("deepseek_v3", {"ep": 2}, [(EXPERTS, ExpertParallel("ep"))]),
    "deepseek_v3, replicas": ("deepseek_v3", {"dp": 2, "ep": 2}, [(EXPERTS, ExpertParallel("ep")), ("", DataParallel("dp"))]),
    "qwen3_moe on 4, sharded": ("qwen3_moe", {"dp": 2, "ep": 4}, [(EXPERTS, ExpertParallel("ep")), ("", FSDP("dp"))]),
    "llama4 on 2": ("llama4", {"ep": 2}, [(EXPERTS, ExpertParallel("ep"))]),
    # All ranks have the experts' biases, which the first one alone adds to its terms.
    "gpt_oss on 2": ("gpt_oss", {"ep": 2}, [(OSS, ExpertParallel("ep"))]),
    "gpt_oss, replicas": ("gpt_oss", {"dp": 2, "ep": 2}, [(OSS, ExpertParallel("ep")), ("", DataParallel("dp"))]),
    # Where the batch is divided among the experts' ranks these gather the rows: two rows of a token are no fewer than the ranks,
    # or their axis is not the last one of the batch.
    "deepseek_v3, gathered": ("deepseek_v3", {"dp": 2}, [(EXPERTS, ExpertParallel("dp")), ("", FSDP("dp"))]),
    "qwen3_moe, gathered": ("qwen3_moe", {"ep": 2, "dp": 2}, [(EXPERTS, ExpertParallel("ep")), ("", FSDP("dp")), ("", FSDP("ep"))]),
    "qwen3_moe, another order": ("qwen3_moe", REPLICAS, [(EXPERTS, ExpertParallel("ep")), ("", FSDP("ep")), ("", FSDP("dp"))]),
}
# What goes wrong where rows are turned: the rank's first expert, the way back, where zeros begin, and what they are.
TURNED_WRONG = {
    "the first expert of a rank": (r"(aten\.mul_scalar\(%\d+, other = )(\d+)(?=\) : \(tensor<i64)", lambda found: f"{found[1]}{int(found[2]) - 1}"),
    "turned on": (r"aten\.sub\(%\w+, %\w+\)(?= : \(tensor<\d+xi64[^>]*>, tensor<1xi32)", lambda found: found[0].replace("sub", "add")),
    "turned by a place less": (r"(aten\.remainder_scalar\(%\d+, other = )(\d+)", lambda found: f"{found[1]}{int(found[2]) - 1}"),
    "zeros in the own rows": (r"aten\.ge\((?=.*tensor<1xi32)", lambda found: "aten.lt("),
    "no zeros": (r"(aten\.masked_fill_scalar\(%\w+, %\w+, value = )0(?=\.0)", lambda found: f"{found[1]}1"),
}  # fmt: skip


@pytest.mark.parametrize("layout", TURNED)
def test_rows_that_ranks_turn_are_proved(layout, exported, build_dir, prove, tmp_path):  # noqa: F811
    path, text = prove_without_exchange(TURNED[layout], "aten.remainder_scalar", exported, build_dir, prove, tmp_path)
    for error, (wrong, other) in TURNED_WRONG.items():
        changed, count = re.subn(wrong, other, text, count=1)
        assert count == 1, error
        (tmp_path / "wrong.mlir").write_text(changed)
        answer = prove(path, tmp_path / "wrong.mlir")
        assert answer["answer"] == "unknown", (error, answer)


def test_biases_of_turned_rows_are_added_once(exported, build_dir, prove, tmp_path):  # noqa: F811
    path, text = prove_without_exchange(TURNED["gpt_oss on 2"], "dist.convert", exported, build_dir, prove, tmp_path)
    biases = r"(?m)(?P<rows>%\w+) = aten\.index\(.*\n.*(?P<made>dist\.convert) (?P=rows) : tensor<32x16xf64, #R_ep> -> tensor<32x16xf64, #P_ep>$"
    found = list(re.finditer(biases, text))
    assert len(found) == 2
    for each in found:
        (tmp_path / "wrong.mlir").write_text(text[: each.start("made")] + "dist.reinterpret" + text[each.end("made") :])
        answer = prove(path, tmp_path / "wrong.mlir")
        assert answer["answer"] == "unknown", answer


# What divides DeepSeek-V3 along `tp`, and the sequence between the divided modules.
LATENTS = [
    ("tok_embeddings", RowwiseParallel("tp")), ("output", ColwiseParallel("tp")),
    *((f"layers.*.attention.{name}", ColwiseParallel("tp")) for name in ("wq_b", "wkv_b")), ("layers.*.attention.wo", RowwiseParallel("tp")),
    *((f"layers.*.{part}.{name}", style("tp")) for part in ("feed_forward", "moe.shared_experts")
      for name, style in (("w1", ColwiseParallel), ("w3", ColwiseParallel), ("w2", RowwiseParallel))),
    *((f"layers.*.moe.experts.{name}", {"tp": Shard(dim)}) for name, dim in (("w1", 1), ("w3", 1), ("w2", 2))),
    *((name, SequenceParallel("tp", dim=1)) for name in ("layers.*.attention_norm", "layers.*.ffn_norm", "norm")),
]  # fmt: skip


def test_exchanged_rows_beside_a_sequence_in_parts(exported, build_dir, prove, tmp_path):  # noqa: F811
    """Gradients of rotated keys, which all heads share, are terms of a sum while they are complex numbers."""
    _, path, _ = exported("deepseek_v3")
    plan = [(EXPERTS, ExpertParallel("ep", 2)), *LATENTS, ("", DataParallel("ep"))]
    local = lay_out(build_dir, path, {"ep": 2, "tp": 2}, plan, tmp_path)
    text = local.read_text()
    assert "dist.ragged_all_to_all" in text and re.search(r"complex<f64>, #\w*P_tp>", text)
    answer = prove(path, local)
    assert answer["answer"] == "proved" and "assumptions" not in answer, answer
    # Rotated on instead of back, and only the parts of numbers.
    for wrong, other in ((r"aten\.conj_physical\((%\w+)\)", r"aten.clone(\1)"), (r"aten\.mul\((?=.*complex<f64>, #\w*P_tp>$)", "aten.sub(")):
        lines = text.splitlines()
        i = max(i for i, line in enumerate(lines) if re.search(wrong, line))
        lines[i] = re.sub(wrong, other, lines[i])
        (tmp_path / "wrong.mlir").write_text("\n".join(lines) + "\n")
        answer = prove(path, tmp_path / "wrong.mlir", expect=(2, 3))
        assert answer["answer"] != "proved", (wrong, answer)


def in_flight(found):
    """The exchange begun, and waited for."""
    space, name, op = found.groups()
    # Of one operand the type is its result's, too.
    begun, _, made = op.rpartition(" -> ") if " -> " in op else (op, "", op.rpartition(" : ")[2])
    return f"{space}%begun_{name} = {begun} -> !dist.future<{made}>\n{space}%{name} = dist.wait %begun_{name} : {made}"


def test_stages_of_experts_whose_exchanges_are_in_flight(exported, build_dir, prove, tmp_path):  # noqa: F811
    _, path, _ = exported("deepseek_v3")
    stages = ["--outline-stages=count=2 balance=cost recompute=all", "--split-fsdp-collectives"]
    local = lay_out(build_dir, path, {"dp": 4}, [(EXPERTS, ExpertParallel("dp")), ("", FSDP("dp"))], tmp_path, *stages)
    text, count = re.subn(r"(?m)^( *)%(\w+) = (dist\.\w*all_to_all\(.*)$", in_flight, local.read_text())
    assert count > 8
    local.write_text(text)
    answer = prove(path, local)
    assert answer["answer"] == "proved", answer


def test_a_capacity_is_assumed_to_suffice(exported, build_dir, prove, tmp_path):  # noqa: F811
    _, path, _ = exported("deepseek_v3")
    local = lay_out(build_dir, path, {"dp": 2}, [(EXPERTS, ExpertParallel("dp", 1.5)), ("", FSDP("dp"))], tmp_path)
    answer = prove(path, local)
    assert answer["answer"] == "unknown"
    assert "a rank has room for 48 of the 64 rows that may come to it, and a run in which more do ends" in answer["note"]
    answer = prove(path, local, "--assume=room-for-rows")
    assert answer["answer"] == "proved" and answer["assumptions"] == ["room-for-rows"] and "note" not in answer, answer
    text = subprocess.run(
        [build_dir / "bin/cleave-prove", path, local, "--assume=room-for-rows", "--execute=false"], capture_output=True, text=True
    ).stdout
    assert re.fullmatch(r"proved: \d+ results, if no rank receives more rows than it has room for\n", text)


# With a capacity: the model, its experts, a mesh, their axis, and the rest of the plan.
CAPACITIES = {
    "llama4 on 4": ("llama4", EXPERTS, {"dp": 4}, "dp", [("", FSDP("dp"))]),
    "llama4 on 2 x 2": ("llama4", EXPERTS, REPLICAS, "ep", [("", HSDP("dp", "ep"))]),
    "gpt_oss on 2": ("gpt_oss", OSS, {"dp": 2}, "dp", [("", FSDP("dp"))]),
    "gpt_oss on 2 x 2": ("gpt_oss, four sequences", OSS, REPLICAS, "ep", SHARDED),
}


@pytest.mark.parametrize("layout", CAPACITIES)
def test_rows_are_exchanged_with_a_capacity(layout, exported, build_dir, prove, tmp_path):  # noqa: F811
    name, experts, mesh, axis, rest = CAPACITIES[layout]
    _, path, _ = exported(name)
    local = lay_out(build_dir, path, mesh, [(experts, ExpertParallel(axis, 1.5)), *rest], tmp_path)
    assert prove(path, local)["answer"] == "unknown"
    answer = prove(path, local, "--assume=room-for-rows")
    assert answer["answer"] == "proved" and answer["assumptions"] == ["room-for-rows"], answer


@pytest.fixture(scope="module")
def biased(exported, build_dir, tmp_path_factory):  # noqa: F811
    """The same as `local`, of experts with a bias on 2 ranks, with room for all rows."""
    _, path, inputs = exported("gpt_oss")
    plan = [(OSS, ExpertParallel("dp", 2)), ("", FSDP("dp"))]
    made = lay_out(build_dir, path, {"dp": 2}, plan, tmp_path_factory.mktemp("biased"))
    return path, inputs, made.read_text().splitlines()


# What goes wrong where no row lies: there the first expert's bias is read, and added to.
BIASED = {
    "another number where no row lies": (
        r"(masked_fill_scalar\(.*value = )0(\.0+e\+00\) \{train\.backward\}.*-> tensor<32x32xf64)", r"\g<1>1\2"),
    "zeros in columns": (
        r"(aten\.unsqueeze\(%\d+, dim = )1(\) \{train\.backward\} : \(tensor<32xi1.* -> tensor<)32x1(xi1.*\n.*masked_fill.*tensor<32x32xf64.*, tensor<)32x1xi1",
        r"\g<1>0\g<2>1x32\g<3>1x32xi1"),
}  # fmt: skip


@pytest.mark.parametrize("error", BIASED)
def test_errors_with_biases_are_not_proved(error, biased, prove, tmp_path):
    path, _, lines = biased
    pattern, replacement = BIASED[error]
    changed, count = re.subn(pattern, replacement, "\n".join(lines) + "\n", count=1)
    assert count == 1
    (tmp_path / "wrong.mlir").write_text(changed)
    answer = prove(path, tmp_path / "wrong.mlir")
    assert answer["answer"] == "unknown", answer


def test_room_is_assumed_where_an_exchange_needs_it(exported, build_dir, prove, tmp_path):  # noqa: F811
    """Numbers that overflow parts which are smaller than what ranks receive."""
    _, path, _ = exported("deepseek_v3")
    local = lay_out(build_dir, path, {"dp": 2}, [(EXPERTS, ExpertParallel("dp", 1.5)), ("", FSDP("dp"))], tmp_path)
    text = local.read_text()
    smaller = re.sub(r"\bother = 48\b", "other = 40", re.sub(r"\bother = 96\b", "other = 80", text))
    assert smaller.count("other = 40") > 4
    local.write_text(smaller)
    answer = prove(path, local, "--assume=room-for-rows")
    assert answer["answer"] == "unknown", answer


@pytest.fixture(scope="module")
def local(exported, build_dir, tmp_path_factory):  # noqa: F811
    """A program and its inputs, and the lines of that of a rank on 2 x 2 ranks."""
    name, mesh, axis, rest = LAYOUTS["deepseek_v3 on 2 x 2"]
    _, path, inputs = exported(name)
    made = lay_out(build_dir, path, mesh, [(EXPERTS, ExpertParallel(axis)), *rest], tmp_path_factory.mktemp("local"))
    return path, inputs, made.read_text().splitlines()


def change(lines, pattern, replacement, number=0):
    """The lines with one of those that match changed."""
    found = [i for i, line in enumerate(lines) if re.search(pattern, line)]
    changed = list(lines)
    changed[found[number]] = re.sub(pattern, replacement, lines[found[number]], count=1)
    assert changed != lines
    return changed


INDICES = r"(index_put\(%\d+, \[)%indices_\d+(\].*tensor<16xi64)"
# What goes wrong in programs with experts: a rank's first expert, the way back, counts, the order of rows.
KNOWN = {
    "the first expert of a rank": (r"(aten\.mul_scalar\(%\d+, other = )4(\) : \(tensor<i64.*)", r"\g<1>3\2"),
    "rows go back the way they came": (r"(ragged_all_to_all\(%\d+), (%\d+), (%\d+)(.*tensor<32x32.*-> tensor<16x32)", r"\1, \3, \2\4"),
    "rows are sent by what is received": (r"(ragged_all_to_all\(%\d+), (%\d+), (%\d+)(.*tensor<16x32.*-> tensor<32x32)", r"\1, \3, \2\4"),
    "counts of all ranks twice": (r"(dist\.all_reduce) sum(.* tensor<1x8xi64)", r"\1 premul_sum<2.000000e+00>\2"),
    "counts of the most loaded rank": (r"(dist\.all_reduce) sum(.* tensor<1x8xi64)", r"\1 max\2"),
    "counts of one's own": (r"(aten\.sum)\((%\d+)\)(.*tensor<2xi64.*-> tensor<i64)", r"\1(%344)\3"),
    "rows are put back by another order": (INDICES, r"\g<1>%indices_5\2"),
    "the part of a row": (r"(aten\.floor_divide_scalar\(%\d+, other = )32(\) : \(tensor<16xi64)", r"\g<1>16\2"),
    "the place of a row": (r"(aten\.remainder_scalar\(%\d+, other = )32(\) : \(tensor<16xi64)", r"\g<1>16\2"),
    "replicas are not told apart": (r'(dist\.axis_index over @mesh) \["dp", "ep"\]', r'\1 ["ep", "dp"]'),
}  # fmt: skip


@pytest.mark.parametrize("error", KNOWN)
def test_known_errors_are_not_proved(error, local, prove, tmp_path):
    path, _, lines = local
    pattern, replacement = KNOWN[error]
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text("\n".join(change(lines, pattern, replacement)) + "\n")
    answer = prove(path, wrong, expect=(2, 3))
    assert answer["answer"] != "proved", answer


def list_mutants(lines):
    """Small changes of the ops from the first sort to the last exchange or product by group: (line, text)."""
    first = next(i for i, line in enumerate(lines) if "aten.sort_stable" in line)
    last = max(i for i, line in enumerate(lines) if "dist.ragged_all_to_all" in line or "aten._grouped_mm" in line) + 12
    made, mutants = {}, []
    for i in range(first - 12, last):
        line = lines[i]
        for pattern, replacement in (
            (r"other = (\d+)(?=[,)])", lambda found: f"other = {int(found[1]) + 1}"),
            (r"aten\.add\((?=.*xi64)", "aten.sub("), (r"aten\.sub\((?=.*xi64)", "aten.add("),
            (r"dist\.all_reduce sum", "dist.all_reduce max"), (r"aten\.ge\(", "aten.lt("),
            (r'\["ep"\]', '["dp"]'), (r'\["ep", "dp"\]', '["dp", "ep"]'), (r"max = (\d+)", lambda found: f"max = {int(found[1]) - 1}"),
            (r"stable = true", "stable = false"), (r"\bdim = 1\b", "dim = 2"), (r"value = 0\b", "value = 1"),
            (r", accumulate = true", ""),
        ):  # fmt: skip
            changed = re.sub(pattern, replacement, line, count=1)
            if changed != line:
                mutants.append((i, changed))
        # An operand that another value of its type takes the place of. Views need the layout that they have.
        head, _, types = line.rpartition(" : ")
        operands = re.findall(r"%\w+(?:#\d+)?", head.partition(" = ")[2])
        given = re.findall(r"tensor<[^>]*>", types.partition(" -> ")[0])
        for operand, of in zip(operands, given, strict=False) if "view(" not in line else ():
            others = [other for other in made.get(of, []) if other not in operands]
            for other in others[-2:]:
                mutants.append((i, line.replace(operand, other, 1) if line.count(operand) == 1 else head.partition(" = ")[0]
                                + " = " + head.partition(" = ")[2].replace(operand, other, 1) + " : " + types))  # fmt: skip
        results = re.findall(r"%\w+", line.partition(" = ")[0])
        for result, of in zip(results, re.findall(r"tensor<[^>]*>", types.partition(" -> ")[2] or types), strict=False):
            made.setdefault(of, []).append(result)
    return mutants


def try_mutants(prove, path, inputs, lines, ranks, cleave_run, tmp_path):
    """Proves some, and runs what is proved: numbers by answer."""
    mutants = list_mutants(lines)
    assert len(mutants) > 400
    tmp_path.mkdir(exist_ok=True)
    numbers = {"proved": 0, "unknown": 0, "bad input": 0}
    for i, text in mutants if run_all() else random.Random(seed()).sample(mutants, 24):
        changed = [*lines[:i], text, *lines[i + 1 :]]
        mutant = tmp_path / path.name
        mutant.write_text("\n".join(changed) + "\n")
        answer = prove(path, mutant, LIMIT, expect=(0, 2, 3))["answer"]
        numbers[answer] += 1
        if answer == "proved":
            weights = mutant.with_suffix(".safetensors")
            if not weights.exists():
                weights.symlink_to(path.with_suffix(".safetensors"))
            cleave_run.succeed(
                mutant, "--ranks", ranks, "--ranks-as", "threads", "--inputs", inputs, "--against", path, "--tolerance", 1e-9
            )
    # Products by group compute the same ends and turns again: of a few, more than half may take a value for its equal.
    assert numbers["unknown"] * (1 if run_all() else 4) > numbers["proved"], numbers


def test_no_mutant_that_differs_is_proved(local, prove, cleave_run, tmp_path):
    path, inputs, lines = local
    try_mutants(prove, path, inputs, lines, 4, cleave_run, tmp_path)


@pytest.mark.parametrize("layout, ranks", [("llama4 on 2", 2), ("llama4 on 2 x 2", 4)])
def test_no_mutant_of_parts_that_differs_is_proved(layout, ranks, exported, build_dir, prove, cleave_run, tmp_path):  # noqa: F811
    name, mesh, axis, rest = LAYOUTS[layout]
    _, path, inputs = exported(name)
    made = lay_out(build_dir, path, mesh, [(EXPERTS, ExpertParallel(axis)), *rest], tmp_path)
    try_mutants(prove, path, inputs, made.read_text().splitlines(), ranks, cleave_run, tmp_path / "mutants")


@pytest.mark.parametrize("layout, ranks", [("deepseek_v3 on 2", 2), ("qwen3_moe, another order", 4)])
def test_no_mutant_of_turned_rows_that_differs_is_proved(layout, ranks, exported, build_dir, prove, cleave_run, tmp_path):  # noqa: F811
    name, mesh, plan = TURNED[layout]
    _, path, inputs = exported(name)
    made = lay_out(build_dir, path, mesh, plan, tmp_path)
    try_mutants(prove, path, inputs, made.read_text().splitlines(), ranks, cleave_run, tmp_path / "mutants")


def test_no_mutant_with_biases_that_differs_is_proved(biased, prove, cleave_run, tmp_path):
    path, inputs, lines = biased
    try_mutants(prove, path, inputs, lines, 2, cleave_run, tmp_path)

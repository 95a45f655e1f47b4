"""Plans: from Python's words to attributes of the program, and every way to get them wrong."""

import json
import re
import subprocess

import cleave_path  # noqa: F401
import pytest
import torch
from cleave import (
    FSDP,
    HSDP,
    ColwiseParallel,
    ContextParallel,
    DataParallel,
    ExpertParallel,
    ExportError,
    Op,
    Partial,
    Plan,
    Replicate,
    RowwiseParallel,
    SequenceParallel,
    Shard,
)

import cleave

MESH = {"dp": 2, "tp": 2}


@pytest.fixture
def annotate(build_dir, exported, tmp_path):
    """Applies a plan to a model's program: the program's text with attributes written out."""

    def run(model, plan, refused=False):
        path = plan if hasattr(plan, "suffix") else plan.write(tmp_path / "plan.json")
        program = exported(model).path if isinstance(model, str) else model
        result = subprocess.run(
            [build_dir / "bin" / "cleave-opt", program, "--mlir-print-debuginfo",
             f"--annotate-placements=plan={path}"],
            capture_output=True, text=True, timeout=60)
        if refused:
            assert result.returncode == 1 and "error: " in result.stderr, result.stderr
            assert "Stack dump" not in result.stderr
            return result.stderr
        assert result.returncode == 0, result.stderr
        aliases = dict(re.findall(r"^(#\w+) = #dist.on<@mesh, (.*)>$", result.stdout, re.M))
        return re.sub(r"#\w+", lambda m: f"<{aliases[m[0]]}>" if m[0] in aliases else m[0], result.stdout)

    return run


def placement(text, role):
    """What each function says of the argument with this role."""
    found = set()
    for function in text.split("func.func")[1:]:
        arguments = re.split(r"\)\s+-> \(", function, maxsplit=1)[0]
        for value in re.split(r"%arg\d+: ", arguments)[1:]:
            if f"#train.role<{role}" in value:
                said = re.search(r"dist\.placement = (?:#dist\.on<@mesh, ([^>]*)>|<([^>]*)>)", value)
                found.add((said[1] or said[2]) if said else "")
    assert len(found) == 1, found
    return found.pop()


def ops(text, module, name, backward=False):
    """(operands, results) that the plan says of a module's ops."""
    aliases = re.findall(rf'^(#loc\d*) = loc\("{re.escape(module)}"\(', text, re.M)
    return [
        (line.split("dist.operands = [")[1].split("]")[0] if "dist.operands" in line else "",
         line.split("dist.results = [")[1].split("]")[0] if "dist.results" in line else "")
        for line in text.splitlines()
        if f" aten.{name}(" in line and line.endswith(tuple(f"loc({alias})" for alias in aliases))
        and ("train.backward" in line) == backward
    ]


def test_tensor_and_sequence_parallel(annotate):
    text = annotate("llama", Plan({"tp": 2}, {
        "model.model.layers.*.self_attn.{q,k,v}_proj": ColwiseParallel(),
        "model.model.layers.*.self_attn.o_proj": RowwiseParallel(),
        "model.model.layers.*.mlp.down_proj": RowwiseParallel(),
        "model.model.layers.*.*_layernorm": SequenceParallel(),
    }))
    layer = "model.model.layers.1"
    assert placement(text, f'parameter "{layer}.self_attn.q_proj.weight"') == "tp = S(0)"
    assert placement(text, f'parameter "{layer}.mlp.down_proj.weight"') == "tp = S(1)"
    assert placement(text, f'parameter "{layer}.input_layernorm.weight"') == "tp = R"
    assert placement(text, f'parameter "{layer}.mlp.up_proj.weight"') == ""
    q = f"{layer}.self_attn.q_proj"
    assert ops(text, q, "mm") == [("<tp = R>, <tp = S(1)>", "<tp = S(1)>")]
    # Of the backward, the product with the weight is a partial sum; the weight's gradient is cut.
    assert sorted(ops(text, q, "mm", backward=True)) == [
        ("<tp = S(0)>, <tp = R>", "<tp = S(0)>"),
        ("<tp = S(1)>, <tp = S(0)>", "<tp = P>"),
    ]
    down = f"{layer}.mlp.down_proj"
    assert ops(text, down, "mm") == [("<tp = S(1)>, <tp = S(0)>", "<tp = P>")]
    assert sorted(ops(text, down, "mm", backward=True)) == [
        ("<tp = R>, <tp = S(1)>", "<tp = S(1)>"),
        ("<tp = R>, <tp = S(1)>", "<tp = S(1)>"),
    ]


def test_colwise_knows_conv1d_and_embeddings(annotate):
    """Hugging Face's GPT-2 keeps weights as [in, out]; an embedding's rows are its input."""
    text = annotate("gpt2", Plan({"tp": 2}, {
        "model.transformer.h.*.mlp.c_fc": ColwiseParallel(),
        "model.transformer.h.*.mlp.c_proj": RowwiseParallel(),
        "model.transformer.wte": RowwiseParallel(),
        "model.transformer.wpe": ColwiseParallel(),
    }))
    assert placement(text, 'parameter "model.transformer.h.0.mlp.c_fc.weight"') == "tp = S(1)"
    assert placement(text, 'parameter "model.transformer.h.0.mlp.c_fc.bias"') == "tp = S(0)"
    assert placement(text, 'parameter "model.transformer.h.0.mlp.c_proj.weight"') == "tp = S(0)"
    assert placement(text, 'parameter "model.transformer.h.0.mlp.c_proj.bias"') == "tp = R"
    assert placement(text, 'parameter "model.transformer.wte.weight"') == "tp = S(0)"
    assert placement(text, 'parameter "model.transformer.wpe.weight"') == "tp = S(1)"


class Projection(torch.nn.Module):
    """Its layer's weight is used, and the layer is not called: the bias is another's."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ModuleDict({"qkv": torch.nn.Linear(4, 8, bias=False)})
        self.bias = torch.nn.Parameter(torch.randn(8))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.inner.qkv.weight, self.bias)


def test_a_layer_that_is_not_called(annotate, tmp_path):
    spec = cleave.ExportSpec(Projection(), (torch.randn(2, 4),), loss=lambda y: y.sum(), name="projection")
    program = cleave.export_spec(spec, tmp_path)
    text = annotate(program, Plan({"tp": 2}, {"inner.qkv": ColwiseParallel()}))
    assert placement(text, 'parameter "inner.qkv.weight"') == "tp = S(0)"
    assert "aten.addmm" in text and re.search(r"aten.addmm\(.*dist.results = \[<tp = S\(1\)>\]", text)
    text = annotate(program, Plan({"tp": 2}, {"inner.qkv": RowwiseParallel()}))
    assert re.search(r"aten.addmm\(.*dist.results = \[<tp = P>\]", text)


def test_convolutions(annotate):
    text = annotate("resnet18", Plan({"tp": 2}, {"layer1.0.conv1": ColwiseParallel(), "layer1.0.conv2": RowwiseParallel()}))
    assert placement(text, 'parameter "layer1.0.conv1.weight"') == "tp = S(0)"
    assert placement(text, 'parameter "layer1.0.conv2.weight"') == "tp = S(1)"


def test_whole_program_styles_give_way(annotate):
    text = annotate("moe", Plan(
        {"r": 2, "s": 2, "ep": 2},
        {"h.*.experts": ExpertParallel("ep"), "": [DataParallel("ep"), HSDP("r", "s")]}))
    assert placement(text, 'input "tokens"') == "ep = S(0, 0), r = S(0, 1), s = S(0, 2)"
    assert placement(text, 'parameter "h.0.experts.up"') == "ep = S(0, 0), r = R, s = S(0, 1)"
    assert placement(text, 'parameter "h.0.experts.router.weight"') == "ep = R, r = R, s = S(0)"
    bmm = [line for line in text.splitlines() if " aten.bmm(" in line and "ep = S(0)" in line]
    assert len(bmm) == 12, "two products, forward and twice backward, in each of two layers"


def test_context_parallel(annotate):
    text = annotate("gpt_tied", Plan({"cp": 2}, {"": ContextParallel()}))
    assert placement(text, 'input "tokens"') == placement(text, 'target "targets"') == "cp = S(1)"
    attention = next(line for line in text.splitlines() if "flash_attention_for_cpu(" in line)
    assert attention.count("cp = S(2)") == 5


def test_fully_sharded_over_two_axes(annotate):
    """Along one dimension where both divide it, and else each along its own."""
    plan = [("", FSDP("dp")), ("", ContextParallel("cp", shard_parameters=True))]
    text = annotate("gpt_tied", Plan({"dp": 8, "cp": 16}, plan))
    shapes = {
        "h.0.mlp.c_fc.weight": "cp = S(0, 1), dp = S(0, 0)",  # 128 x 32
        "h.0.mlp.c_proj.weight": "cp = S(1, 1), dp = S(1, 0)",  # 32 x 128
        "h.0.attn.c_attn.weight": "cp = S(1), dp = S(0)",  # 96 x 32
        "ln_f.weight": "cp = R, dp = S(0)",  # 32
    }
    assert {name: placement(text, f'parameter "{name}"') for name in shapes} == shapes
    assert placement(text, 'input "tokens"') == "cp = S(1), dp = S(0)"
    with pytest.raises(cleave.ExportError, match="expected shard_parameters to be True or False, found 'yes'"):
        ContextParallel("cp", shard_parameters="yes")


def test_constraints_on_single_ops(annotate):
    """Those of the autoparallel example: S(0)R x RS(1) -> S(0)S(1), PS(0) and S(0)P backward."""
    plan = Plan(MESH, [
        ("h.0.mlp.c_fc", [
            Op("addmm", operands=[None, (Shard(0), Replicate()), (Replicate(), Shard(1))],
               results=[(Shard(0), Shard(1))]),
            Op("mm", part="backward", index=1, results=[(Partial(), Shard(0))]),
            Op("mm", part="backward", index=0, results=[{"dp": Shard(0), "tp": Partial()}]),
        ]),
        ("inputs:tokens", {"dp": Shard(0)}),
        ("optimizer_states:wpe.weight", {"dp": Shard(-2)}),
    ])
    text = annotate("gpt_tied", plan)
    assert ops(text, "h.0.mlp.c_fc", "addmm") == [
        ("unit, <dp = S(0), tp = R>, <dp = R, tp = S(1)>", "<dp = S(0), tp = S(1)>")]
    assert [results for _, results in ops(text, "h.0.mlp.c_fc", "mm", backward=True)] == [
        "<dp = S(0), tp = P>", "<dp = P, tp = S(0)>"]
    assert placement(text, 'optimizer_state "wpe.weight"') == "dp = S(0)"


def test_one_axis_of_size_one_needs_no_mention(annotate):
    text = annotate("gpt_tied", Plan({"dp": 1, "tp": 2}, {"": FSDP(), "ln_f.weight": {"tp": Replicate()}}))
    assert placement(text, 'parameter "ln_f.weight"') == "tp = R"
    assert placement(text, 'input "tokens"') == ""


@pytest.mark.parametrize("rule, message", [
    ({"modules": "h.*.nope", "style": "colwise", "axis": "tp"}, "matches no module with weights to cut: 'h.*.nope'"),
    ({"modules": "ln_f", "style": "colwise", "axis": "tp"}, "matches no module with weights to cut: 'ln_f'; modules with parameters are wte, wpe, h.0.ln_1,"),
    ({"modules": "nope", "style": "sequence", "axis": "tp"}, "matches no module: 'nope'"),
    ({"modules": "wte", "style": "sequence", "axis": "tp", "dim": 7}, "sequence in dimension 7"),
    ({"modules": "ln_f", "style": "sequence", "axis": "tp", "dim": -1}, "non-negative sequence dimension, found -1"),
    ({"modules": "h.*.mlp", "style": "expert", "axis": "tp"}, "matches no module with stacked experts"),
    ({"modules": "nope", "style": "fsdp", "axis": "dp"}, "matches no parameters to shard: 'nope'"),
    ({"style": "context", "axis": "dp", "dim": 5}, "no input has a dimension 5"),
    ({"style": "data", "axis": "pp"}, 'names the axis "pp", but the mesh @mesh has dp, tp'),
    ({"parameters": "nope.*", "placement": {"dp": "R"}}, "matches no name: 'nope.*'; the program's parameters are wte.weight, wpe.weight,"),
    ({"buffers": "**", "placement": {"dp": "R"}}, "the program's buffers are none"),
    ({"parameters": "ln_f.bias", "placement": {"dp": "S(1)"}}, 'places parameter "ln_f.bias" S(1) on axis "dp", but it has 1 dimensions: '),
    ({"parameters": "ln_f.bias", "placement": {"dp": "S(-2)"}}, "S(-2)"),
    ({"parameters": "ln_f.bias", "placement": {"dp": "P"}}, "expected R or S(dimension)"),
    ({"parameters": "ln_f.bias", "placement": {"pp": "R"}}, 'names the axis "pp"'),
    ({"ops": "nope", "op": "mm", "results": [{"dp": "R"}]}, "there is none of a module 'nope'"),
    ({"ops": "ln_f", "op": "mm", "part": "backward", "results": [{"dp": "R"}]}, "matches no op: backward 'mm' of modules 'ln_f', whose ops are native_layer_norm"),
    ({"ops": "ln_f", "op": "native_layer_norm", "index": 3, "results": [{"dp": "R"}]}, "number 3"),
    ({"ops": "lm_head", "op": "mm", "part": "forward", "operands": [None] * 3 + [{"dp": "R"}]}, "places 4 operands and 0 results of 'aten.mm', which has 2 and 1"),
    ({"gradients": "ln_f.bias", "placement": {"dp": "P", "tp": "P(max)"}}, "as placed by"),
])
def test_rules_that_do_not_fit_the_program(annotate, tmp_path, rule, message):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"mesh": [["dp", 2], ["tp", 2]], "rules": [{**rule, "where": "train.py:7"}]}))
    error = annotate("gpt_tied", path, refused=True)
    assert message in error, error
    assert "rules[0] (train.py:7)" in error, error


@pytest.mark.parametrize("text, message", [
    ("", "expected JSON"),
    ("{", "expected JSON"),
    ("[]", 'expected an object with "mesh" and "rules"'),
    ('{"mesh": [["dp", 2]]}', 'expected an array "rules"'),
    ('{"rules": [], "more": 1}', 'unknown field "more"'),
    ('{"mesh": [], "rules": []}', "at least one axis"),
    ('{"mesh": [["dp"]], "rules": []}', 'mesh[0]: expected an axis and its size, as ["dp", 2], found ["dp"]'),
    ('{"mesh": [["dp", 0]], "rules": []}', "positive size"),
    ('{"mesh": [["", 1]], "rules": []}', "a name for the axis"),
    ('{"mesh": [["dp", 2], ["dp", 2]], "rules": []}', 'axis "dp" appears twice'),
    ('{"rules": []}', "has no mesh, and the plan"),
    ('{"mesh": [["dp", 2]], "rules": [3]}', "rules[0]: expected an object, found 3"),
    ('{"mesh": [["dp", 2]], "rules": [{}]}', 'the target of the rule: "style", "ops", or one of parameters'),
    ('{"mesh": [["dp", 2]], "rules": [{"style": "magic", "axis": "dp"}]}', "no style 'magic'; there are colwise,"),
    ('{"mesh": [["dp", 2]], "rules": [{"style": "data"}]}', 'expected a string "axis"'),
    ('{"mesh": [["dp", 2]], "rules": [{"style": "data", "axis": "dp", "dim": 1}]}', 'unknown field "dim"'),
    ('{"mesh": [["dp", 2]], "rules": [{"style": "fsdp", "axis": "dp", "dim": 1.5}]}', "an integer, found 1.5"),
    ('{"mesh": [["dp", 2]], "rules": [{"style": "context", "axis": "dp", "shard_parameters": 1}]}',
     'expected "shard_parameters" to be true or false, found a number'),
    ('{"mesh": [["dp", 2]], "rules": [{"style": "fsdp", "axis": "dp", "shard_parameters": true}]}', 'unknown field "shard_parameters"'),
    ('{"mesh": [["dp", 2]], "rules": [{"style": "colwise", "axis": "dp"}]}', 'expected "modules"'),
    ('{"mesh": [["dp", 2]], "rules": [{"style": "hsdp", "axis": "dp", "replicate_axis": "dp"}]}', "expected two axes"),
    ('{"mesh": [["dp", 2]], "rules": [{"parameters": "a..b", "placement": {"dp": "R"}}]}', "an empty component"),
    ('{"mesh": [["dp", 2]], "rules": [{"parameters": "a[", "placement": {"dp": "R"}}]}', "is not a pattern of names"),
    ('{"mesh": [["dp", 2]], "rules": [{"parameters": "a"}]}', 'expected an object "placement"'),
    ('{"mesh": [["dp", 2]], "rules": [{"parameters": "a", "placement": {}}]}', "at least one mesh axis"),
    ('{"mesh": [["dp", 2]], "rules": [{"parameters": "a", "placement": {"dp": "S(x)"}}]}', 'found "S(x)"'),
    ('{"mesh": [["dp", 2]], "rules": [{"parameters": "a", "placement": {"dp": "P(band)"}}]}', 'found "P(band)"'),
    ('{"mesh": [["dp", 2]], "rules": [{"ops": "a", "op": "mm"}]}', '"operands" or "results"'),
    ('{"mesh": [["dp", 2]], "rules": [{"ops": "a", "op": "mm", "part": "both"}]}', 'found "both"'),
    ('{"mesh": [["dp", 2]], "rules": [{"ops": "a", "op": "mm", "index": -1}]}', 'a non-negative "index", found -1'),
    ('{"mesh": [["dp", 2]], "rules": [{"ops": "a", "op": "mm", "results": [1]}]}', "results[0]: expected placements"),
])
def test_files_that_are_no_plan(annotate, tmp_path, text, message):
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert message in annotate("gpt_tied", path, refused=True)


def test_missing_file(annotate, tmp_path):
    error = annotate("gpt_tied", tmp_path / "nowhere.json", refused=True)
    assert "cannot read the plan" in error and "No such file" in error


def test_rules_that_disagree_name_both(annotate):
    error = annotate("gpt_tied", Plan({"tp": 2}, [
        ("h.*.mlp.c_fc", ColwiseParallel()), ("h.1.mlp.c_fc.weight", {"tp": Shard(1)})]), refused=True)
    found = re.search(
        r'rules\[1\] \(test_plan.py:\d+\) places parameter "h.1.mlp.c_fc.weight" S\(1\) on axis "tp", '
        r"but \S+ rules\[0\] \(test_plan.py:\d+\) places it S\(0\)", error.replace("test/python/", ""))
    assert found, error


@pytest.mark.parametrize("make, message", [
    (lambda: Plan({}), "expected a mesh"),
    (lambda: Plan({"dp": 0}), "positive size for mesh axis 'dp', found 0"),
    (lambda: Plan({"dp": 2}, {"w": Shard}), "found the class: write Shard(...)"),
    (lambda: Plan({"dp": 2}, {"w": 3}), "expected a style, an Op or a placement for 'w'"),
    (lambda: Plan({"dp": 2}, {"w": {"dp": 3}}), "expected Shard(dim), Replicate() or Partial()"),
    (lambda: Plan({"dp": 2}, {"w": (Shard(0), Shard(1))}), "at most one placement per axis"),
    (lambda: Plan({"dp": 2}, {"w": {"tp": Shard(0)}}), "names the axis 'tp', but the mesh has dp"),
    (lambda: Plan({"dp": 2}, {"w": ColwiseParallel()}), "names the axis 'tp'"),
    (lambda: Plan({"dp": 2}, {"w": DataParallel()}), "for the whole program"),
    (lambda: Plan({"tp": 2}, {"": ColwiseParallel()}), "is for modules"),
    (lambda: Plan({"dp": 2}, ["w"]), "expected a pattern with a value, found 'w'"),
    (lambda: Shard("0"), "expected a dimension"),
    (lambda: Partial("mean"), "expected Partial of sum"),
    (lambda: ColwiseParallel(0), "expected the name of a mesh axis for ColwiseParallel, found 0"),
    (lambda: FSDP(dim=1.0), "expected a dimension"),
    (lambda: Op(""), "expected the name of an op"),
    (lambda: Op("mm", part="middle"), "'forward' or 'backward'"),
    (lambda: Op("mm", index=-1), "a non-negative index, found -1"),
    (lambda: cleave.ExportSpec(torch.nn.ReLU(), (), plan={}), "a plan without a mesh"),
    (lambda: cleave.ExportSpec(torch.nn.ReLU(), (), mesh={"dp": 2}, plan=Plan({"dp": 4})), "the mesh of the plan"),
    (lambda: cleave.ExportSpec(torch.nn.ReLU(), (), generator="xorshift"), "mt19937, philox, found 'xorshift'"),
])
def test_python_refuses(make, message):
    with pytest.raises(ExportError) as error:
        make()
    assert message in str(error.value)


def test_export_writes_the_plan_beside_the_program(tmp_path):
    path = cleave.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),), name="linear", out=tmp_path,
                         mesh={"tp": 2}, plan={"weight": Shard(0)})
    plan = json.loads(path.with_suffix(".plan.json").read_text())
    assert plan["mesh"] == [["tp", 2]]
    assert [rule["parameters"] for rule in plan["rules"]] == ["weight"]
    assert plan["rules"][0]["placement"] == {"tp": "S(0)"}
    assert "test_plan.py:" in plan["rules"][0]["where"]

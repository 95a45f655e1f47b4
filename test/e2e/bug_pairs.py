"""Known errors of distributed training, each made in an example model, and what looks like an error and is right.

A pair is a local program that is right, and the same with one edit that is what the report says. The edits are text,
and know nothing of the prover.
"""

import dataclasses
import re

from bug_programs import Edit, Source, schedule_in_two, zero1

ALL_REDUCE = r"( *)(%\w+) = dist\.all_reduce sum\((%\w+)\) over (@\w+ \[.*?\])([^:\n]*): (tensor<[\w.]+>)"
# The value itself: a product with one that changes nothing, so that the op has a line of its own.
IN_BACKWARD = ALL_REDUCE.replace(r"([^:\n]*)", r"( \{train.backward\}[^:\n]*)")
NO_REDUCTION = r"\1\2 = aten.mul_scalar(\3, other = 1.0)\5: (\6) -> \6"
DOUBLE = (
    r"\1%once = dist.all_reduce sum(\3) over \4\5: \6" + "\n" + r"\1\2 = dist.all_reduce sum(%once) over \4\5: \6"
)
AVERAGE = r"\1\2 = dist.all_reduce avg(\3) over \4\5: \6"


MAXIMUM = r"\1\2 = dist.all_reduce max(\3) over \4\5: \6"
SCALED = r"\1%once = dist.all_reduce sum(\3) over \4\5: \6" + "\n" + r"\1\2 = aten.mul_scalar(%once, other = {}) : (\6) -> \6"

ACCUMULATE = r"( *)(%\w+) = train\.accumulate (%\w+) into (%\w+)([^:\n]*): (tensor<[\w.]+>)"
TWICE = (
    r"\1%twice = aten.mul_scalar(\3, other = 2.0) : (\6) -> \6" + "\n"
    + r"\1\2 = train.accumulate %twice into \4\5: \6"
)
# The sum so far is divided with every addition.
MOVING_AVERAGE = (
    r"\1%half = aten.mul_scalar(\4, other = 0.5) : (\6) -> \6" + "\n"
    + r"\1\2 = train.accumulate \3 into %half\5: \6"
)

# A number that changes nothing, on its way through other ops.
SUM_OF_MEANS = (
    r"\1%once = dist.all_reduce sum(\3) over \4\5: \6" + "\n" + r"\1\2 = dist.all_reduce avg(%once) over \4\5: \6"
)
MEAN_OF_DOUBLE = (
    r"\1%double = aten.mul_scalar(\3, other = 2.0)\5: (\6) -> \6" + "\n"
    + r"\1\2 = dist.all_reduce avg(%double) over \4\5: \6"
)


def along(axis, type_, attributes=r"([^:\n]*)"):
    """A sum over this axis alone, of values of this type."""
    return rf"( *)(%\w+) = dist\.all_reduce sum\((%\w+)\) over (@mesh \[\"{axis}\"\]){attributes}: (tensor<{type_}>)"


def reduction_of(type_):
    return rf"( *)(%\w+) = dist\.all_reduce sum\((%\w+)\) over (@mesh \[.*?\])([^:\n]*): (tensor<{type_}>)"


def accumulation_of(type_):
    return ACCUMULATE.replace(r"tensor<[\w.]+>", f"tensor<{type_}>")


def number(op, value):
    return rf"({re.escape(op)}\(%\w+, other = ){re.escape(value)}"


OVER = r"\1\2 = dist.all_reduce sum(\3) over @mesh [{}]\5: \6"
# A value that is accumulated, after a sum that nothing asks for.
REDUCED = (
    r"\1%all = dist.all_reduce sum(\3) over @mesh [{}] : \6" + "\n" + r"\1\2 = train.accumulate %all into \4\5: \6"
)
NORM_OF = r"( *)(%\w+) = aten\.linalg_vector_norm\((%\w+), ord = 2\.000000e\+00\)([^:\n]*): \((tensor<{}>)\) -> tensor<f32>"
# The seed has what gradients of a microbatch are divided by.
SEED = r"( *)(%\w+ = aten\.nll_loss_backward\()%\w+"
ONES = r"\1%whole = aten.full(size = [], fill_value = 1.0) : () -> tensor<f32>" + "\n" + r"\1\2%whole"
# Both gradients of a weight that is used twice.
TIED = r"( *)(%\w+) = aten\.add\((%\w+), (%\w+)\)([^\n]*?) : \((tensor<256x32xf32>), tensor<256x32xf32>\) -> tensor<256x32xf32>"

DP2, EP2 = Source("gpt_untied", "dp2"), Source("moe", "ep2")
DP_EP = Source("moe", "dp2 x ep2", batch=4)
HSDP22, HSDP21 = Source("gpt_untied", "hsdp 2 x 2", batch=4), Source("gpt_untied", "hsdp 2 x 1")
CLIP = ("--clip-gradients=max-norm=0.05",)
CLIP_TP, CLIP_FSDP = Source("gpt_untied", "dp2 x tp2", both=CLIP), Source("gpt_untied", "fsdp2", both=CLIP)
CLIP_EP, CLIP_HSDP = Source("moe", "dp2 x ep2", batch=4, both=CLIP), Source("gpt_untied", "hsdp 2 x 2", batch=4, both=CLIP)
PIPELINE = Source("gpt_tied", passes=schedule_in_two)


@dataclasses.dataclass(frozen=True)
class Pair:
    """`row`: the project, and the number of the report."""

    row: str
    kind: str
    source: Source
    edit: Edit
    is_typed: bool = False


PAIRS = [
    # Reductions that are missing.
    Pair("entangle-5", "missing_reduction", Source("gpt_untied", "tp2"), Edit(ALL_REDUCE, NO_REDUCTION, 1)),
    Pair("applece-42", "missing_reduction", Source("gpt_untied", "tp2"), Edit(IN_BACKWARD, NO_REDUCTION, 1)),
    Pair("titan-1805", "missing_reduction", Source("gpt_untied", "tp2"), Edit(IN_BACKWARD, NO_REDUCTION, 3)),
    Pair("entangle-9", "missing_reduction", Source("llama", "tp2, sequence"), Edit(ALL_REDUCE, NO_REDUCTION, 1, "update")),
    Pair("mlm-1446", "missing_reduction", Source("llama", "tp2, sequence"), Edit(ALL_REDUCE, NO_REDUCTION, -1, "update")),
    Pair("te-435", "missing_reduction", Source("llama", "tp2, sequence"), Edit(ALL_REDUCE, NO_REDUCTION, 0, "update")),
    Pair("pt-98281", "missing_reduction", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, NO_REDUCTION, 3, "update")),
    # Counted twice.
    Pair("mlm-6839b", "double_reduction", Source("gpt_untied", "tp2"), Edit(IN_BACKWARD, DOUBLE, 1)),
    Pair("autoparallel-517", "double_reduction", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, DOUBLE, 2, "update")),
    Pair("areno-496", "double_reduction", Source("llama", "tp2"), Edit(ALL_REDUCE, DOUBLE, 1)),
    # Scaled by the wrong number.
    Pair("hf-34373", "wrong_scale", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, NO_REDUCTION, 0)),
    Pair("hf-37474", "wrong_scale", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, AVERAGE, 1, "update")),
    Pair("torchtune-2420", "wrong_scale", Source("gpt_untied", "tp2"), Edit(ALL_REDUCE, AVERAGE, 2)),
    Pair("pt-115967", "wrong_scale", Source("llama", "tp2"), Edit(IN_BACKWARD, AVERAGE, 1)),
    # Cut, or masked, at the wrong place.
    Pair("slime-73", "wrong_offset", Source("gpt_untied", "tp2"), Edit(r"other = 128\) : \(tensor<i64>", "other = 64) : (tensor<i64>")),
    Pair("pt-144109", "wrong_offset", Source("gpt_untied", "tp2"), Edit(r"(ge_scalar\(%\w+, other = )128", r"\g<1>127")),
    Pair("pt-172350", "wrong_layout", Source("gpt_untied", "tp2"), Edit(r"(masked_fill_scalar\(%\w+, %\w+, value = )-100", r"\g<1>0")),
    Pair("pt-165962", "op_before_reduction", Source("gpt_untied", "tp2"), Edit(r"( *)(%\w+) = dist\.all_reduce max\((%\w+)\) over .*? : (tensor<\w+>)", r"\1\2 = aten.mul_scalar(\3, other = 1.0) : (\4) -> \4")),
    # An old value, and another one's.
    Pair("instructlab-414", "dropped_contribution", Source("gpt_untied", "dp2"), Edit(r"train\.accumulate (%\w+) into (%arg\d+) : (tensor<256x32xf32>)", r"aten.mul_scalar(\1, other = 1.0) : (\3) -> \3")),
    Pair("ds-5059", "stale_value", Source("gpt_untied", "dp2"), Edit(r"train\.adamw\(%arg2, ", "train.adamw(%arg3, ", 0, "update")),
    # Numbers that are drawn twice, or differ from those of one device.
    Pair("oneflow-9941", "wrong_seed", Source("gpt_philox", "dp2"), Edit(r"position = [1-9]\d*", "position = 0"), is_typed=True),
    Pair("flashattn-315", "wrong_seed", Source("gpt_philox", "tp2"), Edit(r"position = [1-9]\d*", "position = 0", -1), is_typed=True),
    # Others of the same kinds, in other models and at other places.
    Pair("pt-144530", "missing_reduction", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, NO_REDUCTION, 5, "update")),
    Pair("mlm-6839a", "missing_reduction", Source("llama", "tp2"), Edit(IN_BACKWARD, NO_REDUCTION, 2)),
    Pair("pt-121653", "missing_reduction", Source("gpt_untied", "tp2"), Edit(IN_BACKWARD, NO_REDUCTION, 2)),
    Pair("entangle-8", "missing_reduction", Source("llama", "tp2, sequence"), Edit(ALL_REDUCE, NO_REDUCTION, 2, "update")),
    Pair("mlm-906", "wrong_scale", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, SCALED.format(2.0), 0)),
    Pair("mlm-673", "wrong_scale", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, SCALED.format(0.5), 0)),
    Pair("pt-144352", "wrong_scale", Source("gpt_untied", "dp2"), Edit(ACCUMULATE, TWICE)),
    Pair("titan-1733", "wrong_scale", Source("gpt_untied", "dp2"), Edit(ACCUMULATE, MOVING_AVERAGE)),
    Pair("entangle-2", "wrong_scale", Source("gpt_untied", "tp2"), Edit(ALL_REDUCE, SCALED.format(2.0), 1)),
    Pair("ds-8224", "dropped_contribution", Source("gpt_tied", "dp2"), Edit(r"( *)(%\w+) = aten\.add\((%\w+), (%\w+)\)([^\n]*) : \((tensor<256x32xf32>), tensor<256x32xf32>\) -> tensor<256x32xf32>", r"\1\2 = aten.mul_scalar(\3, other = 1.0)\5 : (\6) -> \6")),
    Pair("mlm-4828", "wrong_seed", Source("gpt_philox", "cp2"), Edit(r"position = [1-9]\d*", "position = 0"), is_typed=True),
    Pair("pt-190746", "dropped_contribution", Source("gpt_untied", "dp2"), Edit(r"( *)(%\w+) = aten\._log_softmax_backward_data\((%\w+), .*?\)([^\n]*) : \((tensor<\w+>), tensor<\w+>\) -> tensor<\w+>", r"\1\2 = aten.mul_scalar(\3, other = 1.0)\4 : (\5) -> \5")),
    Pair("ds-966", "wrong_value_in_op", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, MAXIMUM, 1, "update")),
    # Of experts: their auxiliary loss, their router, their gradients, along the axes of experts and data.
    Pair("mlm-3943", "wrong_scale", EP2, Edit(number("aten.mul_scalar", "1.000000e-02"), r"\g<1>5.000000e-03")),
    Pair("hf-48706", "wrong_scale", EP2, Edit(number("aten.mul_scalar", "1.000000e-02"), r"\g<1>2.000000e-02", 1)),
    Pair("mlm-7452-03", "wrong_scale", EP2, Edit(number("aten.div_scalar", "6.400000e+01"), r"\g<1>3.200000e+01")),
    Pair("mlm-7452-10", "stale_value", EP2, Edit(r"( *)(%\w+) = aten\.mul\((%\w+), (%\w+)\)( \{train\.backward\} : \(tensor<4xf32>, tensor<4xf32>\))", r'\1%again = dist.all_reduce sum(\4) over @mesh ["ep"] : tensor<4xf32>' + "\n" + r"\1\2 = aten.mul(\3, %again)\5")),
    Pair("titan-2387", "missing_reduction", Source("moe", "tp2"), Edit(reduction_of("4x32xf32"), NO_REDUCTION, 0, "update")),
    Pair("hf-48687", "missing_reduction", EP2, Edit(reduction_of("4x32xf32"), NO_REDUCTION, 1, "update")),
    Pair("automodel-2995b", "dropped_contribution", EP2, Edit(r"( *)(%\w+) = aten\.add\((%\w+), (%\w+)\)( \{train\.backward\}) : \((tensor<32x4xf32>), tensor<32x4xf32>\) -> tensor<32x4xf32>", r"\1\2 = aten.mul_scalar(\3, other = 1.0)\5 : (\6) -> \6")),
    Pair("bridge-5634", "missing_reduction", Source("moe", "tp2"), Edit(ALL_REDUCE, NO_REDUCTION, 2)),
    Pair("mlm-5956", "wrong_scale", DP_EP, Edit(accumulation_of("2x128x32xf32"), TWICE)),
    Pair("ds-5259", "wrong_scale", EP2, Edit(accumulation_of("2x32x128xf32"), TWICE)),
    Pair("ds-6546", "wrong_scale", DP_EP, Edit(along("dp", "160x32xf32", r"( \{train\.backward\}[^:\n]*)"), SCALED.format("2.0"))),
    Pair("mlm-5916b", "wrong_group", DP_EP, Edit(along("dp", "160x32xf32", r"( \{train\.backward\}[^:\n]*)"), OVER.format('"ep"'))),
    Pair("mlm-6080", "wrong_group", DP_EP, Edit(along("dp", "160x32xf32", r"( \{train\.backward\}[^:\n]*)"), OVER.format('"dp", "ep"'), 1)),
    Pair("mlm-1622", "wrong_group", DP_EP, Edit(accumulation_of("2x32x128xf32"), REDUCED.format('"dp", "ep"'))),
    Pair("mlm-4769", "stale_value", EP2, Edit(r"( *)(%\w+, %\w+, %\w+ = train\.adamw\()(%\w+)(, [^\n]*: tensor<2x32x128xf32>)", r"\1%zero = aten.mul_scalar(\3, other = 0.0) : (tensor<2x32x128xf32>) -> tensor<2x32x128xf32>" + "\n" + r"\1\2%zero\4", 0, "update")),
    Pair("entangle-4", "wrong_layout", Source("gpt_untied", "tp2"), Edit(r"( *)(%\w+, %\w+, %\w+ = aten\.native_layer_norm\(%\w+, normalized_shape = \[32\], )(%arg2)\b", r'\1%own = dist.reduce_scatter avg(\3) dim 0 over @mesh ["tp"] : tensor<32xf32> -> tensor<16xf32>' + "\n" + r"\1%tiled = aten.cat([%own, %own], dim = 0) : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>" + "\n" + r"\1\2%tiled")),
    # The norm of all gradients: of which copies, over which ranks.
    Pair("mlm-7452-08", "wrong_count", CLIP_TP, Edit(along("tp", "f32"), NO_REDUCTION, 2, "update")),
    Pair("mlm-6470", "wrong_count", CLIP_EP, Edit(along("ep", "f32"), NO_REDUCTION, 0, "update")),
    Pair("rocm-te-715", "wrong_count", CLIP_TP, Edit(NORM_OF.format("32xf32"), r"\1%square = aten.mul(\3, \3) : (\5, \5) -> \5" + "\n" + r"\1%total = aten.sum(%square) : (\5) -> tensor<f32>" + "\n" + r'\1%all = dist.all_reduce sum(%total) over @mesh ["tp"] : tensor<f32>' + "\n" + r"\1\2 = aten.sqrt(%all)\4 : (tensor<f32>) -> tensor<f32>", 0, "update")),
    Pair("traincheck-deepspeed-1801", "wrong_count", CLIP_TP, Edit(NORM_OF.format("32xf32"), r'\1%place = dist.axis_index over @mesh ["tp"] : tensor<i64>' + "\n" + r"\1%first = aten.eq_scalar(%place, other = 0) : (tensor<i64>) -> tensor<i1>" + "\n" + r"\1%norm = aten.linalg_vector_norm(\3, ord = 2.000000e+00) : (\5) -> tensor<f32>" + "\n" + r"\1\2 = aten.mul(%norm, %first)\4 : (tensor<f32>, tensor<i1>) -> tensor<f32>", 0, "update")),
    Pair("pt-170862", "wrong_count", CLIP_FSDP, Edit(along("dp", "f32"), NO_REDUCTION, 0, "update")),
    Pair("veomni-862", "wrong_count", CLIP_HSDP, Edit(along("shards", "f32"), OVER.format('"replicas", "shards"'), 0, "update")),
    Pair("ds-7718", "dropped_contribution", CLIP_FSDP, Edit(r"aten\.mul\((%\w+), \1\)([^\n]*?: )\((tensor<128x32xf32>), tensor<128x32xf32>\)", r"aten.mul_scalar(\1, other = 0.0)\2(\3)", 0, "update")),
    Pair("torchrec-3199", "wrong_value_in_op", CLIP_HSDP, Edit(r"( *)(%\w+) = (aten\.linalg_vector_norm\(%\w+, ord = 2\.000000e\+00\))([^:\n]*): \((tensor<\d+xf32>)\) -> tensor<f32>( loc.*)?\n( *%\w+ = aten\.add_scalar)", r"\1%norm = \3\4: (\5) -> tensor<f32>" + "\n" + r"\1\2 = aten.pow_tensor_scalar(%norm, exponent = 0)\4: (tensor<f32>) -> tensor<f32>" + "\n" + r"\7", 0, "update")),
    Pair("miles-35", "wrong_count", Source("gpt_untied", "fsdp2", both=("--measure-gradient-norm",)), Edit(along("dp", "f32"), NO_REDUCTION, 0, "update")),
    # Hybrid and fully sharded parameters, and states that are sharded alone.
    Pair("pt-155903", "wrong_scale", HSDP22, Edit(along("replicas", r"[\w.]+"), AVERAGE, 0, "update")),
    Pair("pt-154888", "missing_reduction", HSDP21, Edit(along("replicas", r"[\w.]+"), NO_REDUCTION, 0, "update")),
    Pair("verl-7493", "missing_reduction", HSDP21, Edit(along("replicas", r"[\w.]+"), NO_REDUCTION, 4, "update")),
    Pair("mlm-950", "stale_value", Source("gpt_untied", annotate=zero1), Edit(r"dist\.all_gather\(%newParameter\)", "dist.all_gather(%1)", 0, "update")),
    # What a value of ranks is taken for.
    Pair("pt-179502", "wrong_layout", Source("gpt_untied", "tp2"), Edit(r"( *)(%\w+) = dist\.all_gather\((%\w+)\) dim 1 over (@mesh \[.*?\])([^:\n]*): tensor<64x48xf32> -> tensor<64x96xf32>", r"\1%rows = dist.all_gather(\3) dim 0 over \4 : tensor<64x48xf32> -> tensor<128x48xf32>" + "\n" + r"\1\2 = aten.view(%rows, size = [64, 96])\5: (tensor<128x48xf32>) -> tensor<64x96xf32>")),
    Pair("pt-178785", "missing_reduction", Source("gpt_untied", "tp2"), Edit(reduction_of("64x1xf32"), NO_REDUCTION)),
    Pair("pt-167686", "wrong_layout", Source("gpt_untied", "tp2"), Edit(r"(aten\.div_scalar\(%all_\d+, other = )2\.0(\) : \(tensor<64x48xf32>)", r"\g<1>1.0\2")),
    Pair("pt-172932", "wrong_scale", Source("llama", "tp2"), Edit(IN_BACKWARD, AVERAGE, 3)),
    Pair("mlm-7452-11", "missing_reduction", Source("llama", "tp2, sequence"), Edit(reduction_of("32xf32"), NO_REDUCTION, 3, "update")),
    # Accumulation, pipelines, and backwards in parts.
    Pair("entangle-6", "wrong_scale", Source("gpt_untied", "dp2"), Edit(SEED, ONES)),
    Pair("hf-35438", "wrong_scale", Source("gpt_targets", "dp2"), Edit(SEED, ONES)),
    Pair("titan-2972", "wrong_scale", PIPELINE, Edit(r"(aten\.nll_loss_backward\(.*?reduction = )1", r"\g<1>2", 0, "backward_1")),
    Pair("piper-13", "unsynced_replica", PIPELINE, Edit(TIED, r"\1\2 = aten.mul_scalar(\3, other = 1.0)\5 : (\6) -> \6", 0, "backward_0")),
    Pair("mlm-656", "unsynced_replica", PIPELINE, Edit(TIED, r"\1\2 = aten.mul_scalar(\4, other = 1.0)\5 : (\6) -> \6", 0, "backward_0")),
    Pair("pt-180952", "double_reduction", Source("gpt_tied", "dp2", passes=("--partition-joint", "--split-backward")), Edit(TIED, r"\1%one = aten.add(\3, \4) : (\6, \6) -> \6" + "\n" + r"\1\2 = aten.add(%one, \4)\5 : (\6, \6) -> \6", 0, "backward_weight")),
    Pair("xla-4690", "wrong_seed", Source("gpt_dropout", "dp2", passes=("--partition-joint=policy=min-cut recompute=all",)), Edit(r"(rng_native_dropout\(.*?position = )4096", r"\g<1>4097", 0, "backward"), is_typed=True),
    Pair("traincheck-lightning-thunder-725", "wrong_dtype", Source("gpt_autocast", passes=("--partition-joint",)), Edit(r"( *)(%\w+) = aten\.mm\((%\w+), (%\w+)\)([^:\n]*): \(tensor<(\w+)xbf16>, tensor<(\w+)xbf16>\) -> tensor<(\w+)xbf16>", r"\1%a = aten._to_copy(\3, dtype = f32) : (tensor<\6xbf16>) -> tensor<\6xf32>" + "\n" + r"\1%b = aten._to_copy(\4, dtype = f32) : (tensor<\7xbf16>) -> tensor<\7xf32>" + "\n" + r"\1%c = aten.mm(%a, %b)\5: (tensor<\6xf32>, tensor<\7xf32>) -> tensor<\8xf32>" + "\n" + r"\1\2 = aten._to_copy(%c, dtype = bf16) : (tensor<\8xf32>) -> tensor<\8xbf16>", 0, "forward")),
]  # fmt: skip

# No run shows these: one takes a sum of gradients before there is one, one rounds in another place, and in two the gradient that
# counts in the norm is so small that it makes no difference above the tolerance.
NOT_REFUTED = ("titan-1733", "traincheck-lightning-thunder-725", "rocm-te-715", "traincheck-deepspeed-1801")
# Where the op that is named is neither the edited one nor a direct user of what it makes: it is at the line of the
# same op of the model, or further on.
FAR = {
    "torchtune-2420": "aten.add",
    "pt-115967": "aten.embedding_dense_backward",
    "pt-165962": "aten.amax",
    "pt-190746": "aten.mm",
    "pt-178785": "aten.sub",
    "pt-167686": "dist.all_reduce",
    "pt-172932": "aten.add",
    "xla-4690": "aten.full",
}

# What looks like such an error, and is right.
CONTROLS = [
    Pair("control-bigscience-394", "correct_program", Source("gpt_untied", "tp2"), Edit(r"func.func", "func.func")),
    Pair("control-titan-2217", "correct_program", Source("llama", "tp2, sequence"), Edit(r"func.func", "func.func")),
    Pair("control-nanogpt-206", "correct_program", Source("gpt_untied", "dp2"), Edit(ALL_REDUCE, MEAN_OF_DOUBLE, 3, "update")),
    Pair("own-mean-of-sums", "correct_program", Source("gpt_untied", "tp2"), Edit(ALL_REDUCE, SUM_OF_MEANS, 1)),
    Pair("own-mean-in-backward", "correct_program", Source("llama", "tp2"), Edit(IN_BACKWARD, SUM_OF_MEANS, 2)),
    Pair("own-two-maxima", "correct_program", Source("gpt_untied", "tp2"), Edit(r"( *)(%\w+) = (dist\.all_reduce max)\((%\w+)\)( over .*? : tensor<\w+>)", r"\1%once = \3(\4)\5" + "\n" + r"\1\2 = \3(%once)\5")),
    Pair("own-mean-times-ranks", "correct_program", DP2, Edit(ALL_REDUCE, r"\1%mean = dist.all_reduce avg(\3) over \4: \6" + "\n" + r"\1\2 = aten.mul_scalar(%mean, other = 2.0)\5: (\6) -> \6", 1, "update")),
    Pair("own-halved-before", "correct_program", DP2, Edit(ALL_REDUCE, r"\1%half = aten.mul_scalar(\3, other = 0.5) : (\6) -> \6" + "\n" + r"\1%sum = dist.all_reduce sum(%half) over \4: \6" + "\n" + r"\1\2 = aten.mul_scalar(%sum, other = 2.0)\5: (\6) -> \6", 2, "update")),
    Pair("own-scattered-and-gathered", "correct_program", DP2, Edit(reduction_of("96x32xf32"), r"\1%part = dist.reduce_scatter sum(\3) dim 0 over \4 : \6 -> tensor<48x32xf32>" + "\n" + r"\1\2 = dist.all_gather(%part) dim 0 over \4\5: tensor<48x32xf32> -> \6", 0, "update")),
    Pair("own-scattered-elsewhere", "correct_program", DP2, Edit(reduction_of("96x32xf32"), r"\1%part = dist.reduce_scatter sum(\3) dim 1 over \4 : \6 -> tensor<96x16xf32>" + "\n" + r"\1\2 = dist.all_gather(%part) dim 1 over \4\5: tensor<96x16xf32> -> \6", 0, "update")),
    Pair("own-one-axis-then-the-other", "correct_program", DP_EP, Edit(r'( *)(%\w+) = dist\.all_reduce sum\((%\w+)\) over @mesh \["dp", "ep"\]([^:\n]*): (tensor<[\w.]+>)', r'\1%first = dist.all_reduce sum(\3) over @mesh ["ep"] : \5' + "\n" + r'\1\2 = dist.all_reduce sum(%first) over @mesh ["dp"]\4: \5', 0, "update")),
    Pair("own-axes-in-another-order", "correct_program", DP_EP, Edit(r'(dist\.all_reduce sum\(%\w+\) over @mesh \[)"dp", "ep"', r'\1"ep", "dp"', 0, "update")),
    Pair("own-mean-of-what-all-have", "correct_program", DP2, Edit(ALL_REDUCE, SUM_OF_MEANS, 4, "update")),
    Pair("own-maximum-of-what-all-have", "correct_program", CLIP_FSDP, Edit(along("dp", "f32"), r"\1%sum = dist.all_reduce sum(\3) over \4 : \6" + "\n" + r"\1\2 = dist.all_reduce max(%sum) over \4\5: \6", 0, "update")),
    Pair("own-scaled-and-back", "correct_program", DP2, Edit(ACCUMULATE, r"\1%large = aten.mul_scalar(\3, other = 1024.0) : (\6) -> \6" + "\n" + r"\1%small = aten.div_scalar(%large, other = 1024.0) : (\6) -> \6" + "\n" + r"\1\2 = train.accumulate %small into \4\5: \6")),
    Pair("own-negated-twice", "correct_program", DP2, Edit(ACCUMULATE, r"\1%minus = aten.neg(\3) : (\6) -> \6" + "\n" + r"\1%plus = aten.neg(%minus) : (\6) -> \6" + "\n" + r"\1\2 = train.accumulate %plus into \4\5: \6")),
    Pair("own-halves-added", "correct_program", DP2, Edit(ACCUMULATE, r"\1%half = aten.mul_scalar(\3, other = 0.5) : (\6) -> \6" + "\n" + r"\1%whole = aten.add(%half, %half) : (\6, \6) -> \6" + "\n" + r"\1\2 = train.accumulate %whole into \4\5: \6", 3)),
    Pair("own-nothing-added", "correct_program", DP2, Edit(ACCUMULATE, r"\1%nothing = aten.sub(\3, \3) : (\6, \6) -> \6" + "\n" + r"\1%same = aten.add(\3, %nothing) : (\6, \6) -> \6" + "\n" + r"\1\2 = train.accumulate %same into \4\5: \6", 2)),
    Pair("own-unused-reduction", "correct_program", DP2, Edit(ALL_REDUCE, r"\1%unused = dist.all_reduce max(\3) over \4 : \6" + "\n" + r"\1\2 = dist.all_reduce sum(\3) over \4\5: \6", 0, "update")),
    Pair("own-gathered-again", "correct_program", Source("gpt_untied", "fsdp2"), Edit(r"( *)(%\w+) = dist\.all_gather\((%\w+)\) dim 0 over (@mesh \[.*?\])([^:\n]*): (tensor<[\w.]+>) -> (tensor<[\w.]+>)", r"\1%whole = dist.all_gather(\3) dim 0 over \4 : \6 -> \7" + "\n" + r"\1%part = dist.reduce_scatter avg(%whole) dim 0 over \4 : \7 -> \6" + "\n" + r"\1\2 = dist.all_gather(%part) dim 0 over \4\5: \6 -> \7")),
    Pair("own-from-one-rank", "correct_program", DP2, Edit(ALL_REDUCE, r"\1%sum = dist.all_reduce sum(\3) over \4 : \6" + "\n" + r"\1\2 = dist.broadcast(%sum) root 1 over \4\5: \6", 1, "update")),
    Pair("own-transposed-twice", "correct_program", DP2, Edit(r"( *)(%\w+) = train\.accumulate (%\w+) into (%\w+)([^:\n]*): (tensor<32x32xf32>)", r"\1%rows = aten.t(\3) : (\6) -> \6" + "\n" + r"\1%columns = aten.t(%rows) : (\6) -> \6" + "\n" + r"\1\2 = train.accumulate %columns into \4\5: \6")),
    Pair("own-offset-in-two", "correct_program", Source("gpt_untied", "tp2"), Edit(r"( *)(%\w+) = aten\.mul_scalar\((%\w+), other = 128\)([^:\n]*): \(tensor<i64>\) -> tensor<i64>", r"\1%half = aten.mul_scalar(\3, other = 64) : (tensor<i64>) -> tensor<i64>" + "\n" + r"\1\2 = aten.mul_scalar(%half, other = 2)\4: (tensor<i64>) -> tensor<i64>")),
    Pair("own-share-of-a-64th", "correct_program", EP2, Edit(r"aten\.div_scalar(\(%\w+, other = )6\.400000e\+01", r"aten.mul_scalar\g<1>1.562500e-02")),
    Pair("own-norm-by-squares", "correct_program", CLIP_TP, Edit(NORM_OF.format("32xf32"), r"\1%square = aten.mul(\3, \3) : (\5, \5) -> \5" + "\n" + r"\1%total = aten.sum(%square) : (\5) -> tensor<f32>" + "\n" + r"\1\2 = aten.sqrt(%total)\4 : (tensor<f32>) -> tensor<f32>", 1, "update")),
]  # fmt: skip

"""Local programs without types, and what known errors of distributed training do to them.

A pair is an example model's local program, right, and the same with one edit that is a known error of its kind.
Types inside of the programs are erased first: they refuse most of these errors, and the prover must find them
without. The edits are text, and know nothing of the prover.
"""

import dataclasses
import re


def erase(text):
    """The program without placements, but for those of arguments and results."""
    text = re.sub(
        r"^(      (?:%\w+: )?)(tensor<[\w.]+), (#\w+)> \{", r"\1\2> {dist.placement = \3, ", text, flags=re.MULTILINE
    )
    # What ranks do not share, one of them keeps.
    text = re.sub(r"(dist\.)convert( .* -> tensor<[\w.]+, #P\w*>)", r"\1keep\2", text)
    text = re.sub(r"(tensor<[\w.]+), #\w+>", r"\1>", text)
    size = int(re.search(r'dist.mesh @\w+ \["\w+" = (\d+)\]', text)[1])
    lines, renamed = [], {}
    for line in text.splitlines():
        if line.startswith("  func.func"):
            renamed = {}
        line = re.sub(r"%\w+", lambda found: renamed.get(found[0], found[0]), line)
        converted = re.match(r"    (%\w+) = dist\.(reinterpret|convert|keep) (%\w+).*? : (\S+) -> (\S+)", line)
        if converted:
            result, name, operand, before, after = converted.groups()
            if before == after and name != "keep":
                renamed[result] = operand
                continue
            whole, part = (re.findall(r"\d+(?=x)", of) for of in (before, after))
            dims = [dim for dim, sizes in enumerate(zip(whole, part, strict=True)) if sizes[0] != sizes[1]]
            if dims:
                # A rank's part of what all have: of their sum it is as many times as much.
                axis = re.search(r'dist.mesh (@\w+) \["(\w+)"', text)
                scattered = f"%all_{result[1:]}"
                lines.append(
                    f"    {scattered} = dist.reduce_scatter sum({operand}) dim {dims[0]} over {axis[1]} "
                    f'["{axis[2]}"] : {before} -> {after}'
                )
                operand = scattered
            # All have their share in place of one: the sum is the same.
            line = f"    {result} = aten.div_scalar({operand}, other = {size}.0) : ({after}) -> {after}"
        line = re.sub(r"( = dist\.all_reduce .* : )(tensor<[\w.]+>) -> \2", r"\1\2", line)
        line = re.sub(r"( = train\.\w+\(.*\} : tensor<[\w.]+>), tensor<f32>, tensor<f64>", r"\1", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class Edit:
    """`old` is a pattern that must occur at least `number` + 1 times."""

    old: str
    new: str
    number: int = 0
    function: str = "microbatch"

    def __call__(self, text):
        begin = text.index(f"func.func @{self.function}(")
        found = list(re.finditer(self.old, text[begin:]))
        assert found, self.old
        match = found[self.number]
        at, end = begin + match.start(), begin + match.end()
        return text[:at] + match.expand(self.new) + text[end:]


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


@dataclasses.dataclass(frozen=True)
class Pair:
    """`row`: the project, and the number of the report. `op`: the op that must be named, which has the edited value
    or is its first user that is not linear."""

    row: str
    kind: str
    model: str
    mesh: str
    edit: Edit
    op: str = ""
    is_typed: bool = False

    def right(self, text):
        return text if self.is_typed else erase(text)


PAIRS = [
    # Reductions that are missing.
    Pair("entangle-5", "missing_reduction", "gpt_untied", "tp2", Edit(ALL_REDUCE, NO_REDUCTION, 1), "aten.add"),
    Pair("applece-42", "missing_reduction", "gpt_untied", "tp2", Edit(IN_BACKWARD, NO_REDUCTION, 1), "aten.native_layer_norm_backward"),
    Pair("titan-1805", "missing_reduction", "gpt_untied", "tp2", Edit(IN_BACKWARD, NO_REDUCTION, 3), "aten.native_layer_norm_backward"),
    Pair("entangle-9", "missing_reduction", "llama", "tp2, sequence", Edit(ALL_REDUCE, NO_REDUCTION, 1, "update"), "train.adamw"),
    Pair("mlm-1446", "missing_reduction", "llama", "tp2, sequence", Edit(ALL_REDUCE, NO_REDUCTION, -1, "update"), "train.adamw"),
    Pair("te-435", "missing_reduction", "llama", "tp2, sequence", Edit(ALL_REDUCE, NO_REDUCTION, 0, "update"), "train.adamw"),
    Pair("pt-98281", "missing_reduction", "gpt_untied", "dp2", Edit(ALL_REDUCE, NO_REDUCTION, 3, "update"), "train.adamw"),
    # Counted twice.
    Pair("mlm-6839b", "double_reduction", "gpt_untied", "tp2", Edit(IN_BACKWARD, DOUBLE, 1), "aten.view"),
    Pair("autoparallel-517", "double_reduction", "gpt_untied", "dp2", Edit(ALL_REDUCE, DOUBLE, 2, "update"), "train.adamw"),
    Pair("areno-496", "double_reduction", "llama", "tp2", Edit(ALL_REDUCE, DOUBLE, 1), "aten._unsafe_view"),
    # Scaled by the wrong number.
    Pair("hf-34373", "wrong_scale", "gpt_untied", "dp2", Edit(ALL_REDUCE, NO_REDUCTION, 0), "aten.div"),
    Pair("hf-37474", "wrong_scale", "gpt_untied", "dp2", Edit(ALL_REDUCE, AVERAGE, 1, "update"), "train.adamw"),
    Pair("torchtune-2420", "wrong_scale", "gpt_untied", "tp2", Edit(ALL_REDUCE, AVERAGE, 2), "aten.view"),
    Pair("pt-115967", "wrong_scale", "llama", "tp2", Edit(IN_BACKWARD, AVERAGE, 1), "aten.view"),
    # Cut, or masked, at the wrong place.
    Pair("slime-73", "wrong_offset", "gpt_untied", "tp2", Edit(r"other = 128\) : \(tensor<i64>", "other = 64) : (tensor<i64>"), "aten.embedding"),
    Pair("pt-144109", "wrong_offset", "gpt_untied", "tp2", Edit(r"(ge_scalar\(%\w+, other = )128", r"\g<1>127"), "aten.embedding"),
    Pair("pt-172350", "wrong_layout", "gpt_untied", "tp2", Edit(r"(masked_fill_scalar\(%\w+, %\w+, value = )-100", r"\g<1>0"), "aten.nll_loss_forward"),
    Pair("pt-165962", "op_before_reduction", "gpt_untied", "tp2", Edit(r"( *)(%\w+) = dist\.all_reduce max\((%\w+)\) over .*? : (tensor<\w+>)", r"\1\2 = aten.mul_scalar(\3, other = 1.0) : (\4) -> \4"), "aten.amax"),
    # An old value, and another one's.
    Pair("instructlab-414", "dropped_contribution", "gpt_untied", "dp2", Edit(r"train\.accumulate (%\w+) into (%arg\d+) : (tensor<256x32xf32>)", r"aten.mul_scalar(\1, other = 1.0) : (\3) -> \3"), "aten.mul_scalar"),
    Pair("ds-5059", "stale_value", "gpt_untied", "dp2", Edit(r"train\.adamw\(%arg2, ", "train.adamw(%arg3, ", 0, "update"), "train.adamw"),
    # Numbers that are drawn twice, or differ from those of one device.
    Pair("oneflow-9941", "wrong_seed", "gpt_philox", "dp2", Edit(r"position = [1-9]\d*", "position = 0"), "aten.rng_native_dropout", is_typed=True),
    Pair("flashattn-315", "wrong_seed", "gpt_philox", "tp2", Edit(r"position = [1-9]\d*", "position = 0", -1), "aten.rng_native_dropout", is_typed=True),
    # Others of the same kinds, in other models and at other places.
    Pair("pt-144530", "missing_reduction", "gpt_untied", "dp2", Edit(ALL_REDUCE, NO_REDUCTION, 5, "update"), "train.adamw"),
    Pair("mlm-6839a", "missing_reduction", "llama", "tp2", Edit(IN_BACKWARD, NO_REDUCTION, 2), "aten.mul"),
    Pair("pt-121653", "missing_reduction", "gpt_untied", "tp2", Edit(IN_BACKWARD, NO_REDUCTION, 2), "aten.native_layer_norm_backward"),
    Pair("entangle-8", "missing_reduction", "llama", "tp2, sequence", Edit(ALL_REDUCE, NO_REDUCTION, 2, "update"), "train.adamw"),
    Pair("mlm-906", "wrong_scale", "gpt_untied", "dp2", Edit(ALL_REDUCE, SCALED.format(2.0), 0), "aten.div"),
    Pair("mlm-673", "wrong_scale", "gpt_untied", "dp2", Edit(ALL_REDUCE, SCALED.format(0.5), 0), "aten.div"),
    Pair("pt-144352", "wrong_scale", "gpt_untied", "dp2", Edit(ACCUMULATE, TWICE), "train.accumulate"),
    Pair("titan-1733", "wrong_scale", "gpt_untied", "dp2", Edit(ACCUMULATE, MOVING_AVERAGE), "train.accumulate"),
    Pair("entangle-2", "wrong_scale", "gpt_untied", "tp2", Edit(ALL_REDUCE, SCALED.format(2.0), 1), "aten.view"),
    Pair("ds-8224", "dropped_contribution", "gpt_tied", "dp2", Edit(r"( *)(%\w+) = aten\.add\((%\w+), (%\w+)\)([^\n]*) : \((tensor<256x32xf32>), tensor<256x32xf32>\) -> tensor<256x32xf32>", r"\1\2 = aten.mul_scalar(\3, other = 1.0)\5 : (\6) -> \6"), "train.accumulate"),
    Pair("mlm-4828", "wrong_seed", "gpt_philox", "cp2", Edit(r"position = [1-9]\d*", "position = 0"), "aten.rng_native_dropout", is_typed=True),
    Pair("pt-190746", "dropped_contribution", "gpt_untied", "dp2", Edit(r"( *)(%\w+) = aten\._log_softmax_backward_data\((%\w+), .*?\)([^\n]*) : \((tensor<\w+>), tensor<\w+>\) -> tensor<\w+>", r"\1\2 = aten.mul_scalar(\3, other = 1.0)\4 : (\5) -> \5"), "aten.view"),
    Pair("ds-966", "wrong_value_in_op", "gpt_untied", "dp2", Edit(ALL_REDUCE, MAXIMUM, 1, "update"), "dist.all_reduce"),
]  # fmt: skip

# What looks like such an error, and is right.
CONTROLS = [
    Pair("control-bigscience-394", "correct_program", "gpt_untied", "tp2", Edit(r"func.func", "func.func")),
    Pair("control-titan-2217", "correct_program", "llama", "tp2, sequence", Edit(r"func.func", "func.func")),
    Pair("control-nanogpt-206", "correct_program", "gpt_untied", "dp2", Edit(ALL_REDUCE, MEAN_OF_DOUBLE, 3, "update")),
    Pair("own-mean-of-sums", "correct_program", "gpt_untied", "tp2", Edit(ALL_REDUCE, SUM_OF_MEANS, 1)),
    Pair("own-mean-in-backward", "correct_program", "llama", "tp2", Edit(IN_BACKWARD, SUM_OF_MEANS, 2)),
    Pair("own-two-maxima", "correct_program", "gpt_untied", "tp2", Edit(r"( *)(%\w+) = (dist\.all_reduce max)\((%\w+)\)( over .*? : tensor<\w+>)", r"\1%once = \3(\4)\5" + "\n" + r"\1\2 = \3(%once)\5")),
]  # fmt: skip

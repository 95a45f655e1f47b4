"""Tensor parallelism by the names of modules: what a user would write who knows which layers widen and which narrow."""

import re

from torch import nn

from cleave import ColwiseParallel, RowwiseParallel

# Ends of module paths: layers that make heads or the wide dimension, and those that sum over it.
COLUMNS = r"""
    (q|k|v|query|key|value|gate|up|in|q_a|q_b|kv_b)_proj | c_attn | qkv | [qkv]_lin | wq | wk | wv | wq_b | wkv_b
    | (attention|attn|self|SelfAttention|EncDecAttention|core_attention|mixer)\.(query|key|value|q|k|v)
    | c_fc | fc1 | fc_in | lin1 | wi | wi_[01] | ffn | ff\.layer_1 | intermediate\.dense | (mlp|feed_forward|experts)\.w[13] | conv_pw
"""
ROWS = r"""
    (out|o|down)_proj | c_proj | attn\.proj | out_lin | wo
    | (SelfAttention|EncDecAttention)\.o | attention\.(output\.)?dense | output\.dense | ffn_output
    | fc2 | fc_out | lin2 | ff\.layer_2 | (mlp|feed_forward|experts)\.w2 | conv_pwl
"""


def _ends_with(text):
    return re.compile(rf"(^|.*\.)({''.join(text.split())})$")


_STYLES = ((_ends_with(ROWS), RowwiseParallel), (_ends_with(COLUMNS), ColwiseParallel))


def tensor_parallel(module, used):
    """Pairs of pattern and style for modules whose weight is among these parameters, equal layers once; none where
    no name is known."""
    rules = {}
    for name, part in module.named_modules():
        weight = getattr(part, "weight", None)
        is_layer = isinstance(weight, nn.Parameter) and weight.dim() >= 2 and not isinstance(part, nn.Embedding)
        if not is_layer or f"{name}.weight" not in used:
            continue
        style = next((style for pattern, style in _STYLES if pattern.match(name)), None)
        if style:
            rules[re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)] = style()
    return list(rules.items())

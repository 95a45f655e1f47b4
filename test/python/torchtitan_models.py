"""The models of torchtitan (torchtitan.models), narrowed: few layers, small widths.

Of the shape of hugging_face.py: MODELS names them, and make(name) gives a model's ExportSpec, a training step with
AdamW. An entry is a function that makes the module; `dtype` other than float32 makes its parameters in that type
(rotary embeddings and norms compute in float32 all the same).
"""

import contextlib
import functools

import cleave_path  # noqa: F401
import cleave
import torch
from torch.nn.functional import cross_entropy

BATCH, LENGTH, VOCABULARY = 2, 8, 64


def _llama3():
    from torchtitan.models.llama3.model.args import TransformerModelArgs
    from torchtitan.models.llama3.model.model import Transformer

    return Transformer(
        TransformerModelArgs(
            dim=32, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=VOCABULARY, multiple_of=16, rope_theta=500000,
            max_seq_len=4 * LENGTH,
        )
    )  # fmt: skip


def _qwen3(**changes):
    from torchtitan.models.qwen3.model.args import Qwen3ModelArgs
    from torchtitan.models.qwen3.model.model import Qwen3Model

    return Qwen3Model(
        Qwen3ModelArgs(
            dim=32, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=VOCABULARY, head_dim=8, hidden_dim=48,
            max_seq_len=4 * LENGTH, **changes,
        )
    )  # fmt: skip


def _qwen3_moe(use_grouped_mm=True):
    from torchtitan.models.moe import MoEArgs

    experts = MoEArgs(
        num_experts=8, num_shared_experts=0, top_k=2, score_func="softmax", route_norm=True, route_scale=1.0,
        score_before_experts=False, use_grouped_mm=use_grouped_mm,
    )  # fmt: skip
    return _qwen3(moe_enabled=True, moe_inter_dim=16, moe_args=experts)


def _deepseek_v3(use_grouped_mm=True, layers=2, dense=1):
    from torchtitan.models.deepseek_v3.model.args import DeepSeekV3ModelArgs
    from torchtitan.models.deepseek_v3.model.model import DeepSeekV3Model
    from torchtitan.models.moe import MoEArgs

    experts = MoEArgs(
        num_experts=8, num_shared_experts=1, top_k=2, num_expert_groups=4, num_limited_groups=2, score_func="sigmoid",
        route_norm=True, route_scale=2.5, score_before_experts=False, use_grouped_mm=use_grouped_mm,
    )  # fmt: skip
    arguments = DeepSeekV3ModelArgs(
        vocab_size=VOCABULARY, dim=32, inter_dim=48, moe_inter_dim=16, n_layers=layers, n_dense_layers=dense, n_heads=2,
        moe_args=experts, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        max_seq_len=4 * LENGTH, original_seq_len=2 * LENGTH, mscale=0.7,
    )  # fmt: skip
    arguments.moe_impl = "standard"  # as update_from_config does
    return DeepSeekV3Model(arguments)


def _llama4(use_grouped_mm=True):
    from torchtitan.models.llama4.model.args import TransformerModelArgs
    from torchtitan.models.llama4.model.model import Transformer
    from torchtitan.models.moe import MoEArgs

    experts = MoEArgs(num_experts=4, use_grouped_mm=use_grouped_mm)
    return Transformer(
        TransformerModelArgs(
            dim=32, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=VOCABULARY, multiple_of=16, rope_theta=500000,
            max_seq_len=4 * LENGTH, moe_args=experts,
        )
    )  # fmt: skip


MODELS = {
    "llama3": _llama3,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v3": _deepseek_v3,
    "llama4": _llama4,
}

# Without the casts to bfloat16 around `_grouped_mm`: with a loop over experts instead.
UNCAST = {
    "qwen3_moe_float": functools.partial(_qwen3_moe, False),
    "deepseek_v3_float": functools.partial(_deepseek_v3, False),
    "llama4_float": functools.partial(_llama4, False),
}

# With several layers of each kind.
DEEP = {"deepseek_v3_deep": functools.partial(_deepseek_v3, layers=9, dense=3)}


def token_loss(logits, targets):
    """torchtitan.components.loss.cross_entropy_loss."""
    return cross_entropy(logits.flatten(0, 1).float(), targets.flatten(0, 1))


@functools.cache
def _quiet():
    """torchtitan logs at import."""
    import logging

    logging.getLogger("torchtitan").setLevel(logging.ERROR)


def make(name, dtype=torch.float32, batch=BATCH, seed=0, **changes):
    """A model's ExportSpec; `changes` are fields of it."""
    _quiet()
    torch.manual_seed(seed)
    model = (MODELS | UNCAST | DEEP)[name]()
    with torch.no_grad():
        model.init_weights()
    model = model.train()
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    tokens, targets = (torch.randint(0, VOCABULARY, (batch, LENGTH)) for _ in range(2))
    fields = {"optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3), "name": name} | changes
    return cleave.ExportSpec(model, (tokens,), loss=token_loss, targets=(targets,), **fields)


@contextlib.contextmanager
def runs_on_a_processor():
    """Lets eager mode run torchtitan's experts without a GPU: by torchtitan's own reference of the Triton kernel, and
    counts of integers by another function."""
    from torchtitan.models.moe import kernels

    def count(numbers, bins, min, max):
        assert (min, max) == (0, bins) and not numbers.is_floating_point()
        return torch.bincount(numbers, minlength=bins)

    before = torch.histc, kernels.fill_indices_wrapper
    torch.histc, kernels.fill_indices_wrapper = count, kernels.fill_indices_cpu
    try:
        yield
    finally:
        torch.histc, kernels.fill_indices_wrapper = before


@contextlib.contextmanager
def silu_rounds_alike():
    """Has eager mode compute silu on whole vectors of the processor.

    Its kernel computes what is left after them by another function, of which the last bit can differ: in a loop over
    experts, the rounding of a token depends on how many tokens its expert has.
    """
    before = torch.nn.functional.silu

    def silu(values):
        padding = -values.numel() % 64
        padded = torch.nn.functional.pad(values.flatten(), (0, padding))
        return before(padded)[: values.numel()].view_as(values)

    torch.nn.functional.silu = silu
    try:
        yield
    finally:
        torch.nn.functional.silu = before

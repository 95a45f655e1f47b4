"""The models of PyTorch's Hugging Face dashboard (benchmarks/dynamo/huggingface_models_list.txt), narrowed.

Each is made by transformers, with few layers and small widths; what else its configuration says stays, dropout
included.
"""

import cleave_path  # noqa: F401
import cleave
import torch

# What these are called differs; a configuration takes those that it has.
NARROW = {
    "vocab_size": 64, "hidden_size": 16, "d_model": 16, "embedding_size": 16, "dim": 16, "n_embd": 16,
    "word_embed_proj_dim": 16, "cross_attention_hidden_size": 16, "intermediate_size": 32, "d_ff": 32,
    "hidden_dim": 32, "ffn_dim": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "d_inner": 32, "d_kv": 8,
    "d_head": 8, "head_dim": 8, "num_hidden_layers": 2, "num_layers": 2, "num_decoder_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "n_layer": 2, "n_layers": 2, "num_attention_heads": 2,
    "num_heads": 2, "n_head": 2, "n_heads": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 32, "max_2d_position_embeddings": 32, "use_cache": False,
}  # fmt: skip

BATCH, LENGTH = 2, 8


def narrow(kind, **changes):
    """A configuration of class `kind`."""
    # By the names that the class itself uses.
    known = {*kind().to_dict(), *kind.attribute_map.values()} - set(kind.attribute_map)
    return kind(**({name: n for name, n in NARROW.items() if name in known} | changes))


def text(config, **inputs):
    """Tokens and their mask, with padding: eager mode looks into a mask and drops one of ones, and so takes another
    kernel than the trace, which may not look."""
    tokens = torch.randint(3, config.get_text_config().vocab_size, (BATCH, LENGTH))
    mask = torch.ones_like(tokens)
    mask[1, :2] = 0
    return {"input_ids": tokens, "attention_mask": mask, **inputs}


def words(config):
    inputs = text(config)
    return inputs | {"labels": inputs["input_ids"].clone()}


def answers(config):
    return text(config, start_positions=torch.tensor([1, 2]), end_positions=torch.tensor([3, 5]))


def classes(config):
    return text(config, labels=torch.tensor([0, 1]))


def boxes(config):
    return {"bbox": torch.tensor([[1, 2, 5, 7]]).repeat(BATCH, LENGTH, 1)}


def layout(config):
    return words(config) | boxes(config)


def layout_classes(config):
    return classes(config) | boxes(config)


def unmasked(config):
    """FNet mixes all tokens, and takes no mask; Gemma 3's loss leaves out what a mask hides, a number that depends on
    data, and the dashboard gives it none."""
    inputs = words(config)
    del inputs["attention_mask"]
    return inputs


def speech(config):
    labels = torch.randint(3, config.vocab_size, (BATCH, LENGTH))
    sound = torch.randn(BATCH, config.num_mel_bins, 2 * config.max_source_positions)
    return {"input_features": sound, "labels": labels}


def typed(config):
    return unmasked(config) | {"token_type_ids": torch.zeros(BATCH, LENGTH, dtype=torch.long)}


def _gemma3(kind):
    from transformers import Gemma3TextConfig, SiglipVisionConfig

    part = narrow(SiglipVisionConfig, image_size=16, patch_size=4)
    return kind(
        text_config=narrow(Gemma3TextConfig).to_dict(), vision_config=part.to_dict(), mm_tokens_per_image=4,
        image_token_index=2, boi_token_index=1, eoi_token_index=1,
    )  # fmt: skip


_WHISPER = {
    "max_source_positions": 16, "max_target_positions": 16, "num_mel_bins": 8, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip

# Names as on the dashboard: the classes of configuration and model, what makes inputs, and what else is changed.
MODELS = {
    "AlbertForMaskedLM": ("Albert", "ForMaskedLM", words),
    "AlbertForQuestionAnswering": ("Albert", "ForQuestionAnswering", answers),
    "AllenaiLongformerBase": ("Longformer", "ForMaskedLM", unmasked, {"attention_window": 4}),
    "BartForCausalLM": ("Bart", "ForCausalLM", words),
    "BartForConditionalGeneration": ("Bart", "ForConditionalGeneration", words),
    "BertForMaskedLM": ("Bert", "ForMaskedLM", words),
    "BertForQuestionAnswering": ("Bert", "ForQuestionAnswering", answers),
    "BlenderbotForCausalLM": ("Blenderbot", "ForCausalLM", words),
    "BlenderbotForConditionalGeneration": ("Blenderbot", "ForConditionalGeneration", words),
    "BlenderbotSmallForCausalLM": ("BlenderbotSmall", "ForCausalLM", words),
    "BlenderbotSmallForConditionalGeneration": ("BlenderbotSmall", "ForConditionalGeneration", words),
    "CamemBert": ("Camembert", "ForMaskedLM", words),
    "DebertaV2ForMaskedLM": ("DebertaV2", "ForMaskedLM", words),
    "DebertaV2ForQuestionAnswering": ("DebertaV2", "ForQuestionAnswering", answers),
    "DistilBertForMaskedLM": ("DistilBert", "ForMaskedLM", words),
    "DistilBertForQuestionAnswering": ("DistilBert", "ForQuestionAnswering", answers),
    "DistillGPT2": ("GPT2", "LMHeadModel", words),
    "ElectraForCausalLM": ("Electra", "ForCausalLM", words, {"is_decoder": True}),
    "ElectraForQuestionAnswering": ("Electra", "ForQuestionAnswering", answers),
    "GPT2ForSequenceClassification": ("GPT2", "ForSequenceClassification", classes, {"pad_token_id": 0}),
    "GPTJForCausalLM": ("GPTJ", "ForCausalLM", words, {"rotary_dim": 4}),
    "GPTJForQuestionAnswering": ("GPTJ", "ForQuestionAnswering", answers, {"rotary_dim": 4}),
    "GPTNeoForCausalLM": ("GPTNeo", "ForCausalLM", words, {"attention_types": [[["global", "local"], 1]]}),
    "GPTNeoForSequenceClassification": (
        "GPTNeo", "ForSequenceClassification", classes,
        {"attention_types": [[["global", "local"], 1]], "pad_token_id": 0},
    ),
    "GoogleFnet": ("FNet", "ForMaskedLM", unmasked),
    "LayoutLMForMaskedLM": ("LayoutLM", "ForMaskedLM", layout),
    "LayoutLMForSequenceClassification": ("LayoutLM", "ForSequenceClassification", layout_classes),
    "M2M100ForConditionalGeneration": (
        "M2M100", "ForConditionalGeneration", words, {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0},
    ),
    "MBartForCausalLM": ("MBart", "ForCausalLM", words),
    "MBartForConditionalGeneration": ("MBart", "ForConditionalGeneration", words),
    "MT5ForConditionalGeneration": ("MT5", "ForConditionalGeneration", words, {"decoder_start_token_id": 0}),
    "MegatronBertForCausalLM": ("MegatronBert", "ForCausalLM", words, {"is_decoder": True}),
    "MegatronBertForQuestionAnswering": ("MegatronBert", "ForQuestionAnswering", answers),
    "MobileBertForMaskedLM": ("MobileBert", "ForMaskedLM", words, {"intra_bottleneck_size": 16}),
    "MobileBertForQuestionAnswering": (
        "MobileBert", "ForQuestionAnswering", answers, {"intra_bottleneck_size": 16},
    ),
    "OPTForCausalLM": ("OPT", "ForCausalLM", words),
    "PLBartForCausalLM": ("PLBart", "ForCausalLM", words),
    "PLBartForConditionalGeneration": ("PLBart", "ForConditionalGeneration", words),
    "PegasusForCausalLM": ("Pegasus", "ForCausalLM", words),
    "PegasusForConditionalGeneration": ("Pegasus", "ForConditionalGeneration", words),
    "RobertaForCausalLM": ("Roberta", "ForCausalLM", words, {"is_decoder": True}),
    "RobertaForQuestionAnswering": ("Roberta", "ForQuestionAnswering", answers),
    "T5ForConditionalGeneration": (
        "T5", "ForConditionalGeneration", words,
        {"decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "T5Small": ("T5", "ForConditionalGeneration", words, {"decoder_start_token_id": 0}),
    "TrOCRForCausalLM": ("TrOCR", "ForCausalLM", words),
    "XGLMForCausalLM": ("XGLM", "ForCausalLM", words),
    "XLNetLMHeadModel": ("XLNet", "LMHeadModel", words),
    "YituTechConvBert": ("ConvBert", "ForMaskedLM", words),
    "meta-llama/Llama-3.2-1B": ("Llama", "ForCausalLM", words, {"tie_word_embeddings": True}),
    "google/gemma-2-2b": ("Gemma2", "ForCausalLM", words, {"query_pre_attn_scalar": 8, "sliding_window": 4}),
    "google/gemma-3-4b-it": ("Gemma3", "ForConditionalGeneration", typed, _gemma3),
    "openai/whisper-tiny": ("Whisper", "ForConditionalGeneration", speech, _WHISPER),
    "Qwen/Qwen3-0.6B": ("Qwen3", "ForCausalLM", words, {"tie_word_embeddings": True}),
    "mistralai/Mistral-7B-Instruct-v0.3": ("Mistral", "ForCausalLM", words),
    "openai/gpt-oss-20b": (
        "GptOss", "ForCausalLM", words,
        {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4},
    ),
}  # fmt: skip


def make(name):
    """A model's ExportSpec: a training step with AdamW, as PyTorch's training dashboard has it."""
    import transformers

    torch.manual_seed(0)
    family, head, inputs, *changes = MODELS[name]
    kind = getattr(transformers, f"{family}Config")
    changes = changes[0] if changes else {}
    config = changes(kind) if callable(changes) else narrow(kind, **changes)
    model = getattr(transformers, f"{family}{head}")(config).train()
    example = inputs(config)
    if "use_cache" in config.get_text_config().to_dict():
        config.get_text_config().use_cache = False
    return cleave.ExportSpec(
        model, (), example, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        name=name.rpartition("/")[2].lower(),
    )  # fmt: skip

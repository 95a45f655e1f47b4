"""What `cleave.trainer.Trainer` makes of each field of transformers.TrainingArguments: none is ignored silently."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import transformers

# Trainer itself follows these around the step, or the step does.
FOLLOWED = frozenset("""
    output_dir overwrite_output_dir do_train do_eval do_predict eval_strategy prediction_loss_only
    per_device_train_batch_size per_device_eval_batch_size per_gpu_train_batch_size per_gpu_eval_batch_size
    gradient_accumulation_steps eval_accumulation_steps eval_delay learning_rate weight_decay adam_beta1 adam_beta2
    adam_epsilon max_grad_norm num_train_epochs max_steps lr_scheduler_type lr_scheduler_kwargs warmup_ratio warmup_steps
    log_level log_level_replica log_on_each_node logging_dir logging_strategy logging_first_step logging_steps
    logging_nan_inf_filter save_strategy save_steps save_total_limit save_safetensors save_on_each_node save_only_model
    restore_callback_states_from_checkpoint no_cuda use_cpu seed data_seed jit_mode_eval bf16 bf16_full_eval local_rank
    ddp_backend dataloader_drop_last eval_steps dataloader_num_workers dataloader_prefetch_factor run_name disable_tqdm
    remove_unused_columns label_names load_best_model_at_end metric_for_best_model greater_is_better ignore_data_skip
    accelerator_config label_smoothing_factor optim optim_args adafactor group_by_length length_column_name report_to
    project trackio_space_id dataloader_pin_memory dataloader_persistent_workers skip_memory_metrics
    use_legacy_prediction_loop push_to_hub resume_from_checkpoint hub_model_id hub_strategy hub_token hub_private_repo
    hub_always_push hub_revision push_to_hub_model_id push_to_hub_organization push_to_hub_token include_inputs_for_metrics
    include_for_metrics eval_do_concat_batches auto_find_batch_size full_determinism ray_scope ddp_timeout
    include_tokens_per_second include_num_input_tokens_seen batch_eval_metrics eval_on_start eval_use_gather_object
    average_tokens_across_devices
""".split())

# They mean something on other devices alone.
ELSEWHERE = frozenset("""
    torch_empty_cache_steps use_mps_device tf32 tpu_num_cores tpu_metrics_debug fp16_opt_level torch_compile_backend
    torch_compile_mode fsdp_min_num_params fsdp_config fsdp_transformer_layer_cls_to_wrap gradient_checkpointing_kwargs
    liger_kernel_config optim_target_modules _n_gpu half_precision_backend fp16_backend
""".split())


def _is_set(value: Any) -> bool:
    return value not in (None, False, "", [], {}, 0)


# Refused where they are set: what to do in their place.
REFUSED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "fp16": (_is_set, "the step scales no loss; bf16=True needs none"),
    "fp16_full_eval": (_is_set, "bf16_full_eval=True, or evaluate in float32"),
    "fsdp": (_is_set, "step={'mesh': {'dp': N}, 'plan': {'': cleave.FSDP('dp')}}"),
    "deepspeed": (_is_set, "step={'mesh': ..., 'plan': ...} shards"),
    "parallelism_config": (_is_set, "step={'mesh': ..., 'plan': ...} lays out"),
    "mp_parameters": (_is_set, "step={'mesh': ..., 'plan': ...} lays out"),
    "torch_compile": (_is_set, "the step is compiled already"),
    "torchdynamo": (_is_set, "the step is compiled already"),
    "use_liger_kernel": (_is_set, "step={'passes': '--fuse-kernels ...'} fuses"),
    "gradient_checkpointing": (_is_set, "step={'passes': '--partition-joint=recompute=all'} recomputes"),
    "neftune_noise_alpha": (_is_set, "noise in the model's forward is traced"),
    "debug": (_is_set, "its hooks look at each op's values, which a program does not show"),
    "past_index": (lambda value: value is not None and value >= 0, "state between batches is not kept"),
    "ddp_find_unused_parameters": (_is_set, "there is no DistributedDataParallel"),
    "ddp_bucket_cap_mb": (_is_set, "step={'passes': '--bucket-gradients=bucket-size-mb=25'}"),
    "ddp_broadcast_buffers": (_is_set, "there is no DistributedDataParallel"),
}


def find_refused(args: transformers.TrainingArguments) -> list[str]:
    """What of the arguments the step would not do, each with what to do instead."""
    found = []
    for field in dataclasses.fields(args):
        value = getattr(args, field.name, None)
        if field.name in REFUSED:
            is_refused, instead = REFUSED[field.name]
            if is_refused(value):
                found.append(f"{field.name}: {instead}")
        elif field.name not in FOLLOWED and field.name not in ELSEWHERE and _differs(field, value):
            found.append(f"{field.name}: it is not known to this version")
    if getattr(args, "use_apex", False):
        found.append("half_precision_backend='apex': bf16=True is PyTorch's autocast")
    return found


def _differs(field: dataclasses.Field, value: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return value != field.default_factory()
    return field.default is not dataclasses.MISSING and value != field.default

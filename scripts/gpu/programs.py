"""The example models as the bundle holds them: programs for a device, and what PyTorch computes for them."""

import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from unittest import mock

import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "examples"), str(ROOT / "scripts" / "gpu" / "target")]

import compare  # noqa: E402
import gpt  # noqa: E402
import huggingface  # noqa: E402
import llama  # noqa: E402
import moe  # noqa: E402
import part_training  # noqa: E402
import tensors  # noqa: E402
import vision  # noqa: E402
from reference import Reference  # noqa: E402

import cleave  # noqa: E402
from cleave import testing  # noqa: E402
from cleave.export.__main__ import load_spec  # noqa: E402
from cleave.export.capture import _Step, capture  # noqa: E402
from cleave.export.inputs import Signature  # noqa: E402
from cleave.export.program import Program  # noqa: E402

MODELS = {
    "gpt_tied": gpt.tied,
    "gpt_untied": gpt.untied,
    "gpt_dropout": gpt.dropout,
    "gpt_checkpointed": gpt.checkpointed,
    "gpt_autocast": gpt.autocast,
    "moe": moe.moe,
    "gpt2": huggingface.gpt2,
    "llama": huggingface.llama,
    "llama_small": llama.small,
    "minilm": huggingface.minilm,
    "resnet18": vision.resnet18,
}
# Computed in bfloat16 as they stand: the model that has their weights and computes in float32.
AUTOCAST = {"gpt_autocast": "gpt_tied"}
# Wholly in bfloat16: one of each kind, and none with numbers of its own. Not ResNet: batch norms stay in float32.
BFLOAT16 = ["gpt_tied", "moe", "llama", "llama_small", "minilm"]
# Gradients that are zero by mathematics: softmax does not see what is added to all scores of a query.
ZERO_GRADIENTS = {"minilm": r"grad\..*\.key\.bias"}
# Batch statistics over few positions magnify rounding: how many steps' losses can be judged, and how closely gradients.
JUDGED_STEPS = {"resnet18": 1}
TOLERANCES = {"resnet18": 2e-5}
STEPS, MICROBATCHES = 4, 2
# Weights of more bytes are drawn where they are needed.
SHIPPED_BYTES = 1 << 20
CLEANUP = ["--cse", "--canonicalize"]


class BuildError(Exception):
    pass


# What kernels are compiled for; the first one is what programs are lowered for.
CHIPS = {"cuda": "sm_90,sm_80,sm_100", "cpu": "x86-64-v2,x86-64-v3,x86-64-v4"}


def compiling(device, chips):
    """The passes that join ops to kernels and compile them."""
    code = f"cpu=none cuda={','.join(chips)}" if device == "cuda" else f"cpu={','.join(chips)}"
    return ["--fuse-kernels", f"--compile-kernels={code}"]


def write_variants(source, folder, names, opt, device, chips, variants, before=()):
    """The forms of a program: `ops` op by op, `kernels` with compiled ones, `exec` wholly lowered. `names` gives the
    file of a form. Kernels are compiled once for both."""
    if "ops" in variants:
        transform(opt, source, folder / names("ops"), before)
    if not {"kernels", "exec"} & set(variants):
        return
    compiled = transform(opt, source, folder / names("kernels"), [*before, *compiling(device, chips)])
    if "exec" in variants:
        chip = f" chip={chips[0]}" if device == "cuda" else ""
        transform(opt, compiled, folder / names("exec"), [f"--lower-to-exec=target={device}{chip}"])
    if "kernels" not in variants:
        compiled.unlink()


def transform(opt, source, output, passes):
    command = [str(opt), str(source), *passes, "--emit-bytecode", "-o", str(output)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise BuildError(f"{source.name} {' '.join(passes)}: {result.stderr.strip()[:2000]}")
    return output


def kernel_names(opt, program):
    """What the compiled kernels of a program are called on the device."""
    text = subprocess.run([str(opt), str(program)], capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(r'<"([^"]+)", chunks = ', text)))


@contextlib.contextmanager
def _causal_masks():
    """Hugging Face's models leave causal masks to attention, as they do when nothing traces them: torch.export would
    keep the vmap that builds them. The values are the same."""
    import transformers.models.gpt2.modeling_gpt2 as gpt2
    import transformers.models.llama.modeling_llama as hf_llama

    with contextlib.ExitStack() as stack:
        for module in (gpt2, hf_llama):
            make = module.create_causal_mask
            stack.enter_context(mock.patch.object(
                module, "create_causal_mask",
                lambda *given, make=make, **named: make(*given, **named) if named.get("attention_mask") is not None else None))  # fmt: skip
        yield


def _not_carried(error):
    text = str(error).strip().splitlines() or [""]
    return BuildError(f"PyTorch's side cannot be carried: {type(error).__name__}: {text[0]}")


def _code(graph):
    """A graph's code, and that of the regions in it (autocast, no_grad) by the names that it calls them."""
    return {"code": graph.code, "regions": {name: _code(child) for name, child in graph.named_children()}}


def describe_reference(spec):
    """What target/reference.py runs."""
    signature = Signature(spec)
    with _causal_masks():
        try:
            exported = torch.export.export(
                _Step(spec, signature), tuple(i.value for i in signature.inputs), strict=False)  # fmt: skip
        except Exception as error:  # whatever torch.export makes of a model
            raise _not_carried(error) from None
    inputs = iter(i.name for i in signature.inputs)
    arguments, constants = [], {}
    for entry in exported.graph_signature.input_specs:
        kind = entry.kind.name.lower()
        if kind == "user_input":
            arguments.append(["input", next(inputs)])
        elif kind in ("parameter", "buffer"):
            arguments.append([kind, entry.target.removeprefix("module.")])
        elif kind == "constant_tensor" and exported.constants[entry.target].numel() <= 1024:
            value = exported.constants[entry.target]
            constants[entry.target] = {"value": value.tolist(), "dtype": tensors.NAMES[value.dtype]}
            arguments.append(["constant", entry.target])
        else:
            raise BuildError(f"{spec.name}: torch.export lifted a {kind}, {entry.target}")
    first, aliases = {}, {}
    for name, parameter in spec.module.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            aliases[name] = first[id(parameter)]
    return {"graph": _code(exported.graph_module), "arguments": arguments, "aliases": aliases,
            "constants": constants}  # fmt: skip


def to_bfloat16(spec):
    def cast(values):
        return tuple(
            v.bfloat16() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in values)  # fmt: skip

    spec.module.to(torch.bfloat16)
    return dataclasses.replace(
        spec, module=spec.module, args=cast(spec.args), targets=cast(spec.targets), name=spec.name + "_bf16",
        plan=None, mesh=None)  # fmt: skip


def describe_optimizer(spec):
    kind = type(spec.optimizer).__name__
    names = {"AdamW": ("lr", "betas", "eps", "weight_decay"),
             "SGD": ("lr", "momentum", "dampening", "weight_decay", "nesterov")}.get(kind)  # fmt: skip
    if names is None:
        raise BuildError(f"expected AdamW or SGD as the optimizer, found {kind}")
    group = spec.optimizer.param_groups[0]
    return [kind, {name: group[name] for name in names}]


def write_model(name, dtype, folder, opt, device, chips, variants):
    """Files of one model in FOLDER, and its entry of the manifest."""
    # Dropout with numbers that a GPU draws as well.
    spec = dataclasses.replace(MODELS[name](), generator="philox", plan=None, mesh=None)
    if dtype == "bf16":
        spec = to_bfloat16(spec)
    return write_spec(spec, name, dtype, folder, opt, device, chips, variants)


def write_other(target, folder, opt, device, chips, variants):
    """The same for a user's own model, FILE:FACTORY, in its own types. Its weights are drawn where they are needed."""
    try:
        spec = dataclasses.replace(load_spec(target), generator="philox", plan=None, mesh=None)
        name = target.rpartition(":")[2]
        folder = folder / f"{name}.own"
        if folder.exists():
            raise BuildError(f"another model of the bundle is called {name}, too")
        entry = write_spec(spec, name, "fp32", folder, opt, device, chips, ["ops", *(v for v in variants if v != "ops")], shipped=0)
        entry |= judge_other(entry, folder, opt) | {"variants": variants}
    except (cleave.ExportError, BuildError) as error:
        raise BuildError(f"{target}: {error}") from None
    if "ops" not in variants:
        (folder / "ops.mlirbc").unlink()
    return entry


def judge_other(entry, folder, opt):
    """What of a user's own model can be judged on another device: how far values may be apart, and for how many steps.

    Both sides are run here, on the processor, first: what the bundle's PyTorch cannot compute as the model does (random
    numbers that it does not draw as Cleave does) is refused. The bound is eight times what changing weights in their last bit
    changes.
    """
    weights = tensors.load_file(folder / "weights.safetensors") | tensors.draw(entry["drawn"], seed=1)
    inputs, data = (tensors.load_file(folder / f"{n}.safetensors") for n in ("inputs", "data"))
    generator = torch.Generator().manual_seed(2)
    changed = {
        n: t * (1 + torch.finfo(t.dtype).eps * (torch.rand(t.shape, generator=generator) - 0.5).sign()).to(t.dtype) if t.is_floating_point() else t
        for n, t in weights.items()
    }  # fmt: skip
    batches = part_training.batches(entry, data, STEPS, MICROBATCHES)
    try:
        side = Reference(json.loads((folder / "reference.json").read_text()), "cpu")
        values, again, near = (side.evaluate(w, inputs) for w in (weights, weights, changed))
        losses, near_losses = (side.train(w, batches, entry["optimizer"]) for w in (weights, changed))
    except Exception as error:  # whatever the model's calls run into by themselves
        raise _not_carried(error) from None
    if any(compare.differences(again, values).values()):
        raise BuildError("PyTorch's side gives other values each time: does the model draw random numbers otherwise than by dropout and bernoulli_?")
    tolerance = max(entry["tolerance"], 8 * compare.worst(compare.differences(near, values))[1])
    with tempfile.TemporaryDirectory() as scratch:
        file, dump = (str(pathlib.Path(scratch) / f"{n}.safetensors") for n in ("weights", "dump"))
        tensors.save_file(weights, file)
        result = subprocess.run(
            [str(opt.with_name("cleave-run")), str(folder / "ops.mlirbc"), "--weights", file, "--inputs", str(folder / "inputs.safetensors"),
             "--dump", dump], capture_output=True, text=True)  # fmt: skip
        if result.returncode:
            raise BuildError(result.stderr.strip()[:2000])
        found = {n: v for n, v in tensors.load_file(dump).items() if n in values or n.startswith("grad.")}
    name, apart = compare.worst(compare.differences(found, values))
    if apart > tolerance:
        raise BuildError(f"here, on the processor, {name} is {apart:.1e} from PyTorch's, expected {tolerance:.1e}")
    judged = [8 * abs(a - b) / abs(b) <= part_training.LOSSES for a, b in zip(losses, near_losses)]
    return {"tolerance": tolerance, "steps": [*judged, False].index(False)}


def write_spec(spec, name, dtype, folder, opt, device, chips, variants, shipped=SHIPPED_BYTES):
    """Weights of more than `shipped` bytes are not among the files."""
    folder.mkdir(parents=True)
    program = Program(spec, capture(spec))
    source = folder / "program.mlir"
    source.write_text(program.text)
    write_variants(source, folder, "{}.mlirbc".format, opt, device, chips, variants, CLEANUP)
    source.unlink()

    parameters = {n for n, _ in spec.module.named_parameters()}
    stored = {n: t.detach().cpu().contiguous().clone() for n, t in program.tensors.items()}
    drawn = {}
    if sum(t.numel() * t.element_size() for t in stored.values()) > shipped:
        for n in [n for n in stored if n in parameters]:
            tensor = stored.pop(n)
            drawn[n] = [list(tensor.shape), tensors.NAMES[tensor.dtype]]
    save_file(stored, folder / "weights.safetensors")
    save_file({n: t.contiguous() for n, t in testing.example_inputs(spec).items()}, folder / "inputs.safetensors")
    generator = torch.Generator().manual_seed(1)
    batch = testing.random_batch(spec, STEPS * MICROBATCHES, generator)
    save_file({n: t.contiguous() for n, t in batch.items()}, folder / "data.safetensors")
    (folder / "reference.json").write_text(json.dumps(describe_reference(spec)))
    return {
        "model": name, "dtype": "bf16" if name in AUTOCAST else dtype, "folder": folder.name,
        "exact": f"{AUTOCAST.get(name, name)}.fp32", "variants": variants, "drawn": drawn,
        "batch": {i.name: i.batch for i in Signature(spec).inputs},
        "rows": {i.name: i.value.shape[i.batch] for i in Signature(spec).inputs if i.batch is not None},
        "optimizer": describe_optimizer(spec), "steps": JUDGED_STEPS.get(name, STEPS), "microbatches": MICROBATCHES,
        "ignored": ZERO_GRADIENTS.get(name), "tolerance": TOLERANCES.get(name, 1e-5),
    }  # fmt: skip


def write_ranks(folder, opt, device, chips, variants):
    """gpt_tied for two ranks: data parallel, as a pipeline of two stages, fully sharded, and with MLPs in two parts."""
    spec = MODELS["gpt_tied"]()
    folder.mkdir(parents=True)
    program = Program(spec, capture(spec))
    source = folder / "program.mlir"
    source.write_text(program.text)
    forms = {
        "data": ["--sync-gradients=axis=dp", "--bucket-gradients"],
        "pipeline": ["--outline-stages=count=2 balance=cost",
                     f"--build-schedule=schedule=1f1b ranks=2 microbatches={2 * MICROBATCHES}",
                     "--insert-p2p", "--verify-schedule"],
    }  # fmt: skip
    plans = {
        "fsdp": cleave.Plan({"dp": 2}, {"": cleave.FSDP()}),
        "tensor": cleave.Plan({"tp": 2}, {"h.*.mlp.c_fc": cleave.ColwiseParallel(), "h.*.mlp.c_proj": cleave.RowwiseParallel()}),
    }  # fmt: skip
    for form, plan in plans.items():
        plan.write(folder / f"{form}.plan.json")
        forms[form] = [f"--annotate-placements=plan={folder / form}.plan.json", "--propagate-placements", "--partition",
                       "--simplify-communication", "--bucket-gradients"]  # fmt: skip
    for form, passes in forms.items():
        # Data parallelism gives each rank half of the microbatches of the pipeline.
        transform(opt, source, folder / f"{form}.mlir", [*CLEANUP, *passes])
        write_variants(folder / f"{form}.mlir", folder, (form + ".{}.mlirbc").format, opt, device, chips, variants)
        (folder / f"{form}.mlir").unlink()
    source.unlink()
    for form in plans:
        (folder / f"{form}.plan.json").unlink()
    return {"folder": folder.name, "model": "gpt_tied.fp32", "forms": list(forms), "variants": variants,
            "steps": STEPS // 2, "microbatches": 2 * MICROBATCHES}  # fmt: skip


def write_llama(folder, config, batch, steps, opt, device, chips, dtype, variants):
    """The large Llama: its program, traced without weights."""
    spec = llama.make_spec(config, "llama", batch, dtype, fill=False)
    folder.mkdir(parents=True)
    source = folder / "program.mlir"
    source.write_text(Program(spec, capture(spec)).text)
    write_variants(source, folder, "{}.mlirbc".format, opt, device, chips, variants, CLEANUP)
    if "exec" in variants:
        # Activations that are cheap to compute again are not kept.
        names = {"kernels": "min-cut-kernels.mlirbc", "exec": "min-cut.mlirbc"}.get
        write_variants(source, folder, names, opt, device, chips, ["exec"], [*CLEANUP, "--partition-joint"])
        variants = [*variants, "min-cut"]
    source.unlink()
    return {"folder": folder.name, "config": dataclasses.asdict(config), "batch": batch, "steps": steps, "variants": variants,
            "dtype": str(dtype).removeprefix("torch."), "parameters": config.parameters(),
            "flops_per_token": config.flops_per_token()}  # fmt: skip

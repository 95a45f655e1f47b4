"""Generated kernels: what they compute, and how near they come to a copy's bandwidth on the device.

Results are compared with PyTorch's in double precision. Bytes are counted once for each argument and result, so a kernel that reads something twice is charged for it. Separate
calls are PyTorch's eager mode on the same values.
"""

import compare
import torch
from kernel_modules import MODULES
from launch import CpuKernel, CudaKernel, choose_target
from tensors import DTYPES

# Relative to the largest element: sums of float32, and a few roundings to bfloat16.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2.0**-7}


def size(values):
    return sum(v.numel() * v.element_size() for v in values)


def copy_bandwidth(part):
    """Bytes per second, read and written, of a device-to-device copy that no cache holds."""
    count = (1 << 30) if part.device == "cuda" else (1 << 24)
    source = torch.empty(count // 4).normal_().to(part.device)
    target = torch.empty_like(source)
    return 2 * count / part.seconds(lambda: target.copy_(source), 20)


def run(part):
    best = copy_bandwidth(part)
    part.note(f"copy on the device: {best / 1e9:.0f} GB/s, bytes read and written")
    folder = part.bundle / part.manifest["kernels"]["folder"]
    for entry in part.manifest["kernels"]["kernels"]:
        name = f"{entry['kernel']} {entry['rows']}x{entry['columns']} {entry['dtype']}"
        if "not_measured" in entry:
            part.check(name, False, f"expected one kernel, found {entry['not_measured']}")
            continue
        dtype = getattr(torch, entry["dtype"])
        module = MODULES[entry["kernel"]](entry["rows"], entry["columns"], dtype).to(part.device)
        inputs = module.inputs(torch.Generator(part.device).manual_seed(7), part.device)
        names = list(MODULES[entry["kernel"]].forward.__code__.co_varnames[1 : 1 + len(inputs)])
        given = dict(module.named_parameters()) | dict(zip(names, inputs))
        with torch.no_grad():
            # In the kernel's types: the processor's statistics of bfloat16 are bfloat16, CUDA's are float32.
            arguments = {n: given[n].detach().contiguous().to(DTYPES[t]) for n, (_, t) in zip(entry["takes"], entry["arguments"])}
            # In double precision: PyTorch's own sums in bfloat16 are not measure.
            exact = MODULES[entry["kernel"]](entry["rows"], entry["columns"], torch.float64).to(part.device)
            values = (arguments.get(n, v) for n, v in zip(names, inputs))
            expected = exact(*(v.double() if v.is_floating_point() else v for v in values))
            expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
            arguments = list(arguments.values())
            # What nothing writes is seen.
            results = [torch.full(s, 77, dtype=DTYPES[t], device=part.device) for s, t in entry["results"]]
            target = choose_target(entry["files"], part.device)
            make = CudaKernel if part.device == "cuda" else CpuKernel
            launch = make((folder / entry["files"][target]).resolve(), entry).bind([*arguments, *results])
            launch()
            part.synchronize()
            # Of what a module gives, only what has a kernel's result's type.
            values = {str(i): v for i, v in enumerate(results)}
            wanted = {str(i): v for i, v in enumerate(expected[: len(results)])}
            worst, apart = compare.worst(compare.differences(values, wanted))
            part.check(name, apart <= TOLERANCE[dtype], f"at most {apart:.1e} (result {worst}), expected {TOLERANCE[dtype]:.1e}")
            moved = size(arguments) + size(results)
            ours = part.seconds(launch, 20)
            eager = part.seconds(lambda: module(*inputs), 20)
        part.row(
            f"Kernels for {target}", kernel=name, ms=f"{ours * 1e3:.4f}", **{
                "GB/s": f"{moved / ours / 1e9:.0f}", "of the copy": f"{moved / ours / best:.0%}",
                "separate calls, ms": f"{eager * 1e3:.4f}", "speed-up": f"{eager / ours:.2f}"})  # fmt: skip

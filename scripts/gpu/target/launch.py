"""Launches compiled kernels as dialects/exec/README.md says they are called, from Python alone: by the driver on a GPU,
by dlopen on the processor. For measurements; cleave-run has its own."""

import ctypes

import torch
from part import Failure


def pointers(values):
    return (ctypes.c_void_p * len(values))(*(v.data_ptr() for v in values))


class CudaKernel:
    def __init__(self, file, entry):
        self.driver = ctypes.CDLL("libcuda.so.1")
        torch.cuda.current_stream().synchronize()  # PyTorch has made the context
        module = ctypes.c_void_p()
        self._check(self.driver.cuModuleLoadData(ctypes.byref(module), file.read_bytes()), "cuModuleLoadData")
        self.phases = []
        for phase in entry["phases"]:
            function = ctypes.c_void_p()
            name = phase["entry"].encode()
            self._check(self.driver.cuModuleGetFunction(ctypes.byref(function), module, name), "cuModuleGetFunction")
            self.phases.append((function, phase["chunks"], phase["threads"]))
        self.partials = torch.empty(max(entry["partials"], 1), dtype=torch.uint8, device="cuda")

    def _check(self, status, call):
        if status:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(status, ctypes.byref(text))
            raise Failure(f"{call}: {(text.value or b'unknown').decode()}")

    def bind(self, values):
        """A function that launches all phases on the current stream."""
        cells = [ctypes.c_void_p(v.data_ptr()) for v in [*values, self.partials]]
        arguments = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def launch(keep=cells):
            for function, chunks, threads in self.phases:
                self._check(
                    self.driver.cuLaunchKernel(function, chunks, 1, 1, threads, 1, 1, 0, stream, arguments, None),
                    "cuLaunchKernel")  # fmt: skip

        return launch


class CpuKernel:
    def __init__(self, file, entry):
        library = ctypes.CDLL(str(file))
        self.phases = []
        for phase in entry["phases"]:
            function = getattr(library, phase["entry"])
            function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
            function.restype = None
            self.phases.append((function, phase["chunks"]))
        # Memory of LibTorch is aligned to 64 bytes.
        self.scratch = torch.empty(max(entry["scratch"], 1), dtype=torch.uint8)
        self.partials = torch.empty(max(entry["partials"], 1), dtype=torch.uint8)

    def bind(self, values):
        """A function that runs all chunks of all phases, on one thread."""
        tensors = pointers(values)

        def launch():
            for function, chunks in self.phases:
                for chunk in range(chunks):
                    function(tensors, chunk, self.scratch.data_ptr(), self.partials.data_ptr())

        return launch


def choose_target(files, device):
    """The best of a kernel's binaries for this machine."""
    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        fitting = [t for t in files if t.startswith("sm_") and int(t[3:].rstrip("a")) // 10 == major
                   and int(t[3:].rstrip("a")) <= 10 * major + minor]  # fmt: skip
        if not fitting:
            raise Failure(f"no code for sm_{major}{minor}, only for {', '.join(files)}")
        return max(fitting, key=lambda t: int(t[3:].rstrip("a")))
    capability = torch.backends.cpu.get_cpu_capability()
    best = {"AVX512": "x86-64-v4", "AVX2": "x86-64-v3"}.get(capability, "x86-64-v2")
    fitting = [t for t in files if t.startswith("x86-64-v") and t <= best]
    if not fitting:
        raise Failure(f"no code for {best}, only for {', '.join(files)}")
    return max(fitting)

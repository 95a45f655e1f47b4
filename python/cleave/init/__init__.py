"""Weights to train from: a module's own initialisation, in memory that does not depend on the module's size.

`cleave.initialize(make, "gpt.safetensors", seed=0)`, or `python -m cleave.init FILE:FACTORY`. What makes the
module does so on the meta device; its initialisation is recorded and then done tensor by tensor (record.py).
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable

from cleave.export.errors import ExportError


def initialize(make: Callable[[], object], path, *, seed: int = 0) -> pathlib.Path:
    """Writes the parameters and buffers of the module that `make` constructs to the safetensors file `path`.

    `make` returns an ExportSpec or a module, constructed on the meta device. The tensors are those that it
    would make on the CPU after `torch.manual_seed(seed)`, bit for bit, unless it seeds or draws otherwise. A
    module that has values is written as it is. Raises ExportError, and then leaves no file changed.
    """
    import torch

    from cleave.export.roles import State
    from cleave.export.spec import ExportSpec
    from cleave.export.weightless import has_values
    from cleave.init.record import Recorder
    from cleave.init.tensor_file import TensorFile

    path = pathlib.Path(path)
    recorder = Recorder(seed)
    # The caller's random numbers go on as if nothing had been drawn here.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        with recorder.recording():
            made = make()
            if isinstance(made, torch.nn.Module):
                made = ExportSpec(made, ())
            if not isinstance(made, ExportSpec):
                raise ExportError(
                    f"expected a cleave.ExportSpec or a torch.nn.Module, found a value of type {type(made).__name__}"
                )
        state = State(made)
        tensors = state.parameters | state.buffers
        for name, tensor in tensors.items():
            if not has_values(tensor) and not tensor.is_meta:
                raise ExportError(
                    f"'{name}' was made under FakeTensorMode, which does not show how it is initialised; "
                    "expected a module constructed under torch.device('meta')"
                )
        views = {name: recorder.view(t) for name, t in tensors.items() if not has_values(t)}
        unfilled = recorder.find_unfilled(views.values())
        if unfilled:
            names = [name for name, view in views.items() if view in unfilled]
            listed = ", ".join(f"'{name}'" for name in names[:3]) + (", ..." if len(names) > 3 else "")
            raise ExportError(
                f"constructing {type(made.module).__name__} gives {len(names)} of its parameters and buffers no "
                f"values: {listed}; expected the module to be initialised where it is made: call its method for "
                "that (init_weights, reset_parameters) under the same torch.device('meta')"
            )
        names: dict[object, list[str]] = {}
        for name, view in views.items():
            names.setdefault(view, []).append(name)
        try:
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=".init-") as folder:
                part = pathlib.Path(folder, "weights")
                file = TensorFile(part, tensors)
                for name in tensors.keys() - views.keys():
                    file.write(name, tensors[name])

                def take(view, tensor):
                    for name in names[view]:
                        file.write(name, tensor)

                with torch.no_grad():
                    recorder.replay(names, take)
                file.close()
                os.replace(part, path)
        except OSError as error:
            raise ExportError(f"cannot write {path}: {error.strerror or error}") from None
    return path

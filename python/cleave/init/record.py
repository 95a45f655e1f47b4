"""Records what a constructor does to tensors without values, and does it for real, tensor by tensor.

A module constructed on the meta device has run its whole initialisation: every operator was called, in order,
and computed nothing. The same calls on memory, in the same order and from the same seed, make the tensors that
constructing the module on the CPU makes, bit for bit. Only those calls are made that a parameter or buffer
depends on, and draws of random numbers that later ones follow. A tensor is in memory from the call that makes
its value to the last one that reads it, and a parameter is handed out once nothing writes to it any more. So
the memory needed is what the constructor fills at a time, as a rule one layer. Where the constructor asks for a
number (`item()`, `if tensor.sum() > 0`, `torch.allclose`), the calls that it depends on are made at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from cleave.export.errors import ExportError
from cleave.export.pytorch import TorchDispatchMode, pytree

# These replace all of the tensor that they are called on, whatever was in it.
_FILLS = {
    "bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_", "random_",
    "uniform_", "zero_",
}  # fmt: skip
# These give a tensor no values.
_EMPTY = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "set_"}


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor as a part of a storage."""

    storage: int
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclasses.dataclass
class _Call:
    function: Callable[..., Any]
    args: tuple = ()
    kwargs: dict = dataclasses.field(default_factory=dict)
    results: list[View] = dataclasses.field(default_factory=list)
    reads: set[int] = dataclasses.field(default_factory=set)  # storages
    writes: set[int] = dataclasses.field(default_factory=set)
    fills: set[int] = dataclasses.field(default_factory=set)  # those of `writes` that nothing is left of
    draws: bool = False
    seeds: bool = False
    default_dtype: torch.dtype = dataclasses.field(default_factory=torch.get_default_dtype)


# These make tensors of Python's numbers; no operator that is called has them.
_FROM_DATA = {torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor}
# These make Python's numbers of tensors.
_TO_DATA = {
    torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.__bool__, torch.Tensor.__float__, torch.Tensor.__int__,
    torch.Tensor.__index__, torch.Tensor.__complex__, torch.Tensor.__contains__, torch.Tensor.is_nonzero,
    torch.Tensor.equal, torch.Tensor.allclose, torch.is_nonzero, torch.equal, torch.allclose,
}  # fmt: skip


class _Data(TorchFunctionMode):
    """Gives a recorder the values of tensors that are made of Python's numbers, and Python those of tensors."""

    def __init__(self, recorder: Recorder):
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _TO_DATA:
            args, kwargs = pytree.tree_map_only(torch.Tensor, self._recorder.compute, (args, kwargs))
        made = func(*args, **kwargs)
        if func in _FROM_DATA and made.is_meta:
            if not any(isinstance(leaf, torch.Tensor) and leaf.is_meta for leaf in pytree.tree_leaves(args[-1:])):
                self._recorder.add_values(made, torch.tensor(args[-1], dtype=made.dtype, device="cpu"))
        return made


class Recorder(TorchDispatchMode):
    """Notes each operator that is called while `recording`, and torch.manual_seed; `seed` is what was set before."""

    def __init__(self, seed: int):
        super().__init__()
        self._seed = seed
        self._set_seed = torch.manual_seed
        self._is_computing = False
        self._numbers: dict[int, int] = {}  # of storages, by identity
        self._storages: list[torch.UntypedStorage] = []  # held, so that no identity is used twice
        self._given: dict[int, torch.UntypedStorage] = {}  # values that were there before
        self._calls: list[_Call] = []

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        seed = self._set_seed

        def manual_seed(value):
            self._calls.append(_Call(seed, (value,), seeds=True))
            return seed(value)

        torch.manual_seed = torch.random.manual_seed = manual_seed
        try:
            with self, _Data(self):
                yield
        finally:
            torch.manual_seed = torch.random.manual_seed = seed

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self._is_computing:
            return func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        for leaf in pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Generator) and leaf is not torch.default_generator:
                raise ExportError(
                    f"expected an initialisation from PyTorch's default generator, found {name} with a generator "
                    "of its own"
                )
        taken = pytree.tree_map_only(torch.Tensor, lambda t: self._view(t, given=True), (args, kwargs))
        known = len(self._storages)
        try:
            outcome = func(*args, **kwargs)
        except NotImplementedError:  # no kernel for the meta device, or a shape that depends on values
            outcome = self._call_on_values(func, args, kwargs)
        results = [self.view(r) for r in pytree.tree_leaves(outcome) if isinstance(r, torch.Tensor)]
        made = {view.storage for view in results if view.storage >= known}
        call = _Call(func, *taken, results, set(), set(made), set(made))
        call.draws = torch.Tag.nondeterministic_seeded in func.tags
        for index, argument in enumerate(func._schema.arguments):
            value = call.args[index] if index < len(call.args) else call.kwargs.get(argument.name)
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            for view in pytree.tree_leaves(value):
                if not isinstance(view, View):
                    continue
                if is_written:
                    call.writes.add(view.storage)
                if is_written and name in _FILLS and self._is_whole(view):
                    call.fills.add(view.storage)
                else:
                    call.reads.add(view.storage)
        if name not in _EMPTY and (call.writes or call.draws):  # others make views
            self._calls.append(call)
        return outcome

    def _call_on_values(self, func, args, kwargs):
        """The results of an operator, on the meta device, of which only the values say their shapes."""
        if any(value.alias_info is not None for value in (*func._schema.arguments, *func._schema.returns)):
            raise ExportError(
                f"expected an initialisation by operators that PyTorch has for the meta device, found {func.name()}"
            )
        outcome = _call_on_cpu(func, *pytree.tree_map_only(torch.Tensor, self.compute, (args, kwargs)))
        return pytree.tree_map_only(
            torch.Tensor, lambda t: torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="meta"), outcome
        )

    def add_values(self, tensor: torch.Tensor, values: torch.Tensor):
        self._given[self.view(tensor).storage] = values.untyped_storage()

    def view(self, tensor: torch.Tensor) -> View:
        return self._view(tensor, given=False)

    def compute(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` with the values that it has now, while recording."""
        if not tensor.is_meta:
            return tensor
        view = self.view(tensor)
        values: list[torch.Tensor] = []
        self._is_computing = True
        try:
            if self.find_unfilled([view]):
                raise ExportError("the constructor asks for the value of a tensor that it gave none")
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                given = {number: storage.clone() for number, storage in self._given.items()}
                self.replay([view], lambda _, value: values.append(value.clone()), given)
        finally:
            self._is_computing = False
        return values[0]

    def _view(self, tensor: torch.Tensor, given: bool) -> View:
        storage = tensor.untyped_storage()
        number = self._numbers.setdefault(storage._cdata, len(self._storages))
        if number == len(self._storages):
            self._storages.append(storage)
            if given and not tensor.is_meta:
                self._given[number] = storage.clone()
        return View(number, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)

    def _is_whole(self, view: View) -> bool:
        count = math.prod(view.size)
        span = 1 + sum((n - 1) * s for n, s in zip(view.size, view.stride, strict=True)) if count else 0
        return span == count and count * view.dtype.itemsize == self._storages[view.storage].nbytes()

    # Doing it ------------------------------------------------------------------------------

    def find_unfilled(self, views: Iterable[View]) -> set[View]:
        """Those of `views` that no call wrote to."""
        written = {s for call in self._calls for s in call.writes} | self._given.keys()
        return {view for view in views if view.storage not in written and math.prod(view.size)}

    def replay(
        self,
        views: Iterable[View],
        take: Callable[[View, torch.Tensor], None],
        given: dict[int, torch.UntypedStorage] | None = None,
    ):
        """Makes the calls that `views` need, and gives each to `take` as soon as it is what it stays. Draws from
        PyTorch's generator, which it seeds, and writes to what was there before or, instead, to `given`."""
        self._set_seed(self._seed)
        by_storage: dict[int, list[View]] = {}
        for view in views:
            by_storage.setdefault(view.storage, []).append(view)
        memory = _Memory(self._storages, self._given if given is None else given)
        planned = self._plan(set(by_storage))
        for storage in by_storage.keys() - {s for _, _, ends in planned for s in ends}:
            memory.hand_out(by_storage[storage], take)
        for call, freed, ends in planned:
            memory.make(call)
            for storage in sorted(ends):
                memory.hand_out(by_storage[storage], take)
            memory.free(freed)

    def _plan(self, wanted: set[int]) -> list[tuple[_Call, set[int], set[int]]]:
        """The calls to make, with the storages that are free after each, and those of `wanted` that are complete."""
        live: set[int] = set()  # whose values a later call reads
        pending = set(wanted)
        is_drawn_later = False
        planned = []
        for call in reversed(self._calls):
            ends = pending & call.writes
            is_needed = bool(ends or live & call.writes) or (is_drawn_later and (call.draws or call.seeds))
            if not is_needed:
                continue
            freed = (call.reads | call.writes) - live
            pending -= ends
            live -= call.fills
            live |= call.reads
            is_drawn_later = not call.seeds and (is_drawn_later or call.draws)
            planned.append((call, freed, ends))
        return planned[::-1]


def _call_on_cpu(function, args, kwargs):
    if "device" in kwargs and torch.device(kwargs["device"] or "cpu").type == "meta":
        kwargs = kwargs | {"device": torch.device("cpu")}
    return function(*args, **kwargs)


class _Memory:
    """The storages that there are at a moment."""

    def __init__(self, storages: list[torch.UntypedStorage], given: dict[int, torch.UntypedStorage]):
        self._sizes = [storage.nbytes() for storage in storages]
        self._storages = dict(given)

    def make(self, call: _Call):
        if call.seeds:
            call.function(*call.args)
            return
        args, kwargs = pytree.tree_map_only(View, self._tensor, (call.args, call.kwargs))
        default_dtype = torch.get_default_dtype()
        torch.set_default_dtype(call.default_dtype)  # operators without a dtype of their own take it
        try:
            outcome = _call_on_cpu(call.function, args, kwargs)
        finally:
            torch.set_default_dtype(default_dtype)
        made = [leaf for leaf in pytree.tree_leaves(outcome) if isinstance(leaf, torch.Tensor)]
        for view, tensor in zip(call.results, made, strict=True):
            if view.storage in call.fills and view.storage not in self._storages:
                laid_out = tensor.storage_offset() == view.offset and tensor.stride() == view.stride
                if laid_out and tensor.untyped_storage().nbytes() == self._sizes[view.storage]:
                    self._storages[view.storage] = tensor.untyped_storage()
                else:  # where kernels of the two devices differ in it
                    self._tensor(view).copy_(tensor)

    def hand_out(self, views: list[View], take: Callable[[View, torch.Tensor], None]):
        for view in views:
            take(view, self._tensor(view))

    def free(self, storages: set[int]):
        for storage in storages:
            self._storages.pop(storage, None)

    def _tensor(self, view: View) -> torch.Tensor:
        storage = self._storages.get(view.storage)
        if storage is None:
            storage = self._storages[view.storage] = torch.UntypedStorage(
                self._sizes[view.storage], device="cpu"
            )
        return torch.empty(0, dtype=view.dtype, device="cpu").set_(storage, view.offset, view.size, view.stride)

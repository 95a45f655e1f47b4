"""The batches that `cleave-run --data` reads, for Python: to compare a run with PyTorch's own.

`TextBatches`, `TokenBatches` and `MixedBatches` give the same tokens in the same order as cleave-run
does for the same files, shapes and seed (docs/run.md, Order of the data).
"""

from __future__ import annotations

import bisect
import math
import os
import pathlib
from collections.abc import Iterable

import numpy
import torch

_MASK = (1 << 64) - 1


def permute(index: int, size: int, seed: int, epoch: int) -> int:
    """The image of `index` under the permutation of range(size) that seed and epoch choose."""
    if size < 2:
        return index
    half = ((size - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    key = _mix(_mix(seed) ^ epoch)
    while True:
        left, right = index >> half, index & mask
        for turn in range(6):
            left, right = right, left ^ (_mix(key + (turn << 56) + right) & mask)
        index = left << half | right
        if index < size:
            return index


def _mix(x: int) -> int:
    """The finalizer of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class TokenBatches:
    """Windows of a stream of tokens as batches for language models.

    stream: 1-d array of tokens. rows, length: shape of one microbatch. microbatches: of one rank in
    a step. The targets are the tokens that follow each input token.
    """

    def __init__(
        self,
        stream: numpy.ndarray,
        rows: int,
        length: int,
        microbatches: int = 1,
        ranks: int = 1,
        seed: int = 0,
        shuffle: bool = True,
    ):
        self.stream, self.rows, self.length = stream, rows, length
        self.microbatches, self.ranks = microbatches, ranks
        self.seed, self.shuffle = seed, shuffle
        self.windows = (len(stream) - 1) // length
        if self.windows < 1:
            raise ValueError(
                f"expected at least {length + 1} tokens, a window of {length} and the token after it, "
                f"found {len(stream)}"
            )

    def microbatch(self, step: int, rank: int = 0, index: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets, int64 [rows, length]. step counts from 1, rank and index from 0."""
        first = ((step - 1) * self.ranks + rank) * self.microbatches + index
        examples = [self.example(e) for e in range(first * self.rows, (first + 1) * self.rows)]
        return tuple(
            torch.from_numpy(numpy.stack(rows).astype(numpy.int64)) for rows in zip(*examples)
        )

    def example(self, number: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Input and target of an example, counted from 0 over all steps."""
        epoch, window = divmod(number, self.windows)
        if self.shuffle:
            window = permute(window, self.windows, self.seed, epoch)
        begin = window * self.length
        return self.stream[begin : begin + self.length], self.stream[begin + 1 : begin + 1 + self.length]


class MixedBatches(TokenBatches):
    """What `--data mix:WEIGHT=SOURCE;...` reads, for sources of tokens.

    sources: pairs of a weight and a TokenBatches of the same rows, length, seed and shuffle.
    """

    BLOCK = 1 << 16

    def __init__(self, sources: Iterable[tuple[float, TokenBatches]], microbatches: int = 1, ranks: int = 1):
        self.sources = list(sources)
        first = self.sources[0][1]
        self.rows, self.length, self.seed = first.rows, first.length, first.seed
        self.microbatches, self.ranks = microbatches, ranks
        total, before, self.begins = sum(weight for weight, _ in self.sources), 0.0, [0]
        for weight, _ in self.sources:
            before += weight
            self.begins.append(math.floor(before / total * self.BLOCK + 0.5))
        self.begins[-1] = self.BLOCK

    def example(self, number: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        block, place = divmod(number, self.BLOCK)
        place = permute(place, self.BLOCK, self.seed, block)
        part = bisect.bisect_right(self.begins, place) - 1
        begin, end = self.begins[part : part + 2]
        return self.sources[part][1].example(block * (end - begin) + place - begin)


def pack_documents(tokens: torch.Tensor, end: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What `--documents end=...` makes of tokens [batch, time]: the positions and the ids of their documents, int64
    [batch, time], and the mask, bool [batch, time, time], of which queries see which keys."""
    first = torch.zeros_like(tokens, dtype=torch.bool)
    first[:, 1:] = tokens[:, :-1] == end
    ids = first.long().cumsum(1)
    place = torch.arange(tokens.shape[1]).expand_as(tokens)
    positions = place - torch.where(first, place, 0).cummax(1).values
    mask = (ids[:, :, None] == ids[:, None, :]) & (place[:, :, None] >= place[:, None, :])
    return positions, ids, mask


class TextBatches(TokenBatches):
    """The bytes of text files as tokens: what `--data text:PATH,PATH` reads."""

    def __init__(self, paths: Iterable[str | os.PathLike], *args, **options):
        stream = b"".join(f.read_bytes() for path in paths for f in _files(pathlib.Path(path)))
        super().__init__(numpy.frombuffer(stream, numpy.uint8), *args, **options)


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    """A file; or a directory's regular files by path, without links."""
    if not path.is_dir():
        return [path]
    files = [f for f in path.rglob("*") if f.is_file() and not f.is_symlink()]
    return sorted(files, key=lambda f: os.fsencode(str(f)))

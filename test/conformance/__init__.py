"""The specification of distributed types and collectives, and the tests that execute it.

The specification is written in Python on lists of tensors, one per rank, in float64, and shares no code with
the compiler: a derivative is torch.autograd of what the types say a list of tensors means.

    values.py       meshes, placements, and what a list of tensors denotes
    operations.py   every op of docs/types.md on lists of tensors
    table.py        which (op, reduction, source type, destination type) are legal, by docs/types.md
    program.py      typed programs: evaluated on lists, differentiated, and printed as MLIR
    tools.py        running cleave-opt and cleave-run on them
"""

"""The root of this package's exceptions."""


class Error(Exception):
    """Whatever Cleave refuses, and whatever fails in it: `except cleave.Error` catches all of it.

    ExportError, of what cannot be traced, and CheckpointError, of weights that cannot be read, are of this class; what
    the native module raises is this class itself.
    """

"""The one exception that every refusal of the exporter is, and the warning that every note is."""

from cleave.errors import Error


class ExportError(Error):
    """A program that cannot be exported.

    Its message is one line: what was found and what was expected, with the operator and the source
    line where there is one.
    """

    def __init__(self, message: str):
        super().__init__(" ".join(message.split()))


class ExportNote(UserWarning):
    """What an export took for granted, and whoever runs the program should know."""

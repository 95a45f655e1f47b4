"""Colours for MLIR, which Pygments does not know."""

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text


class MLIRLexer(RegexLexer):
    name = "MLIR"
    aliases = ["mlir"]
    filenames = ["*.mlir"]

    tokens = {
        "root": [
            (r"//.*$", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (r"%[\w$.-]+(?:[:#]\d+)?", Name.Variable),
            (r"@[\w$.-]+", Name.Function),
            (r"\^[\w$.-]+", Name.Label),
            (r"[#!][a-zA-Z][\w.]*", Name.Class),
            # Shapes: the numbers of tensor<4x8xf32> are read with the type's name.
            (r"(tensor|memref|vector)(<)((?:[\d?]+x)*)(\w+)?", bygroups(Keyword.Type, Punctuation, Number, Keyword.Type)),
            (r"\b(?:[su]?i\d+|f16|bf16|f32|f64|f8\w+|index|none)\b", Keyword.Type),
            (r"\b(?:true|false|unit|loc|dense|dense_resource)\b", Keyword.Constant),
            (r"\b[a-z]\w*\.[a-z_]\w*(?:\.\w+)*\b", Name.Builtin),
            (r"\b(?:module|func|return)\b", Keyword),
            (r"-?\b\d[\w.]*(?:[eE][+-]?\d+)?", Number),
            (r"->|=|:|\.\.\.", Operator),
            (r"[()\[\]{}<>,*?+\-|]", Punctuation),
            (r"[A-Za-z_]\w*", Name),
            (r"\s+", Text),
            (r".", Text),
        ]
    }

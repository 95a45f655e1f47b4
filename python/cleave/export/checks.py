"""Checks of values: branches on data of which one side does nothing but raise, as `if torch.isnan(x).any(): raise ...`.

A program goes on as forward does where nothing is wrong. Dynamo has asserts so, and refuses these.
"""

from __future__ import annotations

import sys

_CONDITIONAL = ("IF_TRUE", "IF_FALSE", "IF_NONE", "IF_NOT_NONE", "FOR_ITER", "SEND", "YIELD", "RETURN", "WITH", "SETUP", "RERAISE")


def outcome_without_raising(translator, jump) -> bool | None:
    """Whether a conditional jump of the bytecode is taken where forward does not raise; None if both sides go on."""
    if not jump.opname.startswith("POP_JUMP"):
        return None
    if _only_raises(translator, jump.target):
        return False
    if _is_plain_assertion(translator, translator.next_instruction):
        return None
    if _only_raises(translator, translator.next_instruction):
        return True
    return None


def _only_raises(translator, instruction) -> bool:
    """Whether what begins here leads straight to a `raise` that nobody catches."""
    seen = set()
    while instruction not in seen:
        seen.add(instruction)
        if instruction.opname == "RAISE_VARARGS":
            return not _is_caught(translator, instruction)
        if any(part in instruction.opname for part in _CONDITIONAL):
            return False
        if instruction.opname.startswith("JUMP"):
            instruction = instruction.target
        else:
            instruction = _after(translator, instruction)
    return False


def _is_plain_assertion(translator, instruction) -> bool:
    """Whether this is an assert's, with no text or one that is a constant: Dynamo traces those where they follow the condition,
    with what they say."""
    if instruction.opname != "LOAD_ASSERTION_ERROR":
        return False
    instruction = _after(translator, instruction)
    if instruction.opname == "LOAD_CONST":
        instruction = _after(translator, instruction)
        return "CALL" in instruction.opname
    return instruction.opname == "RAISE_VARARGS"


def _after(translator, instruction):
    return translator.instructions[translator.indexof[instruction] + 1]


def _is_caught(translator, instruction) -> bool:
    """Whether a `try` of this function or of one that is traced around it takes what is raised here."""
    while translator is not None:
        if sys.version_info < (3, 11):
            if any(block.with_context is None for block in translator.block_stack):
                return True
        else:
            while instruction.exn_tab_entry is not None:
                instruction = instruction.exn_tab_entry.target
                if not _passes_on(translator, instruction):
                    return True
        translator = translator.parent
        instruction = translator.current_instruction if translator is not None else None
    return False


def _passes_on(translator, handler) -> bool:
    """Whether a handler is that of a `with`, or puts the interpreter in order after one."""
    if handler.opname == "COPY":
        return _after(translator, handler).opname == "POP_EXCEPT"
    return handler.opname == "PUSH_EXC_INFO" and _after(translator, handler).opname == "WITH_EXCEPT_START"

// Programs as text: Cleave's own form, to be read and edited by hand, and PyTorch's CSV.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_TEXT_H
#define CLEAVE_LIB_SCHEDULE_MODEL_TEXT_H

#include "lib/schedule/model/Schedule.h"

#include "llvm/Support/raw_ostream.h"

namespace cleave::schedule {

/// Prints the form that docs/schedules.md describes; parseText reads back an equal program.
void printText(const Schedule &program, llvm::raw_ostream &os);

/// Where the actions of each rank begin, in bytes from the start of a text.
using ActionOffsets = std::vector<std::vector<size_t>>;

/// Reads the form. Errors are `ParseError`s, which say what was expected and what was found. The
/// result has a sound structure (checkStructure) but is not verified.
llvm::Expected<Schedule> parseText(llvm::StringRef text, llvm::StringRef source = "<schedule>",
                                   ActionOffsets *offsets = nullptr);

// Parts of the form, for texts with something else around them. Errors are `ParseError`s.

struct TextOptions {
  /// What messages call the text at their start and in "found the end of the file".
  llvm::StringRef source = "<schedule>", name = "the file";
  /// Begins a comment, which ends with its line.
  llvm::StringRef comment = "#";
  /// False: lists may have no sends and receives.
  bool allowTransfers = true;
  /// Filled where it is given, up to an error if there is one.
  ActionOffsets *offsets = nullptr;
};

/// A program without actions.
llvm::Expected<Schedule> parseHeader(llvm::StringRef text, const TextOptions &options);
/// "rank 0: F0.0 rank 1: F1.0", into a program without actions.
llvm::Error parseLists(llvm::StringRef text, Schedule &program, const TextOptions &options);

/// The list of one rank as it is stored: "F0.0 sendF0.0", actions with single spaces in between.
std::string printList(const Schedule &program, unsigned rank);
/// Reads a list in exactly that form: what is accepted is printed as the same text.
llvm::Error parseList(llvm::StringRef text, unsigned rank, Schedule &program,
                      const TextOptions &options);

struct CsvOptions {
  /// Leave sends, receives, unshards, reshards and reductions out (torch: "compute_only").
  bool computeOnly = false;
};

/// Prints the CSV that torch.distributed.pipelining reads: a row a rank, a cell an action ("2F0",
/// "0SEND_F1", "(0F4;3B1)OVERLAP_F_B"). The buckets of a stage become its one REDUCE_GRAD, where
/// the last of them is reduced; optimizer steps at the end of a list are left out, as torch's user
/// takes them. What torch 2.11 has no spelling for is an error: other optimizer steps, custom and
/// collective actions, groups with transfers.
llvm::Error printCsv(const Schedule &program, llvm::raw_ostream &os,
                     const CsvOptions &options = {});

/// Reads that CSV; empty cells are torch's bubbles. Stages are placed where their actions are;
/// the numbers of stages and microbatches are one more than the largest that occur. Errors as
/// parseText's, plus stages that occur on two ranks or on none.
llvm::Expected<Schedule> parseCsv(llvm::StringRef text, llvm::StringRef source = "<csv>",
                                  ActionOffsets *offsets = nullptr);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_TEXT_H

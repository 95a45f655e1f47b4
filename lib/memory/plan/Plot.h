//===- Plot.h - a picture of planned memory ------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_MEMORY_PLAN_PLOT_H
#define CLEAVE_LIB_MEMORY_PLAN_PLOT_H

#include "lib/memory/plan/FramePlanner.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::exec {

/// Draws what lies in the arenas of functions and in the frames of microbatches, as SVG: a panel
/// for each, time from left to right, the memory from bottom to top. Each result is a rectangle in
/// the colour of the op that makes it; its name, type and times show when the pointer rests on it.
/// A line says how many bytes are in use.
class ArenaPlot {
public:
  /// Adds a panel for a function whose buffers have places; none if the arena is empty.
  void add(llvm::StringRef name, const ExecutionOrder &order, const Buffers &buffers,
           int64_t arenaBytes);
  /// Adds one for the frame of the functions; none if it is empty.
  void add(llvm::ArrayRef<PlannedFunction> functions, const FramePlan &frame);
  std::string str() const;

private:
  struct Rectangle {
    std::string op, text;
    unsigned begin, end;
    int64_t offset, bytes;
  };
  static Rectangle draw(const Buffer &buffer, unsigned begin, unsigned end);
  struct Panel {
    std::string name, what;
    unsigned length;
    int64_t bytes;
    std::vector<Rectangle> rectangles;
    /// When functions begin, and their names; empty if there is one.
    std::vector<std::pair<unsigned, std::string>> functions = {};

    std::vector<int64_t> countLive() const;
  };
  /// Ops with the number of their colour, those that take most of the pictures first.
  using Colours = std::vector<std::pair<std::string, size_t>>;
  Colours chooseColours() const;
  static void draw(llvm::raw_ostream &os, const Panel &panel, int top,
                   const llvm::StringMap<size_t> &colours);
  std::vector<Panel> panels;
};

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_PLAN_PLOT_H

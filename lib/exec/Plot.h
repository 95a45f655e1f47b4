//===- Plot.h - a picture of the arena -----------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_EXEC_PLOT_H
#define CLEAVE_LIB_EXEC_PLOT_H

#include "lib/exec/Buffers.h"

namespace cleave::exec {

/// Draws what lies in the arenas of functions, as SVG: a panel for each, time from left to right,
/// the arena from bottom to top. Each result is a rectangle in the colour of the op that makes it;
/// its name, type and times show when the pointer rests on it. A line says how many bytes are live.
class ArenaPlot {
public:
  /// Adds a panel for a function whose buffers have places; none where the arena is empty.
  void add(llvm::StringRef name, const Timeline &timeline, const Buffers &buffers,
           int64_t arenaBytes);
  std::string str() const;

private:
  struct Rectangle {
    std::string op, text;
    unsigned begin, end;
    int64_t offset, bytes;
  };
  struct Panel {
    std::string name;
    unsigned length;
    int64_t bytes;
    std::vector<Rectangle> rectangles;
  };
  std::vector<Panel> panels;
};

} // namespace cleave::exec

#endif // CLEAVE_LIB_EXEC_PLOT_H

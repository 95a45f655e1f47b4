//===- Plot.cpp - a picture of planned memory ---------------------------------===//

#include "lib/memory/plan/Plot.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

/// Okabe and Ito's colours, which most eyes tell apart; the first is for kernels, the last for all
/// ops without a colour of their own.
static constexpr const char *kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                           "#56b4e9", "#d55e00", "#f0e442", "#999999"};
static constexpr size_t kOther = std::size(kColours) - 1;

static constexpr int kWidth = 1200, kLeft = 100, kRight = 20, kPanel = 320, kGap = 90, kTop = 70;

static std::string escape(StringRef text) {
  std::string result;
  for (char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

/// "h.0.attn.c_attn (gpt.py:57)"; empty if nothing is known.
static std::string placeOf(Location location) {
  if (auto named = dyn_cast<NameLoc>(location)) {
    std::string place = named.getName().str();
    if (auto file = named.getChildLoc()->findInstanceOf<FileLineColLoc>())
      place += llvm::formatv(" ({0}:{1})", file.getFilename().getValue(), file.getLine()).str();
    return place;
  }
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return llvm::formatv("{0}:{1}", file.getFilename().getValue(), file.getLine()).str();
  return "";
}

ArenaPlot::Rectangle ArenaPlot::draw(const Buffer &buffer, unsigned begin, unsigned end) {
  Operation *op = buffer.root.getDefiningOp();
  Rectangle rectangle{
      op->getName().getStringRef().str(), "", begin, end, buffer.memory.offset, buffer.bytes};
  rectangle.text =
      llvm::formatv("{0} {1}\n{2}, bytes {3} to {4}\nops {5} to {6}\n{7}", rectangle.op,
                    buffer.root.getType(), memory::describeBytes(buffer.bytes), rectangle.offset,
                    rectangle.offset + rectangle.bytes - 1, begin, end, placeOf(op->getLoc()))
          .str();
  return rectangle;
}

void ArenaPlot::add(ArrayRef<PlannedFunction> functions, const FramePlan &frame) {
  if (frame.packing.bytes == 0)
    return;
  std::string name;
  for (const PlannedFunction &each : functions)
    name += (name.empty() ? "" : ", ") + func::FuncOp(each.function).getName().str();
  Panel panel{std::move(name), "frame", frame.begins.back(), frame.packing.bytes, {}};
  for (auto [value, interval] : llvm::zip_equal(frame.values, frame.intervals))
    panel.rectangles.push_back(draw(*value, interval.begin, interval.end));
  for (auto [planned, begin] : llvm::zip(functions, frame.begins))
    panel.functions.emplace_back(begin, func::FuncOp(planned.function).getName());
  panels.push_back(std::move(panel));
}

void ArenaPlot::add(StringRef name, const ExecutionOrder &order, const Buffers &buffers,
                    int64_t arenaBytes) {
  if (arenaBytes == 0)
    return;
  Panel panel{name.str(), "arena", order.end() + 1, arenaBytes, {}};
  for (const Buffer &buffer : buffers.all())
    if (buffer.kind == Buffer::Planned && buffer.memory.kind == ResultMemory::Arena)
      panel.rectangles.push_back(draw(buffer, buffer.begin, buffer.end));
  panels.push_back(std::move(panel));
}

/// The ops that take most of the pictures have a colour of their own. An op prefers the same one in
/// every picture.
ArenaPlot::Colours ArenaPlot::chooseColours() const {
  llvm::StringMap<double> areas;
  for (const Panel &panel : panels)
    for (const Rectangle &each : panel.rectangles)
      areas[each.op] += double(each.end - each.begin + 1) / panel.length * double(each.bytes) /
                        double(panel.bytes);
  Colours byArea;
  for (const auto &entry : areas)
    byArea.push_back({entry.first().str(), kOther});
  llvm::sort(byArea, [&](const auto &a, const auto &b) {
    double first = areas.lookup(a.first), second = areas.lookup(b.first);
    return first != second ? first > second : a.first < b.first;
  });
  bool isTaken[kOther] = {true}; // for kernels
  size_t numFree = kOther - 1;
  for (auto &[op, colour] : byArea) {
    if (op == "exec.launch") {
      colour = 0;
    } else if (numFree > 0) {
      // FNV-1a, which is the same on every machine.
      uint32_t hash = 2166136261u;
      for (unsigned char c : op)
        hash = (hash ^ c) * 16777619u;
      colour = hash % kOther;
      while (isTaken[colour])
        colour = (colour + 1) % kOther;
      isTaken[colour] = true;
      --numFree;
    }
  }
  return byArea;
}

/// The least of 1, 2 and 5 times a power of ten, or, of bytes, a power of two, that makes at most
/// `most` steps up to `end`.
static int64_t chooseStep(int64_t end, int64_t maximum, bool isBytes) {
  int64_t step = 1;
  for (int i = 0; step * maximum < end; ++i)
    step = isBytes ? 2 * step : (i % 3 == 1 ? step / 2 * 5 : 2 * step);
  return step;
}

/// "64 KiB", without digits after the point where they are zeros.
static std::string describeTick(int64_t bytes) {
  std::string text = memory::describeBytes(bytes);
  size_t zeros = text.find(".0 ");
  return zeros == std::string::npos ? text : text.erase(zeros, 2);
}

static void drawLegend(llvm::raw_ostream &os, ArrayRef<std::pair<std::string, size_t>> colours) {
  int x = kLeft;
  auto label = [&](StringRef text) {
    os << llvm::formatv("<text x=\"{0}\" y=\"46\">{1}</text>\n", x + 18, escape(text));
    x += 32 + 7 * int(text.size());
  };
  auto box = [&](size_t colour, StringRef text) {
    os << llvm::formatv("<rect x=\"{0}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{1}\"/>", x,
                        kColours[colour]);
    label(text);
  };
  os << llvm::formatv("<line x1=\"{0}\" y1=\"42\" x2=\"{1}\" y2=\"42\" stroke=\"black\" "
                      "stroke-width=\"1.2\"/>",
                      x, x + 14);
  label("bytes in use");
  for (const auto &[op, colour] : colours)
    if (colour != kOther)
      box(colour, op);
  if (llvm::any_of(colours, [](const auto &entry) { return entry.second == kOther; }))
    box(kOther, "other ops");
}

/// Round numbers along both axes, and what they count.
static void drawAxes(llvm::raw_ostream &os, int top, unsigned length, int64_t bytes,
                     StringRef what) {
  int bottom = top + kPanel;
  int64_t step = chooseStep(bytes, 6, /*isBytes=*/true);
  for (int64_t tick = 0; tick <= bytes; tick += step) {
    double y = bottom - double(kPanel) * double(tick) / double(bytes);
    os << llvm::formatv("<line x1=\"{0}\" y1=\"{2:f1}\" x2=\"{1}\" y2=\"{2:f1}\" "
                        "stroke=\"#888\"/><text x=\"{3}\" y=\"{4:f1}\" "
                        "text-anchor=\"end\">{5}</text>\n",
                        kLeft - 5, kLeft, y, kLeft - 9, y + 4, describeTick(tick));
  }
  step = chooseStep(length, 12, /*isBytes=*/false);
  for (int64_t tick = 0; tick <= length; tick += step) {
    double x = kLeft + double(kWidth - kLeft - kRight) * double(tick) / length;
    os << llvm::formatv("<line x1=\"{0:f1}\" y1=\"{1}\" x2=\"{0:f1}\" y2=\"{2}\" "
                        "stroke=\"#888\"/><text x=\"{0:f1}\" y=\"{3}\" "
                        "text-anchor=\"middle\">{4}</text>\n",
                        x, bottom, bottom + 5, bottom + 18, tick);
  }
  os << llvm::formatv(
      "<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\">ops in their order</text>\n",
      (kLeft + kWidth - kRight) / 2, bottom + 36);
  int middle = top + kPanel / 2;
  os << llvm::formatv("<text x=\"20\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 20 "
                      "{0})\">address in the {1}</text>\n",
                      middle, what);
}

/// The bytes that are in use at each op.
std::vector<int64_t> ArenaPlot::Panel::countLive() const {
  std::vector<int64_t> live(length + 1);
  for (const Rectangle &each : rectangles) {
    live[each.begin] += each.bytes;
    live[each.end + 1] -= each.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

void ArenaPlot::draw(llvm::raw_ostream &os, const Panel &panel, int top,
                     const llvm::StringMap<size_t> &colours) {
  int bottom = top + kPanel;
  double perOp = double(kWidth - kLeft - kRight) / panel.length;
  double perByte = double(kPanel) / double(panel.bytes);
  std::vector<int64_t> live = panel.countLive();
  os << llvm::formatv("<text x=\"{0}\" y=\"{1}\" font-weight=\"bold\">{2}: {3} of {4}, at most {5} "
                      "in use</text>\n",
                      kLeft, top - 8, escape(panel.name), panel.what,
                      memory::describeBytes(panel.bytes),
                      memory::describeBytes(*llvm::max_element(live)));
  os << llvm::formatv("<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"#f4f4f4\" "
                      "stroke=\"#888\"/>\n",
                      kLeft, top, kWidth - kLeft - kRight, kPanel);
  for (const Rectangle &each : panel.rectangles)
    os << llvm::formatv(
        "<rect x=\"{0:f2}\" y=\"{1:f2}\" width=\"{2:f2}\" height=\"{3:f2}\" fill=\"{4}\" "
        "stroke=\"white\" stroke-width=\"0.3\"><title>{5}</title></rect>\n",
        kLeft + each.begin * perOp, bottom - double(each.offset + each.bytes) * perByte,
        (each.end - each.begin + 1) * perOp, double(each.bytes) * perByte,
        kColours[colours.lookup(each.op)], escape(each.text));
  os << "<polyline fill=\"none\" stroke=\"black\" stroke-width=\"1.2\" points=\"";
  for (unsigned time = 0; time < panel.length; ++time) {
    double y = bottom - double(live[time]) * perByte;
    os << llvm::formatv("{0:f2},{1:f2} {2:f2},{1:f2} ", kLeft + time * perOp, y,
                        kLeft + (time + 1) * perOp);
  }
  os << "\"><title>bytes in use</title></polyline>\n";
  for (const auto &[begin, name] : panel.functions)
    os << llvm::formatv("<line x1=\"{0:f1}\" y1=\"{1}\" x2=\"{0:f1}\" y2=\"{2}\" stroke=\"black\" "
                        "stroke-dasharray=\"4 3\"><title>{3} begins</title></line>\n",
                        kLeft + begin * perOp, top, bottom, escape(name));
  drawAxes(os, top, panel.length, panel.bytes, panel.what);
}

std::string ArenaPlot::str() const {
  std::string svg;
  llvm::raw_string_ostream os(svg);
  int height = kTop + int(panels.size()) * (kPanel + kGap);
  // Without a height of its own it is as wide as the page.
  os << llvm::formatv("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
                      "style=\"width: 100%; max-width: {2}px\" font-family=\"sans-serif\" "
                      "font-size=\"12\">\n"
                      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
                      "<text x=\"{3}\" y=\"22\" font-size=\"15\">Results in planned memory, "
                      "coloured by op, and the bytes in use</text>\n",
                      kWidth, height, 2 * kWidth, kLeft);
  Colours colours = chooseColours();
  drawLegend(os, colours);
  llvm::StringMap<size_t> byOp;
  for (const auto &[op, colour] : colours)
    byOp[op] = colour;
  for (auto [index, panel] : llvm::enumerate(panels))
    draw(os, panel, kTop + int(index) * (kPanel + kGap) + 20, byOp);
  os << "</svg>\n";
  return svg;
}

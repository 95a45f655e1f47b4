//===- Plot.cpp - a picture of planned memory ---------------------------------===//

#include "lib/exec/Plot.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

/// Okabe and Ito's colours, which most eyes tell apart; the last is for all other ops.
static constexpr const char *kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                           "#56b4e9", "#d55e00", "#f0e442", "#999999"};
static constexpr size_t kOther = std::size(kColours) - 1;

static constexpr int kWidth = 1200, kLeft = 80, kRight = 20, kPanel = 320, kGap = 70, kTop = 70;

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

/// "h.0.attn.c_attn (gpt.py:57)"; empty where nothing is known.
static std::string placeOf(Location location) {
  if (auto named = dyn_cast<NameLoc>(location)) {
    std::string place = named.getName().str();
    if (auto file = dyn_cast<FileLineColLoc>(named.getChildLoc()))
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

void ArenaPlot::add(StringRef name, const Timeline &timeline, const Buffers &buffers,
                    int64_t arenaBytes) {
  if (arenaBytes == 0)
    return;
  Panel panel{name.str(), "arena", timeline.end() + 1, arenaBytes, {}};
  for (const Buffer &buffer : buffers.all())
    if (buffer.kind == Buffer::Planned && buffer.memory.kind == ResultMemory::Arena)
      panel.rectangles.push_back(draw(buffer, buffer.begin, buffer.end));
  panels.push_back(std::move(panel));
}

std::string ArenaPlot::str() const {
  // The ops that take most of the pictures have a colour of their own.
  llvm::StringMap<double> areas;
  for (const Panel &panel : panels)
    for (const Rectangle &each : panel.rectangles)
      areas[each.op] += double(each.end - each.begin + 1) / panel.length * double(each.bytes) /
                        double(panel.bytes);
  std::vector<std::pair<double, StringRef>> byArea;
  for (const auto &entry : areas)
    byArea.emplace_back(entry.second, entry.first());
  llvm::sort(byArea, [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  llvm::StringMap<size_t> colours;
  for (auto [rank, entry] : llvm::enumerate(byArea))
    colours[entry.second] = std::min(rank, kOther);

  std::string svg;
  llvm::raw_string_ostream os(svg);
  int height = kTop + int(panels.size()) * (kPanel + kGap);
  os << llvm::formatv(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
      "width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"22\" font-size=\"15\">What lies in planned memory: ops from left "
      "to right, bytes from bottom to top</text>\n",
      kWidth, height, kLeft);
  int x = kLeft;
  for (auto [rank, entry] : llvm::enumerate(byArea)) {
    bool isRest = rank >= kOther;
    std::string label = isRest ? "others" : entry.second.str();
    os << llvm::formatv("<rect x=\"{0}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{1}\"/>"
                        "<text x=\"{2}\" y=\"46\">{3}</text>\n",
                        x, kColours[std::min(rank, kOther)], x + 16, escape(label));
    x += 28 + 7 * int(label.size());
    if (isRest)
      break;
  }
  for (auto [index, panel] : llvm::enumerate(panels)) {
    int top = kTop + int(index) * (kPanel + kGap) + 20, bottom = top + kPanel;
    double perOp = double(kWidth - kLeft - kRight) / panel.length;
    double perByte = double(kPanel) / double(panel.bytes);
    std::vector<int64_t> live(panel.length + 1);
    for (const Rectangle &each : panel.rectangles) {
      live[each.begin] += each.bytes;
      live[each.end + 1] -= each.bytes;
    }
    int64_t sum = 0, most = 0;
    for (int64_t &bytes : live) {
      sum += bytes;
      bytes = sum;
      most = std::max(most, sum);
    }
    os << llvm::formatv("<text x=\"{0}\" y=\"{1}\" font-weight=\"bold\">{2}: {3} {4}, at most {5} "
                        "live</text>\n",
                        kLeft, top - 8, escape(panel.name), panel.what,
                        memory::describeBytes(panel.bytes), memory::describeBytes(most));
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
    os << "\"><title>bytes that are live</title></polyline>\n";
    for (const auto &[begin, name] : panel.functions)
      os << llvm::formatv(
          "<line x1=\"{0:f1}\" y1=\"{1}\" x2=\"{0:f1}\" y2=\"{2}\" stroke=\"black\" "
          "stroke-dasharray=\"4 3\"><title>{3} begins</title></line>\n",
          kLeft + begin * perOp, top, bottom, escape(name));
    for (int tick = 0; tick <= 4; ++tick)
      os << llvm::formatv("<text x=\"{0}\" y=\"{1:f1}\" text-anchor=\"end\">{2}</text>\n",
                          kLeft - 6, bottom - tick * kPanel / 4.0 + 4,
                          memory::describeBytes(panel.bytes * tick / 4));
    for (int tick = 0; tick <= 8; ++tick)
      os << llvm::formatv("<text x=\"{0:f1}\" y=\"{1}\" text-anchor=\"middle\">{2}</text>\n",
                          kLeft + tick * (kWidth - kLeft - kRight) / 8.0, bottom + 16,
                          panel.length * tick / 8);
  }
  os << "</svg>\n";
  return svg;
}

// Reads the CSV files of test/data/zero_bubble.
#include "test/unit/lib/schedule/simulate/Published.h"

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

using namespace cleave::test;

double PublishedRow::rate(const std::string &column) const {
  for (const auto &[name, value] : rates)
    if (name == column)
      return value;
  throw std::runtime_error("no column " + column);
}

namespace {
struct Shape {
  double hidden, heads;
};
} // namespace

static Shape shapeOf(const std::string &model) {
  static const std::map<std::string, Shape> shapes = {
      {"1.5B", {2304, 24}}, {"6.2B", {4096, 32}}, {"14.6B", {5120, 40}}, {"28.3B", {6144, 48}}};
  return shapes.at(model);
}
double PublishedRow::inputMemory() const {
  Shape shape = shapeOf(model);
  return 2 * shape.hidden + 5 * shape.heads * 1024;
}
double PublishedRow::weightMemory() const {
  return 32 * shapeOf(model).hidden;
}

static std::vector<std::string> splitLine(const std::string &line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');)
    cells.push_back(cell);
  return cells;
}

std::vector<PublishedRow> cleave::test::readPublished() {
  std::vector<PublishedRow> rows;
  const std::pair<const char *, unsigned> files[] = {{"zero_bubble_table5.csv", 1},
                                                     {"zero_bubble_table8.csv", 2}};
  for (auto [file, chunks] : files) {
    std::ifstream stream(std::string(CLEAVE_TEST_DATA "/zero_bubble/") + file);
    if (!stream)
      throw std::runtime_error(std::string("cannot read ") + file);
    std::string line;
    std::getline(stream, line);
    std::vector<std::string> header = splitLine(line);
    while (std::getline(stream, line)) {
      std::vector<std::string> cells = splitLine(line);
      if (cells.size() != header.size())
        throw std::runtime_error(std::string(file) + ": bad line " + line);
      PublishedRow row;
      row.model = cells[0];
      row.ranks = unsigned(std::stoul(cells[1]));
      row.microbatches = unsigned(std::stoul(cells[2]));
      row.forward = std::stod(cells[3]);
      row.input = std::stod(cells[4]);
      row.weight = std::stod(cells[5]);
      row.comm = std::stod(cells[6]);
      for (size_t i = 7; i < cells.size(); ++i)
        row.rates.emplace_back(header[i], std::stod(cells[i]));
      row.chunks = chunks;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

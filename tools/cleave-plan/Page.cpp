// The page: a template (plan.html, compiled in) with the report in its place.
#include "tools/cleave-plan/Report.h"

#include "tools/cleave-plan/PlanPage.h"

#include "llvm/Support/FormatVariadic.h"

using namespace cleave;
using namespace cleave::plan;

void plan::printPage(const Found &found, llvm::raw_ostream &os) {
  llvm::json::Object report = toJSON(found);
  report["title"] = describe(found.result.getBest()->plan, found.space);
  std::string data = llvm::formatv("{0}", llvm::json::Value(std::move(report)));
  auto [before, after] = llvm::StringRef(planPage).split("/*DATA*/null");
  os << before;
  // "</script" inside a string would end the script element.
  for (char c : data)
    os << (c == '<' ? llvm::StringRef("\\u003c") : llvm::StringRef(&c, 1));
  os << after;
}

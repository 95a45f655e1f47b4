// Tables are read as they are written.

#include "lib/predict/Table.h"

#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace cleave::predict;

static llvm::Expected<Table> read(const std::string &text) {
  llvm::SmallString<128> path;
  EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("table", "csv", path));
  std::ofstream(path.str().str()) << text;
  auto table = readTable(path);
  llvm::sys::fs::remove(path);
  return table;
}

TEST(Table, QuotesAndComments) {
  std::string text = "# about\na,b\n1,\"x, \"\"y\"\"\nz\"\n,2\n";
  Table table = llvm::cantFail(read(text));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(Row(table, 0).get("b"), "x, \"y\"\nz");
  EXPECT_EQ(Row(table, 1).get("a"), "");
  EXPECT_EQ(Row(table, 1).get("none"), "");
  std::string printed;
  llvm::raw_string_ostream os(printed);
  table.print(os);
  EXPECT_EQ(printed, text);
}

TEST(Table, NumbersNameTheirColumn) {
  Table table = llvm::cantFail(read("n,m,extra\n16.0,x,a=1;plan=p q\n,1.5,\n"));
  EXPECT_EQ(llvm::cantFail(Row(table, 0).integer("n", 1)), 16);
  EXPECT_EQ(llvm::toString(Row(table, 0).integer("m", 1).takeError()),
            "m: expected a whole number from 1 to 10000000, found 'x'");
  EXPECT_EQ(llvm::cantFail(Row(table, 1).integer("n", 1, 7)), 7);
  EXPECT_EQ(llvm::toString(Row(table, 1).integer("n", 1).takeError()),
            "n: expected a number, the field is empty");
  llvm::consumeError(Row(table, 1).integer("m", 1).takeError());
  EXPECT_EQ(Row(table, 0).find("extra", "plan"), "p q");
}

TEST(Table, RefusesWhatIsNoTable) {
  EXPECT_NE(llvm::toString(read("a,b\n1\n").takeError()).find(":2: expected 2 fields"),
            std::string::npos);
  EXPECT_NE(llvm::toString(read("a\n\"x\n").takeError()).find("closing quote"), std::string::npos);
  EXPECT_NE(llvm::toString(read("").takeError()).find("expected a header"), std::string::npos);
}

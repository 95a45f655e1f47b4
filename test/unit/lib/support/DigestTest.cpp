//===- DigestTest.cpp - the digest inside bytecode files ----------------------===//

#include "lib/support/Digest.h"

#include "gtest/gtest.h"
#include <random>

using namespace cleave::support;

/// A file that begins as bytecode does; what follows is not looked at.
static std::string makeBytecode() {
  std::string data("ML\xefR\x0dMLIR22.1.8\0", 16);
  for (int i = 0; i < 500; ++i)
    data.push_back(char(i * 37));
  return data;
}

static std::string messageOf(llvm::Error error) {
  return llvm::toString(std::move(error));
}

TEST(Digest, FitsWhatItWasMadeOf) {
  std::string sealed = addDigest(makeBytecode());
  EXPECT_TRUE(isBytecode(sealed));
  EXPECT_EQ(messageOf(checkDigest(sealed, "f")), "");
}

TEST(Digest, KeepsContentAndAlignment) {
  std::string plain = makeBytecode(), sealed = addDigest(plain);
  EXPECT_EQ((sealed.size() - plain.size()) % 64, 0u);
  EXPECT_EQ(llvm::StringRef(sealed).take_back(501), llvm::StringRef(plain).take_back(501));
}

TEST(Digest, LeavesTextAlone) {
  EXPECT_EQ(addDigest("module {}"), "module {}");
  EXPECT_EQ(messageOf(checkDigest("module {}", "f")), "");
}

TEST(Digest, IsRequired) {
  EXPECT_NE(messageOf(checkDigest(makeBytecode(), "f.mlirbc")).find("f.mlirbc: expected bytecode"),
            std::string::npos);
}

TEST(Digest, NoticesEveryChangedByteAndEveryLength) {
  std::string sealed = addDigest(makeBytecode());
  // The magic is not covered: without it the data is not a bytecode at all.
  for (size_t i = 4; i < sealed.size(); ++i) {
    std::string damaged = sealed;
    damaged[i] ^= 0x10;
    EXPECT_NE(messageOf(checkDigest(damaged, "f")), "") << "byte " << i;
  }
  for (size_t length = 4; length < sealed.size(); ++length)
    EXPECT_NE(messageOf(checkDigest(llvm::StringRef(sealed).take_front(length), "f")), "")
        << "length " << length;
}

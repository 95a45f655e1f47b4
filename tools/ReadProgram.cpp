//===- ReadProgram.cpp - the program in a file ------------------------------===//

#include "tools/ReadProgram.h"
#include "lib/support/Buffer.h"
#include "lib/support/Error.h"
#include "lib/support/Input.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> cleave::readProgram(llvm::StringRef path,
                                                                      mlir::MLIRContext &context) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> input = mlir::openInputFile(path, &message);
  if (!input)
    return makeError("{0}", message);
  if (llvm::Error error = support::checkInput(input->getBuffer(), path))
    return std::move(error);
  auto manager = std::make_shared<llvm::SourceMgr>();
  manager->AddNewSourceBuffer(support::align(std::move(input)), llvm::SMLoc());
  mlir::SourceMgrDiagnosticHandler handler(*manager, &context);
  return mlir::parseSourceFile<mlir::ModuleOp>(manager, mlir::ParserConfig(&context));
}

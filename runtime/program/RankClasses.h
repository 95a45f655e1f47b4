//===- RankClasses.h - which functions are this rank's -------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PROGRAM_RANKCLASSES_H
#define CLEAVE_RUNTIME_PROGRAM_RANKCLASSES_H

#include "runtime/program/ProgramImpl.h"

namespace cleave::runtime {

/// Finds a rank's class among those of a program, and the sizes that ranks of all classes hold
/// together.
class RankClasses {
public:
  /// Ranks are numbered in row-major order of the mesh. Where there are several classes, the mesh
  /// has no axis of unknown size that they speak of.
  RankClasses(llvm::ArrayRef<train::ProgramClass> classes, llvm::ArrayRef<MeshAxis> mesh,
              RankPlace place);

  const train::ProgramClass &mine() const { return classFor(places); }

  /// Fills in `wholeShape` in the signature of this rank's function number `function`.
  void readWholeShapes(size_t function, Signature &signature) const;

private:
  using Places = llvm::StringMap<int64_t>;
  const train::ProgramClass &classFor(const Places &places) const;
  void readWholeShape(ValueInfo &value,
                      llvm::function_ref<mlir::Type(const Places &)> typeAt) const;

  llvm::ArrayRef<train::ProgramClass> classes;
  llvm::ArrayRef<MeshAxis> mesh;
  Places places;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_RANKCLASSES_H

//===- Layers.h - equal layers of a program, and programs with fewer -*- C++ -*-===//
//
// Passes treat equal layers alike. Of a pipeline's stages that have equal layers one tells all, so
// a plan is measured on a program that has the layers of these stages only.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_LAYERS_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_LAYERS_H

#include "tools/cleave-plan/Source.h"

#include "lib/backward/JointGraph.h"

#include "llvm/ADT/DenseMap.h"

namespace cleave::plan {

/// Where the ops and the results of a microbatch belong, if a stage begins with each of some
/// layers.
struct LayerMap {
  /// By number of the stage; none of ops that every stage that needs them runs.
  llvm::DenseMap<mlir::Operation *, unsigned> ops;
  std::vector<unsigned> results;
};

/// Fails where the program cannot be cut there.
llvm::FailureOr<LayerMap> mapLayers(const backward::JointGraph &graph,
                                    llvm::ArrayRef<std::string> modules);

class Layers {
public:
  /// Fails where a program has no layers of which some can be left out: one passes more than one
  /// value of a type to the next, say, or adds to a loss of its own.
  static llvm::Expected<Layers> find(const Source &source);

  int64_t size() const { return int64_t(classes.size()); }
  /// Layers between the first and the last that do the same have the same number. What comes before
  /// the layers counts as part of the first, what comes after them as part of the last.
  unsigned getClass(int64_t layer) const { return classes[size_t(layer)]; }
  const std::vector<unsigned> &listClasses() const { return classes; }
  /// The program with these layers only, the first and the last among them. They keep their names.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> keep(const std::vector<bool> &kept) const;

private:
  explicit Layers(const Source &source) : source(&source) {}

  void classify();
  llvm::Expected<mlir::Value> findReplacement(mlir::Value value, unsigned first, unsigned last,
                                              bool isGradient) const;
  std::optional<unsigned> getLayer(mlir::Value value) const;

  const Source *source;
  LayerMap map;
  llvm::DenseSet<mlir::Operation *> tangents;
  std::vector<unsigned> classes;
};

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_LAYERS_H

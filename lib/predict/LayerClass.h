//===- LayerClass.h - what one layer of a kind does, and its seconds -*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_LAYERCLASS_H
#define CLEAVE_LIB_PREDICT_LAYERCLASS_H

#include "lib/cost/OpWork.h"

#include <array>
#include <vector>

namespace cleave::predict {

/// Mesh axes along which layers communicate.
enum class Axis { Tensor, Context, Expert, Data };
constexpr size_t numAxes = 4;
/// "tp", "cp", "ep", "dp": as tables call them.
llvm::StringRef getName(Axis axis);

/// One op of a layer.
struct LayerOp : cost::OpWork {
  Axis axis = Axis::Tensor;
  /// The part of a communication that may run beside the layer's computation.
  double overlap = 0;
  /// Kernels beside those that a launch from the host makes: a library's loop over parts.
  double parts = 0;
  /// Kernels, one after the other, which a library's loop launches for the parts of a product's
  /// batch: the processors that the last tiles of one leave idle the next one does not use. 1:
  /// none.
  double loops = 1;
  /// It makes a product's operand narrower.
  bool narrows = false;
  /// What its launches cost the host, where usual ones cost 1.
  double launchCost = 1;
  /// After it, so often, the device is idle while the host, which waited for a result, launches
  /// what comes next.
  double waits = 0;
  /// It is replayed as part of a graph: the host does not launch it.
  bool replayed = false;

  LayerOp(Kind kind) { this->kind = kind; }
};

/// A pass over one microbatch.
using Pass = std::vector<LayerOp>;

/// What all layers of a kind do on one rank: identical layers are costed once. Made by the formulas
/// of Transformer.h; a program's exported layers give the same lists.
struct LayerClass {
  Pass forward, backward;
  /// The ops of the forward that a backward under selective recomputation repeats.
  Pass again;
  /// Parameters of a rank; those of experts are reduced over other ranks.
  double parameters = 0, expertParameters = 0;
  /// Bytes that the forward keeps for the backward: all; the input only (whole-layer
  /// recomputation); without those that `again` recomputes.
  double savedBytes = 0, inputBytes = 0, savedWithoutAgain = 0;

  void append(const LayerClass &other);
};

/// Process groups by axis.
using Groups = std::array<cost::Group, numAxes>;

/// Which of the model's terms count: for ablations. All but the named ones are as in the full
/// model.
struct Terms {
  bool tiles = true;      // waves of tiles; otherwise operations at the reached rate
  bool bytes = true;      // memory-bound kernels
  bool launches = true;   // kernels' own time and the host's
  bool latency = true;    // of links
  bool starts = true;     // of collectives, once each
  bool strided = true;    // rings of groups that are not neighbours in a node are slower
  bool slots = true;      // the first that a step of a ring sends is a message of its own
  bool contention = true; // slowdown of computation beside communication
  bool bubble = true;     // of the pipeline, by simulation; otherwise the busiest rank's work
  bool optimizer = true;  // the update
};

/// Seconds of a pass on one rank.
struct PassTime {
  double compute = 0;
  /// Communication that nothing hides, by axis.
  std::array<double, numAxes> exposed = {};
  /// What the host takes to launch it all.
  double host = 0;
  /// Floating-point operations, and bytes that a rank sends, by axis.
  double flops = 0;
  std::array<double, numAxes> sent = {};

  /// The device works off what the host launches: the longer of the two, and more where they are
  /// alike.
  double seconds() const;
  PassTime &operator+=(const PassTime &other);
  PassTime scaled(double factor) const;
};

PassTime timeOf(const cost::Cluster &cluster, const Groups &groups, const Pass &pass,
                const Terms &terms, bool graphs);

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_LAYERCLASS_H

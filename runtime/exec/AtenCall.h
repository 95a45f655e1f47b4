//===- AtenCall.h - instructions that call one operator ------------*- C++ -*-===//
//
// All operators are called the same way: boxed, through the dispatcher's handle, with arguments
// prepared when the program was bound. What varies from step to step are tensors and numbers.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_ATENCALL_H
#define CLEAVE_RUNTIME_EXEC_ATENCALL_H

#include "runtime/aten/OutVariant.h"
#include "runtime/aten/UnboxedOut.h"
#include "runtime/exec/PlannedResults.h"

namespace cleave::runtime {

class AtenCall : public Instruction {
public:
  explicit AtenCall(c10::OperatorHandle handle) : handle(handle) {}
  void execute(Frame &frame) override;

  struct Argument {
    enum Kind : uint8_t {
      Constant,
      Tensor,
      List,
      Number, ///< a `Scalar` that the program computes
    } kind;
    Operand operand; ///< for a list, `slot` is its index in `lists`
    /// A list itself, where its elements always are the same tensors.
    c10::IValue constant;
  };
  struct TensorList {
    std::vector<std::optional<Operand>> elements; ///< none: None
    bool isOptional = false;                      ///< `Tensor?[]`
  };
  struct Result {
    Destination destination;
    /// The declared type; none if the operator leaves the result undefined.
    std::optional<TensorType> type;
  };

  c10::OperatorHandle handle;
  std::vector<Argument> arguments;
  std::vector<TensorList> lists;
  std::vector<Result> results;
  bool returnsList = false;
  /// The operator reads the memory of its first argument by strides, which count elements in
  /// row-major order.
  bool isStrided = false;
  /// The operator shows the memory of its argument as complex numbers: a copy's where strides do
  /// not allow for it, as with `view`.
  bool takesPairs = false;
  /// Watched, as its schema may not be the truth.
  bool isOfLibrary = false;

protected:
  /// Calls the operator with what is on the frame's stack.
  void call(Frame &frame);
  /// Puts the arguments on the frame's empty stack.
  void pushArguments(Frame &frame);
  /// Makes lists once whose elements are all fixed in the frame; makes none any more.
  void keepLists(Frame &frame);
  void dropLists();
  /// Takes the results of the call from the stack.
  llvm::SmallVector<at::Tensor, 4> popResults(Frame &frame);
  /// Compares what the operator returned with what the program says it gives. Throws.
  void checkResults(llvm::ArrayRef<at::Tensor> values) const;

private:
  bool hasRun = false;
  bool isChecked = false;
  bool marksResults = false; ///< as conjugated or negated; known after the first run
};

/// A call in a function that plans memory: writes results where they are to lie if the operator can
/// be told, else answers its requests for memory.
class PlannedCall : public AtenCall {
public:
  /// `variant`: of the operator.
  PlannedCall(AtenCall call, std::vector<PlannedResult> plan, const Arena &arena,
              OutVariant variant);

  void execute(Frame &frame) override;
  void reset() override;
  bool isIdle() const override { return mode == Nothing; }

private:
  void runFirst(Frame &frame);
  void runOut(Frame &frame);
  void runUnboxed(Frame &frame);

  /// What a run does; known after the first one.
  enum Mode : uint8_t {
    First,
    Out,     ///< calls the overload that writes into given tensors
    Unboxed, ///< the same, by its C++ signature
    Placed,  ///< calls the operator, which asks for memory
    Nothing, ///< only views of fixed tensors
  } mode = First;
  PlannedResults planned;
  OutVariant variant;
  std::unique_ptr<UnboxedOut> unboxed;
  std::vector<c10::Scalar> scalars;
  at::Tensor out;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_ATENCALL_H

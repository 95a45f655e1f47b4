//===- AtenBase.td - the base of all aten ops -*- tablegen -*-===//
//
// One record per op: `AtenOp<mnemonic, schema>` with operands and attributes named and ordered as
// the arguments of the dispatcher's schema. Parser, printer, argument table and the common checks
// are generated from the record; the categories are in `ops/*.td`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_ATENBASE
#define CLEAVE_DIALECTS_ATEN_ATENBASE

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ViewLikeInterface.td"
include "dialects/aten/AtenInterfaces.td"
include "dialects/cost/CostInterface.td"
include "dialects/sharding/ShardingRuleInterface.td"

def Aten_Dialect : Dialect {
  let name = "aten";
  let cppNamespace = "::cleave::aten";
  let summary = "single-device tensor compute with ATen's names and semantics";
  let description = [{
    Typed ops for the operators of training graphs, and `aten.call` for every other operator of the
    dispatcher. All ops are pure: a tensor that PyTorch mutates is an operand, and its new value a
    result. The rationale is in `dialects/aten/README.md`, the syntax in `docs/ir.md`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Operand and attribute kinds, by the schema's type
//===----------------------------------------------------------------------===//

// `Tensor`: a ranked tensor of static shape.
def Aten_Tensor : Type<CPred<"::cleave::aten::isTensor($_self)">,
                                 "statically shaped tensor of a dtype">;
// `Tensor?`
def Aten_OptTensor : Optional<Aten_Tensor>;
// A result that `output_mask` leaves out has type `none`.
def Aten_MaybeTensor : Type<CPred<"::llvm::isa<::mlir::NoneType>($_self) || ::cleave::aten::isTensor($_self)">,
                            "statically shaped tensor of a dtype, or none">;
// `Tensor[]`
def Aten_TensorList : Variadic<Aten_Tensor>;

// Attributes. `Req` kinds have no default in the schema; for others, an absent attribute means the schema's default.
def Aten_ReqInt : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit signless integer attribute"> {
  let convertFromStorage = "$_self.getInt()";
}
defvar Aten_Int = OptionalAttr<Aten_ReqInt>;        // int
defvar Aten_Float = OptionalAttr<F64Attr>;          // float
defvar Aten_Bool = OptionalAttr<BoolAttr>;          // bool
defvar Aten_Str = OptionalAttr<StrAttr>;            // str
defvar Aten_Ints = OptionalAttr<DenseI64ArrayAttr>; // int[], SymInt[]
defvar Aten_Bools = OptionalAttr<DenseBoolArrayAttr>;  // bool[]
defvar Aten_Floats = OptionalAttr<DenseF64ArrayAttr>;  // float[]
defvar Aten_DType = OptionalAttr<TypeAttr>;         // ScalarType
defvar Aten_MemoryFormat = OptionalAttr<StrAttr>;   // MemoryFormat

// `Scalar`: an int, float, bool or complex number; the dtype rules distinguish them.
def Aten_ReqScalar : Attr<CPred<"::cleave::aten::isScalar($_self)">, "int, float, bool or complex number"> {
  let storageType = "::mlir::Attribute";
  let returnType = "::mlir::Attribute";
  let convertFromStorage = "$_self";
}
defvar Aten_Scalar = OptionalAttr<Aten_ReqScalar>;
defvar Aten_ReqFloat = F64Attr;
defvar Aten_ReqBool = BoolAttr;
defvar Aten_ReqInts = DenseI64ArrayAttr;
defvar Aten_ReqBools = DenseBoolArrayAttr;
defvar Aten_ReqStr = StrAttr;
defvar Aten_ReqDType = TypeAttr;

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

// Kind of an argument of the record: T tensor, O optional tensor, L list of tensors, A attribute.
class Aten_ArgKind<dag args, int i> {
  string letter = !if(!initialized(!getdagarg<Optional>(args, i)), "O",
                  !if(!initialized(!getdagarg<Variadic>(args, i)), "L",
                  !if(!initialized(!getdagarg<TypeConstraint>(args, i)), "T", "A")));
  string spec = "{\"" # !getdagname(args, i) # "\", '" # letter # "'}";
}

class Aten_ArgTable<dag args> {
  int count = !size(args);
  string entries = !interleave(!foreach(i, !range(count), Aten_ArgKind<args, i>.spec), ", ");
  int segments = !foldl(0, !range(count), n, i,
      !add(n, !if(!or(!eq(Aten_ArgKind<args, i>.letter, "O"), !eq(Aten_ArgKind<args, i>.letter, "L")), 1, 0)));
}

//===----------------------------------------------------------------------===//
// How an op accesses the rows of a compiled kernel: `RowKind` in `dialects/aten/Aten.h`
//===----------------------------------------------------------------------===//

/// `weight` is the cost in pointwise ops, roughly.
class Aten_Rows<string kind = "", int weight = 0> {
  string enumerator = "::cleave::aten::RowKind::" # kind;
  int ops = weight;
  bit exist = !not(!empty(kind));
}
/// No kernel may contain the op.
def Aten_NoRows : Aten_Rows;
def Aten_PointwiseRows : Aten_Rows<"Pointwise", 1>;
/// Expensive enough for a kernel of its own.
def Aten_LongPointwiseRows : Aten_Rows<"Pointwise", 2>;
def Aten_OrderedRows : Aten_Rows<"Ordered">;
def Aten_ExchangedRows : Aten_Rows<"Exchanged">;
def Aten_WindowViewRows : Aten_Rows<"Window">;
def Aten_WindowRows : Aten_Rows<"Window", 1>;
def Aten_ReducedRows : Aten_Rows<"Reduced", 1>;
def Aten_WholeRows : Aten_Rows<"Whole", 2>;
def Aten_PickedRows : Aten_Rows<"Picked", 2>;

//===----------------------------------------------------------------------===//
// Sharding rules, defined in `dialects/sharding/ShardingRule.h`
//===----------------------------------------------------------------------===//

/// Which dimensions of operands and results correspond, as C++ statements on `rule`, an `aten::RuleBuilder`.
class Aten_Sharding<string text, bit isCustom = 0, Aten_Rows impliedRows = Aten_NoRows> {
  string statements = text;
  bit custom = isCustom;
  // The row kind that follows from the rule.
  Aten_Rows rows = impliedRows;
}
/// A rule as text (`dialects/sharding/RuleText.h`), and the factors that must not be sharded, with reasons:
/// "v: an index may name any row".
class Aten_ShardingText<string text, list<string> wholes = []>
    : Aten_Sharding<"static const ::cleave::sharding::RuleText text(\"" # text # "\", {"
        # !interleave(!foreach(whole, wholes, "\"" # whole # "\""), ", ") # "}); rule.text(text);">;
/// Operands broadcast to the shape of the results.
def Aten_PointwiseSharding : Aten_Sharding<"rule.pointwise();", 0, Aten_PointwiseRows>;
/// The first result is the reshaped first operand.
def Aten_ReshapeSharding : Aten_Sharding<"rule.reshape();", 0, Aten_OrderedRows>;
/// Defined by `describeSharding` in the category's .cpp file.
def Aten_CustomSharding : Aten_Sharding<"describeSharding(rule);", 1>;
/// Nothing may be sharded.
class Aten_OpaqueSharding<string reason> : Aten_Sharding<"rule.opaque(\"" # reason # "\");">;

/// An op for one overload of the dispatcher. `schema` is its full name
/// ("aten::add.Tensor"). Ops with two or more optional tensors or tensor lists add
/// AttrSizedOperandSegments.
class AtenOp<string mnemonic, string schema, list<Trait> ownTraits = []> : Op<Aten_Dialect, mnemonic> {
  string schemaName = schema;
  let hasCustomAssemblyFormat = 1;
  Aten_Sharding sharding = Aten_OpaqueSharding<"it has no sharding rule">;
  // Groups of operands in which the op is jointly linear: ["self, other"], ["self", "mat2"]. Results are
  // named if the others do not depend on the group: ["value -> 0"].
  list<string> linear = [];
  // Groups of operands such that every element of the results is a copy of one of their elements.
  list<string> moves = [];
  // Attributes that repeat the shape of the first result.
  list<string> resultSizes = [];
  // All results share the memory of the first operand.
  bit isView = 0;
  // Adds the trait of this name.
  bit pointwiseOut = 0;
  // Adds the trait `CopyLike`.
  bit isCopy = 0;
  // See `mixesElements` of the interface.
  bit mixes = 0;
  // C++: what `getLookUp` of the interface returns.
  string lookUp = "";
  // Its row kind, if it does not follow from the sharding rule.
  Aten_Rows rows = sharding.rows;
  // C++ expressions for ops whose cost is not just their bytes (`CostOpInterface`).
  string flops = "";
  string table = "";
  let traits = ownTraits
      # [Pure, DeclareOpInterfaceMethods<AtenOpInterface, ["getSchemaName", "getArgumentSpecs"]
             # !if(mixes, ["mixesElements"], []<string>)
             # !if(!empty(lookUp), []<string>, ["getLookUp"])>,
         DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["getShardingRule"]>]
      # !if(isView, [DeclareOpInterfaceMethods<ViewLikeOpInterface>], []<Trait>)
      # !if(pointwiseOut, [PointwiseOut], []<Trait>)
      # !if(isCopy, [CopyLike], []<Trait>)
      # !if(rows.exist, [DeclareOpInterfaceMethods<RowOpInterface>], []<Trait>)
      # !if(!empty(flops # table), []<Trait>, [DeclareOpInterfaceMethods<CostOpInterface,
            !if(!empty(flops), []<string>, ["countFlops"]) # !if(!empty(table), []<string>, ["getTable"])>]);
  // Definitions that a subclass generates from the record.
  code extraDefinitions = "";
  code argumentEntries = Aten_ArgTable<arguments>.entries;
  let extraClassDefinition = [{
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser &parser, ::mlir::OperationState &state) {
      return ::cleave::aten::parseAtenOp(parser, state, argumentSpecs());
    }
    void $cppClass::print(::mlir::OpAsmPrinter &printer) {
      ::cleave::aten::printAtenOp(*this, printer);
    }
    ::llvm::ArrayRef<::cleave::aten::ArgumentSpec> $cppClass::argumentSpecs() {
      static const ::cleave::aten::ArgumentSpec specs[] = {{"", 0}, }] # argumentEntries # [{};
      return ::llvm::ArrayRef(specs).drop_front();
    }
    ::llvm::StringRef $cppClass::getSchemaName() { return "}] # schema # [{"; }
    ::llvm::ArrayRef<::cleave::aten::ArgumentSpec> $cppClass::getArgumentSpecs() { return argumentSpecs(); }
    ::cleave::sharding::ShardingRule $cppClass::getShardingRule() {
      ::cleave::aten::RuleBuilder rule(*this);
      }] # sharding.statements # "\n"
         # !interleave(!foreach(group, linear, "      rule.linear(\"" # group # "\");\n"), "")
         # !interleave(!foreach(group, moves, "      rule.moves(\"" # group # "\");\n"), "")
         # !interleave(!foreach(name, resultSizes, "      rule.sizeIsResultShape(\"" # name # "\");\n"), "") # [{
      return rule.finish();
    }
  }] # !if(isView, "::mlir::Value $cppClass::getViewSource() { return getOperation()->getOperand(0); }\n", "")
     # !if(rows.exist, "::cleave::aten::RowKind $cppClass::getRowKind() { return " # rows.enumerator # "; }\n"
         # "unsigned $cppClass::getRowWeight() { return " # rows.ops # "; }\n", "")
     # !if(mixes, "bool $cppClass::mixesElements() { return true; }\n", "")
     # !if(!empty(lookUp), "", "std::optional<::cleave::aten::LookUp> $cppClass::getLookUp() { return ::cleave::aten::LookUp"
         # lookUp # "; }\n")
     # !if(!empty(flops), "", "int64_t $cppClass::countFlops() { return " # flops # "; }\n")
     # !if(!empty(table), "", "::mlir::Value $cppClass::getTable() { return " # table # "; }\n")
     # extraDefinitions;
  let extraClassDeclaration = [{
    static ::llvm::ArrayRef<::cleave::aten::ArgumentSpec> argumentSpecs();
  }] # !if(sharding.custom, "void describeSharding(::cleave::aten::RuleBuilder &rule);\n", "");
}

#endif // CLEAVE_DIALECTS_ATEN_ATENBASE

//===- RankGrid.cpp - the program's mesh over the ranks that run it ----------===//

#include "runtime/exec/RankGrid.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave::runtime;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// `["pp" = 2, "dp" = ?]`
static std::string describe(llvm::ArrayRef<MeshAxis> mesh) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(mesh, os, [&](const MeshAxis &axis) {
    os << '"' << axis.name << "\" = ";
    if (axis.size)
      os << axis.size;
    else
      os << '?';
  });
  os << ']';
  return text;
}

llvm::Expected<std::unique_ptr<RankGrid>> RankGrid::create(llvm::ArrayRef<MeshAxis> mesh,
                                                           Communicator *world) {
  auto grid = std::make_unique<RankGrid>();
  grid->world = world;
  int64_t ranks = grid->ranks();
  if (mesh.empty()) {
    if (ranks == 1)
      return grid;
    return makeError("the program has no mesh, so one rank runs it, but there are " +
                     llvm::Twine(ranks) +
                     " ranks; give it one with cleave-opt --sync-gradients=\"axis=dp\"");
  }
  int64_t known = 1;
  for (const MeshAxis &axis : mesh)
    known *= axis.size ? axis.size : 1;
  bool isOpen = llvm::any_of(mesh, [](const MeshAxis &axis) { return axis.size == 0; });
  if (isOpen ? ranks % known != 0 : ranks != known)
    return makeError("the program's mesh " + describe(mesh) + " expects " +
                     (isOpen ? "a multiple of " : "") + llvm::Twine(known) + " rank" +
                     (known == 1 ? "" : "s") + ", found " + llvm::Twine(ranks));
  int64_t stride = ranks, rest = grid->rank();
  for (const MeshAxis &axis : mesh) {
    int64_t size = axis.size ? axis.size : ranks / known;
    stride /= size;
    grid->axes.push_back({axis.name, size, rest / stride, stride});
    rest %= stride;
  }
  return grid;
}

Session::BatchPart RankGrid::along(llvm::ArrayRef<std::string> names) const {
  Session::BatchPart part;
  for (const Axis &axis : axes)
    if (llvm::is_contained(names, axis.name))
      part = {part.index * axis.size + axis.coordinate, part.count * axis.size};
  return part;
}

llvm::Expected<Communicator *> RankGrid::group(llvm::ArrayRef<std::string> names) {
  // Ranks that share this one's coordinates on every other axis.
  std::vector<int> members = {0};
  for (const Axis &axis : axes) {
    bool isAlong = llvm::is_contained(names, axis.name);
    std::vector<int> extended;
    for (int start : members)
      for (int64_t i = isAlong ? 0 : axis.coordinate, e = isAlong ? axis.size : i + 1; i < e; ++i)
        extended.push_back(start + i * axis.stride);
    members = std::move(extended);
  }
  if (members.size() == 1)
    return nullptr;
  if (int(members.size()) == ranks())
    return world;
  for (Subgroup &known : subgroups)
    if (known.members == members)
      return known.communicator.get();
  auto made = world->subgroup(members, llvm::join(names, "+"));
  if (!made)
    return made.takeError();
  subgroups.push_back({members, std::move(*made)});
  return subgroups.back().communicator.get();
}

//===- RankGrid.cpp - the program's mesh over the ranks that run it ----------===//

#include "runtime/ranks/RankGrid.h"
#include "runtime/io/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave::runtime;

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

llvm::Expected<std::unique_ptr<RankGrid>> RankGrid::create(const Program &program,
                                                           Communicator *world) {
  std::vector<MeshAxis> mesh(program.mesh());
  if (const ScheduleInfo *schedule = program.schedule(); schedule && (!world || world->size() == 1))
    llvm::erase_if(mesh, [&](const MeshAxis &axis) { return axis.name == schedule->axis; });
  return create(mesh, world);
}

Session::BatchPart RankGrid::along(llvm::ArrayRef<std::string> names) const {
  Session::BatchPart part;
  for (const Axis &axis : axes)
    if (llvm::is_contained(names, axis.name))
      part = {part.index * axis.size + axis.coordinate, part.count * axis.size};
  return part;
}

const RankGrid::Axis *RankGrid::find(llvm::StringRef name) const {
  for (const Axis &axis : axes)
    if (axis.name == name)
      return &axis;
  return nullptr;
}

int64_t RankGrid::size(llvm::StringRef name) const {
  const Axis *axis = find(name);
  return axis ? axis->size : 1;
}

int64_t RankGrid::coordinate(llvm::StringRef name, int rank) const {
  const Axis *axis = find(name);
  return axis ? rank / axis->stride % axis->size : 0;
}

int64_t RankGrid::stride(llvm::StringRef name) const {
  const Axis *axis = find(name);
  return axis ? axis->stride : 0;
}

std::vector<std::string> RankGrid::axisNames() const {
  std::vector<std::string> names;
  for (const Axis &axis : axes)
    names.push_back(axis.name);
  return names;
}

int64_t RankGrid::index(llvm::ArrayRef<std::string> names) const {
  int64_t index = 0;
  for (const std::string &name : names)
    index = index * size(name) + coordinate(name);
  return index;
}

Part RankGrid::part(int64_t whole, llvm::ArrayRef<std::string> names, int rank) const {
  Part part{0, whole};
  for (const std::string &name : names) {
    Part inner = partOf(part.size, size(name), coordinate(name, rank));
    part = {part.begin + inner.begin, inner.size};
  }
  return part;
}

llvm::Expected<RankGroup> RankGrid::group(llvm::ArrayRef<std::string> names, llvm::StringRef lane) {
  RankGroup group;
  // World ranks in the order of the names: the last one named varies fastest.
  std::vector<int> inOrder = {rank()};
  for (const std::string &name : names) {
    const Axis *axis = find(name);
    int64_t size = axis ? axis->size : 1;
    group.sizes.push_back(size);
    if (size == 1)
      continue;
    std::vector<int> extended;
    for (int start : inOrder)
      for (int64_t i = 0; i < size; ++i)
        extended.push_back(start + (i - axis->coordinate) * axis->stride);
    inOrder = std::move(extended);
  }
  std::vector<int> members = inOrder;
  llvm::sort(members);
  for (int each : inOrder)
    group.rankAt.push_back(llvm::lower_bound(members, each) - members.begin());
  group.place = llvm::find(inOrder, rank()) - inOrder.begin();

  // One rank alone may have a world that does more than nothing (NCCL, to see its order).
  if (members.size() == 1)
    group.communicator = world && ranks() == 1 ? world : alone.get();
  else if (int(members.size()) == ranks() && lane.empty())
    group.communicator = world;
  for (Subgroup &known : subgroups)
    if (!group.communicator && known.members == members && known.lane == lane)
      group.communicator = known.communicator.get();
  if (!group.communicator) {
    std::string name = llvm::join(names, "+");
    auto made = world->subgroup(members, lane.empty() ? name : name + "/" + lane.str());
    if (!made)
      return made.takeError();
    subgroups.push_back({members, lane.str(), std::move(*made)});
    group.communicator = subgroups.back().communicator.get();
  }
  return group;
}

//===- Cluster.cpp - a library of devices, links and clusters -----------------===//

#include "lib/cost/Cluster.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace cleave;
using namespace cleave::cost;
using support::JSONReader;

std::vector<NamedNumber> Link::facts() {
  return {{"bandwidth", &bandwidth}, {"shared", &shared}};
}

std::vector<NamedNumber> Link::constants() {
  return {{"latency", &latency},
          {"start_seconds", &startSeconds, /*isOptional=*/true},
          {"efficiency", &efficiency},
          {"point_to_point_efficiency", &pointToPointEfficiency},
          {"strided_efficiency", &stridedEfficiency, /*isOptional=*/true},
          {"all_to_all_efficiency", &allToAllEfficiency}};
}

int64_t cost::ranksWithin(const Group &group, int64_t unit) {
  if (unit == 0)
    return group.size;
  return std::clamp<int64_t>(unit / group.stride, 1, group.size);
}

Cluster cost::makeNominalCluster() {
  Cluster cluster;
  cluster.device = makeNominalDevice(/*memoryBandwidth=*/1e12);
  Link link;
  link.bandwidth = 100e9;
  link.latency = 5e-6;
  cluster.levels = {{link, 0}};
  return cluster;
}

const Level *cost::findLevel(const Cluster &cluster, int64_t stride) {
  auto connects = [&](const Level &level) { return level.size == 0 || stride < level.size; };
  auto level = llvm::find_if(cluster.levels, connects);
  return level == cluster.levels.end() ? nullptr : &*level;
}

static llvm::Expected<Link> readLink(const llvm::json::Object &object, llvm::StringRef file,
                                     std::vector<std::string> &missing) {
  JSONReader reader(object, file.str());
  Link link;
  if (llvm::Error error = reader.string("link", link.name, true))
    return error;
  if (llvm::Error error = reader.string("relative", link.relative))
    return error;
  if (llvm::Error error = readFacts(reader, link.facts()))
    return error;
  if (!(link.bandwidth > 0))
    return makeError("{0}: bandwidth: expected a positive number, found {1}", file, link.bandwidth);
  auto names = readConstants(reader, link.constants());
  if (!names)
    return names.takeError();
  if (llvm::Error error = reader.finish())
    return error;
  if (link.relative.empty())
    for (const NamedNumber &constant : link.constants())
      if (constant.isOptional)
        llvm::erase(*names, constant.name);
  if (!names->empty() && link.relative.empty())
    return makeError("{0}: expected the constant \"{1}\", or a \"relative\" to take it from", file,
                     names->front());
  missing = std::move(*names);
  return link;
}

llvm::Error Library::readFile(llvm::StringRef path) {
  auto value = support::readJSONFile(path);
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  if (!object)
    return llvm::Error::success();
  if (object->getString("device")) {
    auto device = readDevice(*object, path, missingOfDevice.emplace_back());
    if (!device)
      return device.takeError();
    devices.push_back(std::move(*device));
  } else if (object->getString("link")) {
    auto link = readLink(*object, path, missingOfLink.emplace_back());
    if (!link)
      return link.takeError();
    links.push_back(std::move(*link));
  } else if (object->getString("cluster")) {
    return readNodes(*object, path);
  }
  return llvm::Error::success();
}

llvm::Error Library::readNodes(const llvm::json::Object &object, llvm::StringRef path) {
  JSONReader reader(object, path.str());
  Nodes &cluster = nodes.emplace_back();
  cluster.file = path.str();
  if (llvm::Error error = reader.string("cluster", cluster.name, true))
    return error;
  if (llvm::Error error = reader.string("of", cluster.device, true))
    return error;
  auto types = reader.array("types");
  if (!types)
    return types.takeError();
  for (const llvm::json::Value &value : **types) {
    std::optional<llvm::StringRef> type = value.getAsString();
    if (!type)
      return makeError("{0}: expected strings", reader.path("types"));
    cluster.types.push_back(type->str());
  }
  if (llvm::Error error = reader.number("devices_per_node", cluster.devicesPerNode, true))
    return error;
  if (llvm::Error error = reader.number("host_memory_bytes", cluster.hostMemory))
    return error;
  if (!(cluster.hostMemory >= 0) || (cluster.hostMemory > 0 && !(cluster.devicesPerNode > 0)))
    return makeError("{0}: expected 0 or the bytes of a node that has devices, found {1}",
                     reader.path("host_memory_bytes"), cluster.hostMemory);
  if (llvm::Error error = reader.number("error", cluster.error))
    return error;
  auto readLevel = [&](const llvm::json::Object &level, const std::string &where) -> llvm::Error {
    JSONReader fields(level, where);
    Nodes::NamedLevel result{"", 0, 1};
    if (llvm::Error error = fields.string("link", result.link, true))
      return error;
    if (llvm::Error error = fields.number("size", result.size, true))
      return error;
    if (llvm::Error error = fields.number("width", result.width))
      return error;
    if (!(result.size >= 0) || result.size > 1e9 || result.size != double(int64_t(result.size)))
      return makeError("{0}: expected a whole number of devices, or 0 for any, found {1}",
                       fields.path("size"), result.size);
    if (!(result.width > 0))
      return makeError("{0}: expected a positive number, found {1}", fields.path("width"),
                       result.width);
    cluster.levels.push_back(result);
    return fields.finish();
  };
  if (llvm::Error error = reader.objects("levels", readLevel))
    return error;
  return reader.finish();
}

const Link *Library::findLink(llvm::StringRef name) const {
  auto found = llvm::find_if(links, [&](const Link &link) { return link.name == name; });
  return found == links.end() ? nullptr : &*found;
}

const Device *Library::lookUpDevice(llvm::StringRef name) const {
  auto found = llvm::find_if(devices, [&](const Device &device) { return device.name == name; });
  return found == devices.end() ? nullptr : &*found;
}

/// Takes constants that a file leaves out from its relative, or from the relative's relative.
template <typename T>
static llvm::Error resolveRelatives(std::vector<T> &items,
                                    const std::vector<std::vector<std::string>> &missing) {
  for (size_t i = 0; i < items.size(); ++i) {
    for (const std::string &name : missing[i]) {
      size_t at = i;
      size_t steps = 0;
      do {
        auto found = llvm::find_if(items, [&](T &item) { return item.name == items[at].relative; });
        if (found == items.end() || ++steps > items.size())
          return makeError("{0}: expected the constant \"{1}\", or a \"relative\" that has it, "
                           "found \"{2}\"",
                           items[i].name, name, items[at].relative);
        at = found - items.begin();
      } while (llvm::is_contained(missing[at], name));
      auto same = [&](const NamedNumber &number) { return number.name == name; };
      std::vector<NamedNumber> own = items[i].constants(), others = items[at].constants();
      *llvm::find_if(own, same)->value = *llvm::find_if(others, same)->value;
    }
  }
  return llvm::Error::success();
}

llvm::Error Library::resolve() {
  if (llvm::Error error = resolveRelatives(devices, missingOfDevice))
    return error;
  if (llvm::Error error = resolveRelatives(links, missingOfLink))
    return error;
  for (const Nodes &cluster : nodes) {
    if (!lookUpDevice(cluster.device))
      return makeError("{0}: has no device named \"{1}\": write a file of it, {2}/{1}.json",
                       cluster.file, cluster.device, folder);
    if (cluster.levels.empty())
      return makeError("{0}: levels: expected one or more, found none", cluster.file);
    for (const Nodes::NamedLevel &level : cluster.levels)
      if (!findLink(level.link))
        return makeError("{0}: has no link named \"{1}\"", cluster.file, level.link);
    for (size_t i = 0; i < cluster.levels.size(); ++i) {
      double size = cluster.levels[i].size;
      if ((i + 1 == cluster.levels.size()) != (size == 0) ||
          (i && size != 0 && size <= cluster.levels[i - 1].size))
        return makeError("{0}: levels: expected ascending sizes, the last one 0 for any number",
                         cluster.file);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<Library> Library::read(llvm::StringRef folder) {
  Library library;
  library.folder = folder.str();
  std::vector<std::string> paths;
  std::error_code code;
  for (llvm::sys::fs::directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code))
    if (llvm::sys::path::extension(it->path()) == ".json")
      paths.push_back(it->path());
  if (code)
    return makeError("{0}: {1}", folder, code.message());
  // The order of a folder's entries is the file system's.
  llvm::sort(paths);
  for (const std::string &path : paths)
    if (llvm::Error error = library.readFile(path))
      return error;
  if (library.nodes.empty())
    return makeError("{0}: expected files of clusters (*.json), found none", folder);
  if (llvm::Error error = library.resolve())
    return error;
  return library;
}

Cluster Library::make(const Nodes &cluster) const {
  const Device *device = lookUpDevice(cluster.device);
  Cluster result;
  result.name = cluster.name;
  result.file = cluster.file;
  result.device = *device;
  result.error = cluster.error;
  if (cluster.hostMemory > 0)
    result.hostMemory = cluster.hostMemory / cluster.devicesPerNode;
  std::vector<std::string> borrowed;
  if (!missingOfDevice[size_t(device - devices.data())].empty())
    borrowed.push_back(device->name + " has constants of " + device->relative);
  for (const Nodes::NamedLevel &level : cluster.levels) {
    const Link *link = findLink(level.link);
    result.levels.push_back({*link, int64_t(level.size), level.width});
    if (!missingOfLink[size_t(link - links.data())].empty())
      borrowed.push_back(link->name + " has constants of " + link->relative);
  }
  result.note = llvm::join(borrowed, "; ");
  return result;
}

llvm::Expected<Cluster> Library::find(llvm::StringRef type, int64_t devicesPerNode) const {
  bool known = false;
  for (const Nodes &cluster : nodes) {
    if (!llvm::is_contained(cluster.types, type))
      continue;
    known = true;
    if (!devicesPerNode || cluster.devicesPerNode == double(devicesPerNode))
      return make(cluster);
  }
  if (known)
    return makeError("gpus_per_node: no cluster of nodes with {0} {1} is described: write a file "
                     "of it in {2}",
                     devicesPerNode, type, folder);
  return findNamed(type, "gpu_type");
}

llvm::Expected<Cluster> Library::findNamed(llvm::StringRef name, llvm::StringRef what) const {
  for (const Nodes &cluster : nodes)
    if (cluster.name == name)
      return make(cluster);
  for (const Nodes &cluster : nodes)
    if (llvm::is_contained(cluster.types, name))
      return make(cluster);
  // A table has a message for each row.
  std::string others;
  if (what != "gpu_type") {
    others = "; others are ";
    llvm::raw_string_ostream os(others);
    llvm::interleaveComma(nodes, os, [&](const Nodes &cluster) { os << cluster.name; });
  }
  return makeError("{0}: no cluster of this device is described, found '{1}': write files of "
                   "the device and the cluster, {2}/{3}.json and {2}/{3}-cluster.json{4}",
                   what, name, folder, name.lower(), others);
}

llvm::Expected<Device> Library::findDevice(llvm::StringRef name) const {
  if (const Device *device = lookUpDevice(name))
    return *device;
  return makeError("device: none of this name is described, found '{0}': write a file of it, "
                   "{1}/{2}.json",
                   name, folder, name.lower());
}

llvm::Expected<Cluster> Library::readCluster(llvm::StringRef path) {
  auto value = support::readJSONFile(path);
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  std::optional<llvm::StringRef> name = object ? object->getString("cluster") : std::nullopt;
  if (!name)
    return makeError("{0}: expected a JSON object with \"cluster\", \"of\" and \"levels\"", path);
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  auto library = read(folder.empty() ? "." : folder);
  if (!library)
    return library.takeError();
  // Of several files with that name, the one that was asked for.
  for (const Nodes &cluster : library->nodes)
    if (llvm::sys::fs::equivalent(cluster.file, path))
      return library->make(cluster);
  return library->findNamed(*name, path);
}

//===- Plugin.h - the C interface of device plugins ----------------*- C++ -*-===//
//
// The runtime itself knows LibTorch's generic devices alone: tensors, streams and events. What is
// a vendor's (modules and launches, communicators, graphs, ranges for profilers) comes from a
// shared object that exports `cleave_device_plugin`. It is loaded before LibTorch is used and
// stays.
//
// Functions return 0, or another number where they failed; `lastError` then says why, in one
// line, for the calling thread. None throws. What the interface calls the current stream is
// LibTorch's for the calling thread.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_PLUGIN_H
#define CLEAVE_RUNTIME_DEVICE_PLUGIN_H

#include "runtime/device/Draw.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Changes with every change of this file; the runtime takes no other.
#define CLEAVE_DEVICE_PLUGIN_ABI 2
#define CLEAVE_DEVICE_PLUGIN_ENTRY "cleave_device_plugin"

/// What a device is. Versions are numbered as the libraries do it themselves; 0: not there.
typedef struct CleaveDeviceFacts {
  char name[128];
  int32_t index, count;                     ///< this device, and how many there are
  int32_t capabilityMajor, capabilityMinor; ///< of its instruction set: 9, 0
  int32_t multiprocessors;
  int64_t totalMemory, freeMemory;             ///< bytes
  int32_t driverVersion, runtimeVersion;       ///< 13000 is 13.0
  int32_t communicationVersion, neuralVersion; ///< NCCL 22809 is 2.28.9; cuDNN 91900 is 9.19.0
  uint8_t uuid[16];                            ///< the same for all processes that share the device
} CleaveDeviceFacts;

/// A launch of `grid` blocks of `block` threads on the current stream.
typedef struct CleaveLaunch {
  uint32_t grid, block;
  uint32_t sharedBytes; ///< dynamic shared memory of a block
  /// The address of each argument's value, in the order of the function's parameters.
  void **arguments;
} CleaveLaunch;

/// One end of a group of ranks, each of which has a device of its own.
typedef struct CleaveBackendOptions {
  void *store; ///< c10d::Store *, shared by the group's ranks alone
  int32_t rank, size;
  int64_t timeoutMilliseconds;
  const char *name; ///< for messages
} CleaveBackendOptions;

/// What the allocator of the device's tensors asks at each request of a thread. Neither throws.
typedef struct CleaveAllocationHook {
  /// Where `bytes` are to lie, memory that its owner keeps; null: where the allocator likes.
  void *(*place)(size_t bytes);
  /// Where the allocator has found memory for the request that `place` was asked about last.
  void (*note)(const void *address);
} CleaveAllocationHook;

typedef struct CleaveDevicePlugin {
  uint32_t abi;
  uint32_t bytes; ///< sizeof(CleaveDevicePlugin)
  /// What `--device` calls it: "cuda".
  const char *kind;
  /// Where its tensors live: a c10::DeviceType.
  int32_t deviceType;
  /// The LibTorch that it was compiled with: "2.11.0".
  const char *torchVersion;

  const char *(*lastError)(void);
  /// Whether there is a device, without using one: the process may still fork. Writes the number.
  int (*probe)(int32_t *count);
  /// Makes device `index` the calling thread's.
  int (*open)(int32_t index, CleaveDeviceFacts *facts);

  /// Makes the allocator ask `hook` from now on, which stays. Null: it cannot.
  int (*hookAllocator)(const CleaveAllocationHook *hook);

  /// A module of compiled kernels (a cubin) from memory, which may go afterwards.
  int (*loadModule)(const void *image, size_t bytes, void **module);
  void (*unloadModule)(void *module);
  int (*getFunction)(void *module, const char *name, void **function);
  int (*launch)(void *function, const CleaveLaunch *launch);

  /// Draws random numbers on the current stream. Null: the plugin cannot, the host draws.
  int (*draw)(const CleaveDraw *draw);

  /// A new c10d::Backend, whose reference the caller owns; null: the plugin has none.
  int (*createBackend)(const CleaveBackendOptions *options, void **backend);

  /// Graphs: what is enqueued on the current stream between the two is recorded instead of run.
  /// Null: the plugin has none.
  int (*beginCapture)(void **graph);
  int (*endCapture)(void *graph);
  /// Enqueues all of it on the current stream.
  int (*replay)(void *graph);
  void (*destroyGraph)(void *graph);

  /// Ranges of host time that a profiler shows, one within the other.
  void (*pushRange)(const char *name);
  void (*popRange)(void);
} CleaveDevicePlugin;

/// The type of `cleave_device_plugin`.
typedef const CleaveDevicePlugin *(*CleaveDevicePluginEntry)(void);

#ifdef __cplusplus
}
#endif

#endif // CLEAVE_RUNTIME_DEVICE_PLUGIN_H

//===- Parts.h - the functions of the CUDA plugin -------------------*- C++ -*-===//
//
// What the table in Plugin.cpp points to; runtime/device/Plugin.h says what each does.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_CUDA_PARTS_H
#define CLEAVE_RUNTIME_CUDA_PARTS_H

#include "runtime/device/Plugin.h"

namespace cleave::cuda {

// Allocator.cpp
int hookAllocator(const CleaveAllocationHook *hook);

// Draw.cpp
int draw(const CleaveDraw *draw);

// Kernels.cpp
int loadModule(const void *image, size_t bytes, void **module);
void unloadModule(void *module);
int getFunction(void *module, const char *name, void **function);
int launch(void *function, const CleaveLaunch *launch);

// Communication.cpp
int createBackend(const CleaveBackendOptions *options, void **backend);
/// The version of the NCCL that is loaded; 0: none.
int getCommunicationVersion();
/// An error of `fail` unless it is the one that this plugin was compiled with.
int checkCommunicationVersion();

// Graphs.cpp
int beginCapture(void **graph);
int endCapture(void *graph);
int replay(void *graph);
void destroyGraph(void *graph);
void pushRange(const char *name);
void popRange();

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_PARTS_H

//===- CpuFeatures.cpp - what the processor announces and refuses ------------===//

#include "runtime/aten/CpuFeatures.h"

#include <cerrno>
#include <cstdlib>

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/// CPUID leaf 7: EDX bit 24 is AMX-TILE.
static bool announcesAmx() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1);
}

/// Configures one tile of 16 rows of 64 bytes and clears it.
__attribute__((target("amx-tile"))) static void useTile() {
  alignas(64) unsigned char config[64] = {};
  config[0] = 1;   // palette
  config[16] = 64; // bytes in a row of tile 0
  config[48] = 16; // rows of tile 0
  _tile_loadconfig(config);
  _tile_zero(0);
  _tile_release();
}

/// Whether a process that asks for AMX and uses it lives. No permission counts as living: oneDNN
/// asks as well, and goes without.
static bool survivesAmx() {
  pid_t child = fork();
  if (child < 0)
    return true;
  if (child == 0) {
    constexpr long requestPermission = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM
    if (syscall(SYS_arch_prctl, requestPermission, tileData) == 0)
      useTile();
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status);
}

void cleave::runtime::avoidRefusedAmx() {
  if (!getenv("ONEDNN_MAX_CPU_ISA") && announcesAmx() && !survivesAmx())
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16", /*overwrite=*/0);
}

#else

void cleave::runtime::avoidRefusedAmx() {}

#endif

// Stands in for gloo/common/error.h, of which ProcessGroupGloo.hpp needs nothing (see
// ../../README.md).

#ifndef CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_COMMON_ERROR_H
#define CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_COMMON_ERROR_H

#endif // CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_COMMON_ERROR_H

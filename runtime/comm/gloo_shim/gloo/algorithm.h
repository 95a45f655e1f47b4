// Stands in for gloo/algorithm.h, of which ProcessGroupGloo.hpp needs nothing (see ../README.md).

#ifndef CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_ALGORITHM_H
#define CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_ALGORITHM_H

#endif // CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_ALGORITHM_H

// Stands in for gloo/common/error.h, of which ProcessGroupGloo.hpp needs nothing (see
// ../../README.md).
#pragma once

// Stands in for gloo/algorithm.h, of which ProcessGroupGloo.hpp needs nothing (see ../README.md).
#pragma once

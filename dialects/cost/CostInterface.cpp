//===- CostInterface.cpp - what an op computes and reads ---------------------===//

#include "dialects/cost/CostInterface.h"

#include "dialects/cost/CostInterface.cpp.inc"

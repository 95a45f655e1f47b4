//===- DerivativeInterface.cpp - how an op is differentiated ------------------===//

#include "dialects/derivative/DerivativeInterface.h"

#include "dialects/derivative/DerivativeInterface.cpp.inc"

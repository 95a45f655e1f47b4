// Clusters of tests of predictions.

#ifndef CLEAVE_TEST_UNIT_LIB_PREDICT_CLUSTERS_H
#define CLEAVE_TEST_UNIT_LIB_PREDICT_CLUSTERS_H

#include "lib/cost/Cluster.h"

namespace cleave {

/// Of devices on which only operations take time.
inline cost::Cluster makeCluster() {
  cost::Cluster cluster;
  cluster.device.processors = 1;
  cluster.device.memory = 1e15;
  cluster.device.memoryBandwidth = 1e30;
  cluster.device.flops16 = 1e12;
  cost::Link link;
  link.bandwidth = 1e30;
  cluster.levels = {{link, 8}, {link, 0}};
  return cluster;
}

} // namespace cleave

#endif // CLEAVE_TEST_UNIT_LIB_PREDICT_CLUSTERS_H

pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 1 topology loop transfers implied {
  rank 0: F0.0 B0.0
  rank 1: F1.0 B1.0
}

// The kernel that draws a random op's numbers: compiled by NVRTC, after runtime/device/Draw.h.

/// A thread draws four elements, which share a block of words where they need one each.
extern "C" __global__ void cleave_draw(CleaveDraw draw) {
  int64_t begin = 4 * (int64_t(blockIdx.x) * blockDim.x + threadIdx.x);
  int64_t end = begin + 4 < draw.count ? begin + 4 : draw.count;
  if (begin < end)
    cleave::draw::drawRange(draw, begin, end);
}

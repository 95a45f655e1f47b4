//===- Draw.h - numbers of the Philox generator, one by one --------*- C++ -*-===//
//
// What docs/random.md defines, for processors and for compilers of devices' code alike: this file
// is compiled where it is used, by NVRTC too, which has no standard library. Nothing but additions,
// multiplications, divisions and square roots in IEEE arithmetic, none of them contracted: so the
// numbers are the same bits everywhere.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_DRAW_H
#define CLEAVE_RUNTIME_DEVICE_DRAW_H

#ifdef __CUDACC_RTC__
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
#define CLEAVE_DRAW __device__ inline
#else
#include <math.h>
#include <stdint.h>
#define CLEAVE_DRAW inline
#endif

enum CleaveDrawKind {
  CleaveDrawBernoulli,   ///< bytes: 1 where u < `first`
  CleaveDrawBernoulliOf, ///< bytes: 1 where u < the element's own of `probabilities`
  CleaveDrawUniform,     ///< between `first` and `second`
  CleaveDrawNormal       ///< with mean `first` and standard deviation `second`
};
enum CleaveDrawElement { CleaveDrawF16, CleaveDrawBF16, CleaveDrawF32, CleaveDrawF64 };
#define CLEAVE_DRAW_MOST_DIMENSIONS 8

/// One random op's numbers: of a part of a whole tensor, both in row-major order.
typedef struct CleaveDraw {
  void *out; ///< the part; contiguous
  /// The key, and where this microbatch's numbers begin: read when the numbers are drawn.
  const int64_t *seed, *offset;
  int64_t position; ///< where the op begins, after the offset
  int32_t kind, element;
  double first, second;
  const double *probabilities;
  /// The part, by dimension; its number of elements.
  int32_t dimensions;
  int64_t whole[CLEAVE_DRAW_MOST_DIMENSIONS];
  int64_t begin[CLEAVE_DRAW_MOST_DIMENSIONS];
  int64_t sizes[CLEAVE_DRAW_MOST_DIMENSIONS];
  int64_t count;
} CleaveDraw;

#ifdef __cplusplus
namespace cleave::draw {

//===----------------------------------------------------------------------===//
// Numbers of words
//===----------------------------------------------------------------------===//

/// In [0, 1), of as many bits as the words have.
CLEAVE_DRAW double uniform32(const uint32_t *words) {
  return words[0] * 0x1p-32;
}
CLEAVE_DRAW double uniform64(const uint32_t *words) {
  uint64_t bits = words[0] | uint64_t(words[1]) << 32;
  return double(bits >> 11) * 0x1p-53;
}

/// The natural logarithm of a normal number, below one unit in the last place: the method and
/// coefficients of fdlibm's e_log.c.
CLEAVE_DRAW double logOf(double x) {
  union {
    double number;
    uint64_t bits;
  } value = {x};
  // A power of two, and a factor between the roots of 1/2 and of 2.
  uint32_t high = uint32_t(value.bits >> 32) + (0x3ff00000 - 0x3fe6a09e);
  double exponent = double(int32_t(high >> 20) - 0x3ff);
  high = (high & 0x000fffff) + 0x3fe6a09e;
  value.bits = uint64_t(high) << 32 | (value.bits & 0xffffffff);
  double f = value.number - 1.0, half = 0.5 * f * f;
  double s = f / (2.0 + f), z = s * s, w = z * z;
  double even = w * (3.999999999940941908e-01 +
                     w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  double odd = z * (6.666666666666735130e-01 +
                    w * (2.857142874366239149e-01 +
                         w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  return s * (half + (odd + even)) + exponent * 1.90821492927058770002e-10 - half + f +
         exponent * 6.93147180369123816490e-01;
}

/// cos(2 pi u) of u in [0, 1): polynomials of fdlibm's k_sin.c and k_cos.c within an eighth turn of
/// a quarter.
CLEAVE_DRAW double cosOfTurns(double u) {
  int32_t quarter = int32_t(4 * u + 0.5);
  double x = (u - 0.25 * quarter) * 6.283185307179586476925;
  double z = x * x, w = z * z, result;
  if (quarter & 1) {
    double r = 8.33333333332248946124e-03 +
               z * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06) +
               z * w * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
    result = -(x + z * x * (-1.66666666666666324348e-01 + z * r));
  } else {
    double r = z * (4.16666666666666019037e-02 +
                    z * (-1.38888888888741095749e-03 + z * 2.48015872894767294178e-05)) +
               w * w *
                   (-2.75573143513906633035e-07 +
                    z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11));
    double half = 0.5 * z, rest = 1.0 - half;
    result = rest + (((1.0 - rest) - half) + z * r);
  }
  return quarter & 2 ? -result : result;
}

/// Box and Muller's transform of two numbers, of the first of which 0 is left out.
CLEAVE_DRAW double normal32(const uint32_t *words) {
  return sqrt(-2 * logOf((words[0] + 1.0) * 0x1p-32)) * cosOfTurns(uniform32(words + 1));
}
CLEAVE_DRAW double normal64(const uint32_t *words) {
  return sqrt(-2 * logOf(uniform64(words) + 0x1p-53)) * cosOfTurns(uniform64(words + 2));
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// Block `number` of four words: Philox4x32-10.
CLEAVE_DRAW void drawBlock(uint64_t seed, uint64_t stream, uint64_t number, uint32_t *words) {
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  uint32_t c0 = uint32_t(number), c1 = uint32_t(number >> 32);
  uint32_t c2 = uint32_t(stream), c3 = uint32_t(stream >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t(0xD2511F53) * c0, product1 = uint64_t(0xCD9E8D57) * c2;
    c0 = uint32_t(product1 >> 32) ^ c1 ^ key0;
    c1 = uint32_t(product1);
    c2 = uint32_t(product0 >> 32) ^ c3 ^ key1;
    c3 = uint32_t(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// The nearest half-precision number, ties to even.
CLEAVE_DRAW uint16_t toHalf(float number) {
  union {
    float number;
    uint32_t bits;
  } value = {number}, sum;
  uint32_t sign = value.bits & 0x80000000, doubled = value.bits + value.bits;
  value.bits &= 0x7fffffff;
  // Too large becomes infinite; then a number is added that leaves the bits to be kept.
  float base = value.number * 0x1p+112f * 0x1p-110f;
  uint32_t bias = doubled & 0xFF000000;
  if (bias < 0x71000000)
    bias = 0x71000000;
  sum.bits = (bias >> 1) + 0x07800000;
  sum.number += base;
  uint32_t rounded = ((sum.bits >> 13) & 0x7C00) + (sum.bits & 0x0FFF);
  return uint16_t(sign >> 16 | (doubled > 0xFF000000 ? 0x7E00 : rounded));
}

CLEAVE_DRAW float fromHalf(uint16_t half) {
  uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
  union {
    uint32_t bits;
    float number;
  } value;
  if (exponent == 0) {
    float number = float(mantissa) * 0x1p-24f;
    return half & 0x8000 ? -number : number;
  }
  value.bits = uint32_t(half & 0x8000) << 16 | (exponent == 31 ? 255u : exponent + 112) << 23 |
               mantissa << 13;
  return value.number;
}

CLEAVE_DRAW uint16_t toBFloat16(float number) {
  union {
    float number;
    uint32_t bits;
  } value = {number};
  if (number != number)
    return 0x7FC0;
  return uint16_t((value.bits + 0x7FFF + (value.bits >> 16 & 1)) >> 16);
}

CLEAVE_DRAW float fromBFloat16(uint16_t number) {
  union {
    uint32_t bits;
    float number;
  } value = {uint32_t(number) << 16};
  return value.number;
}

/// Stores a number rounded to the element type. With `limit`: `otherwise` where that reaches it.
CLEAVE_DRAW void store(const CleaveDraw &draw, int64_t index, double value, const double *limit,
                       double otherwise) {
  for (bool isLast = !limit;; isLast = true) {
    double rounded = value;
    switch (draw.element) {
    case CleaveDrawF16: {
      uint16_t bits = toHalf(float(value));
      static_cast<uint16_t *>(draw.out)[index] = bits;
      rounded = fromHalf(bits);
      break;
    }
    case CleaveDrawBF16: {
      uint16_t bits = toBFloat16(float(value));
      static_cast<uint16_t *>(draw.out)[index] = bits;
      rounded = fromBFloat16(bits);
      break;
    }
    case CleaveDrawF32:
      static_cast<float *>(draw.out)[index] = float(value);
      rounded = float(value);
      break;
    default:
      static_cast<double *>(draw.out)[index] = value;
    }
    if (isLast || rounded < *limit)
      return;
    value = otherwise;
  }
}

/// The index in the whole of an element of the part.
CLEAVE_DRAW int64_t indexInWhole(const CleaveDraw &draw, int64_t index) {
  int64_t result = 0, stride = 1;
  for (int32_t d = draw.dimensions - 1; d > 0; --d) {
    result += stride * (draw.begin[d] + index % draw.sizes[d]);
    index /= draw.sizes[d];
    stride *= draw.whole[d];
  }
  return draw.dimensions > 0 ? result + stride * (draw.begin[0] + index) : index;
}

/// Elements [begin, end) of the part.
CLEAVE_DRAW void drawRange(const CleaveDraw &draw, int64_t begin, int64_t end) {
  bool isWide = draw.element == CleaveDrawF64 && draw.kind != CleaveDrawBernoulli;
  // One, two or four: a block of four has all words of an element.
  int64_t wordsPerElement = (draw.kind == CleaveDrawNormal ? 2 : 1) * (isWide ? 2 : 1);
  uint64_t seed = uint64_t(*draw.seed), stream = uint64_t(*draw.offset) + uint64_t(draw.position);
  uint64_t known = ~uint64_t(0);
  uint32_t block[4];
  double steps = draw.element == CleaveDrawF16    ? 0x1p11
                 : draw.element == CleaveDrawBF16 ? 0x1p8
                                                  : 0x1p24;
  for (int64_t i = begin; i < end; ++i) {
    uint64_t first = uint64_t(indexInWhole(draw, i) * wordsPerElement);
    if (first / 4 != known) {
      known = first / 4;
      drawBlock(seed, stream, known, block);
    }
    const uint32_t *words = block + first % 4;
    double u = isWide ? uniform64(words) : uniform32(words);
    switch (draw.kind) {
    case CleaveDrawBernoulli:
      static_cast<uint8_t *>(draw.out)[i] = u < draw.first;
      break;
    case CleaveDrawBernoulliOf:
      static_cast<uint8_t *>(draw.out)[i] = u < draw.probabilities[i];
      break;
    case CleaveDrawUniform: {
      // As many bits as the type's mantissa has, so that a number is not rounded up to the limit.
      if (!isWide)
        u = double(int64_t(u * steps)) / steps;
      double value = draw.first + u * (draw.second - draw.first);
      store(draw, i, value, draw.first == draw.second ? nullptr : &draw.second, draw.first);
      break;
    }
    default:
      store(draw, i, draw.first + draw.second * (isWide ? normal64(words) : normal32(words)),
            nullptr, 0);
    }
  }
}

} // namespace cleave::draw
#endif

#endif // CLEAVE_RUNTIME_DEVICE_DRAW_H

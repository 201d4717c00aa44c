#include "dense_kernels.hpp"

#include <algorithm>
#include <cstddef>

#include "vector_families.hpp"

namespace hanse {

#if defined(__x86_64__)

namespace avx512 {

namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 sees it in its own header
// A block of kLanes x kLanes: pairs of rows, fours of rows, then fours of lanes twice.
HANSE_AVX512 HANSE_INLINE void transpose_block(const float* from, int64_t from_row, float* to,
                                               int64_t to_row) {
  __m512 r[16], t[16];
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) r[k] = load(from + k * from_row);
#pragma GCC unroll 8
  for (int k = 0; k < 16; k += 2) {
    t[k] = _mm512_unpacklo_ps(r[k], r[k + 1]);
    t[k + 1] = _mm512_unpackhi_ps(r[k], r[k + 1]);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 16; k += 4) {
    r[k] = _mm512_shuffle_ps(t[k], t[k + 2], 0x44);
    r[k + 1] = _mm512_shuffle_ps(t[k], t[k + 2], 0xee);
    r[k + 2] = _mm512_shuffle_ps(t[k + 1], t[k + 3], 0x44);
    r[k + 3] = _mm512_shuffle_ps(t[k + 1], t[k + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    t[k] = _mm512_shuffle_f32x4(r[k], r[k + 4], 0x88);
    t[k + 4] = _mm512_shuffle_f32x4(r[k], r[k + 4], 0xdd);
    t[k + 8] = _mm512_shuffle_f32x4(r[k + 8], r[k + 12], 0x88);
    t[k + 12] = _mm512_shuffle_f32x4(r[k + 8], r[k + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {  // t[k] has the columns k and k + 8
    store(to + k * to_row, _mm512_shuffle_f32x4(t[k], t[k + 8], 0x88));
    store(to + (k + 8) * to_row, _mm512_shuffle_f32x4(t[k], t[k + 8], 0xdd));
  }
}
#pragma GCC diagnostic pop

// to [columns, line] <- the transposed of from [rows, columns], whose rows are `row` apart. Columns
// are whole vectors.
HANSE_AVX512 inline void transpose_part(const float* from, int64_t row, int64_t rows,
                                        int64_t columns, float* to, int64_t line) {
  int64_t r = 0;
  for (; r + kLanes <= rows; r += kLanes) {
    for (int64_t c = 0; c < columns; c += kLanes) {
      transpose_block(from + r * row + c, row, to + c * line + r, line);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * line + r] = from[r * row + c];
  }
}

// The first of each of the parts of `count` values that in_parts() makes, and their end.
struct Parts {
  int64_t first[kStreamedRows + 1];
  int64_t size = 0;

  Parts(int64_t count, int64_t most) {
    in_parts(count, most, [&](int64_t begin, int64_t number) {
      first[size++] = begin;
      first[size] = begin + number;
    });
  }
  template <class F>
  void visit(F f) const {
    for (int64_t part = 0; part < size; ++part) f(first[part], first[part + 1] - first[part]);
  }
};

// Parts of as many outputs as a tile has, whose sums stay in the first cache.
void add_product(int64_t rows, int64_t out, int64_t in, const float* x, const float* w, float* y) {
  constexpr int N = 4;
  constexpr int64_t kSide = N * kLanes;
  const Parts parts(rows, kMost<N>);
  alignas(64) float transposed[kSide * kSide] = {};
  alignas(64) float sums[kStreamedRows * kSide] = {};
  for (int64_t o = 0; o < out; o += kSide) {
    const int64_t outputs = std::min(kSide, out - o);
    for (int64_t r = 0; r < rows; ++r) std::copy_n(y + r * out + o, outputs, sums + r * kSide);
    for (int64_t i = 0; i < in; i += kSide) {
      const int64_t inputs = std::min(kSide, in - i);
      const float* part = w + o * in + i;
      transpose_part(part, in, outputs, inputs, transposed, kSide);
      const float* next = i + inputs < in ? part + inputs : w + (o + outputs) * in;
      parts.visit([&](int64_t r, int64_t number) {
        const TileOfSums tile{.x = x + r * in + i,
                              .x_pixel = in,
                              .rows = 1,
                              .length = inputs,
                              .w = transposed,
                              .line = kSide,
                              .y = sums + r * kSide,
                              .y_pixel = kSide,
                              .last = kLanes,
                              .add = true,
                              .fetch = next,
                              .fetch_line = in};
        kSumTiles<N, true>[static_cast<std::size_t>(number - 1)](tile);
      });
    }
    for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * kSide, outputs, y + r * out + o);
  }
}

// Of the outputs [o, o + outputs) and the inputs [i, end), N vectors at a time.
template <int N>
void descend_part(const WeightGradient& g, const WeightStep& step, float* dx, int64_t o,
                  int64_t outputs, int64_t i, int64_t end) {
  const Parts rows(g.samples, kMost<N>), lines(outputs, kMost<N>);
  for (; i < end; i += N * kLanes) {
    const int64_t part = o * g.in + i;
    rows.visit([&](int64_t r, int64_t number) {
      const TileOfSums tile{.x = g.deltas + r * g.out + o,
                            .x_pixel = g.out,
                            .rows = 1,
                            .length = outputs,
                            .w = step.w + part,
                            .line = g.in,
                            .y = dx + r * g.in + i,
                            .y_pixel = g.in,
                            .last = kLanes,
                            .add = o > 0,
                            .fetch = step.w + part + N * kLanes,
                            .fetch_line = g.in};
      kSumTiles<N, true>[static_cast<std::size_t>(number - 1)](tile);
    });
    lines.visit([&](int64_t line, int64_t number) {
      const TileOfWeights tile{.x = g.deltas + o + line,
                               .x_pixel = g.out,
                               .d = g.inputs + i,
                               .d_pixel = g.in,
                               .rows = 1,
                               .width = g.samples,
                               .gradient = step.to + part + line * g.in,
                               .line = g.in,
                               .keep = step.keep,
                               .scale = step.scale};
      kWeightTiles<N>[static_cast<std::size_t>(number - 1)](tile);
    });
  }
}

void descend(const WeightGradient& g, const WeightStep& step, float* dx) {
  constexpr int64_t kOutputs = 60;  // of a part: with 64 inputs it stays in the first cache
  constexpr int N = 4;
  const int64_t wide = g.in / (N * kLanes) * (N * kLanes);
  for (int64_t o = 0; o < g.out; o += kOutputs) {
    const int64_t outputs = std::min(kOutputs, g.out - o);
    descend_part<N>(g, step, dx, o, outputs, 0, wide);
    descend_part<1>(g, step, dx, o, outputs, wide, g.in);
  }
}

}  // namespace

}  // namespace avx512

bool can_stream() {
  static const bool can = fastest_family() == Family::kAvx512;
  return can;
}

void add_streamed_product(int64_t rows, int64_t out, int64_t in, const float* x, const float* w,
                          float* y) {
  avx512::add_product(rows, out, in, x, w, y);
}

void descend_streamed(const WeightGradient& g, const WeightStep& step, float* dx) {
  avx512::descend(g, step, dx);
}

#else

bool can_stream() { return false; }
void add_streamed_product(int64_t, int64_t, int64_t, const float*, const float*, float*) {}
void descend_streamed(const WeightGradient&, const WeightStep&, float*) {}

#endif

}  // namespace hanse

#include "dense_kernels.hpp"

#include <algorithm>
#include <cstddef>

#include "vector_families.hpp"

namespace hanse {

#if defined(__x86_64__)

namespace avx512 {

namespace {

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

void take_back(const WeightGradient& g, const float* w, const WeightTile& tile, float* dx) {
  const Parts rows(g.samples, kMost<4>);
  in_groups(tile.inputs, [&]<int N>(int64_t first) {
    const int64_t i = tile.i + first;
    const float* part = w + tile.o * g.in + i;
    rows.visit([&](int64_t r, int64_t number) {
      const TileOfSums sums{.x = g.deltas + r * g.out + tile.o,
                            .x_pixel = g.out,
                            .rows = 1,
                            .length = tile.outputs,
                            .w = part,
                            .line = g.in,
                            .y = dx + r * g.in + i,
                            .y_pixel = g.in,
                            .last = kLanes,
                            .add = tile.o > 0,
                            .fetch = part + N * kLanes,
                            .fetch_line = g.in};
      kSumTiles<N, true>[static_cast<std::size_t>(number - 1)](sums);
    });
  });
}

void multiply_tile(const WeightGradient& g, const WeightTile& tile, float scale, float keep,
                   float* c, int64_t c_line) {
  const Parts outputs(tile.outputs, kMost<4>);
  in_groups(tile.inputs, [&]<int N>(int64_t i) {
    outputs.visit([&](int64_t first, int64_t number) {
      const TileOfWeights sums{.x = g.deltas + tile.o + first,
                               .x_pixel = g.out,
                               .d = g.inputs + tile.i + i,
                               .d_pixel = g.in,
                               .rows = 1,
                               .width = g.samples,
                               .gradient = c + first * c_line + i,
                               .line = c_line,
                               .keep = keep,
                               .scale = scale};
      kWeightTiles<N>[static_cast<std::size_t>(number - 1)](sums);
    });
  });
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

void take_back_streamed(const WeightGradient& g, const float* w, const WeightTile& tile,
                        float* dx) {
  avx512::take_back(g, w, tile, dx);
}

void multiply_streamed_tile(const WeightGradient& g, const WeightTile& tile, float scale,
                            float keep, float* c, int64_t c_line) {
  avx512::multiply_tile(g, tile, scale, keep, c, c_line);
}

#else

bool can_stream() { return false; }
void add_streamed_product(int64_t, int64_t, int64_t, const float*, const float*, float*) {}
void take_back_streamed(const WeightGradient&, const float*, const WeightTile&, float*) {}
void multiply_streamed_tile(const WeightGradient&, const WeightTile&, float, float, float*,
                            int64_t) {}

#endif

}  // namespace hanse

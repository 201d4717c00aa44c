// The adapters of a model of which a part is trained (part_model.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/trained_part.hpp"

namespace hanse {

struct AdapterFactors;
class AdapterDropout;
class TensorReader;
struct PartAdapter;

// An adapter of a model.
struct NamedAdapter {
  ParameterSlot matrix;     // W_0
  std::vector<float> a, b;  // [rank, in], [out, rank]
};

// A trained row, and what it counts in a merge.
struct WeighedRow {
  double coefficient;  // c
  const float* row;    // [P]
};

// An adapter (LoRA, Hu et al. 2022) stands for the weight
//   W = W_0 + s B A,  W_0 [out, in] frozen,
//   A "NAME.lora_A" [rank, in],  B "NAME.lora_B" [out, rank],
// with B = 0 at the start, and A uniform in +-1/sqrt(in). A factor may be frozen (FFA-LoRA, Sun et
// al. 2024), at random: where A alone moves it starts from 0, and B is uniform in +-1/sqrt(out).
// Factors that move lie in the trained row; W_0 and factors that do not in the host's memory.
class Adapters {
 public:
  explicit Adapters(const TrainedPart& part);
  ~Adapters();

  int64_t count() const;
  int64_t rank() const { return rank_; }
  float scale() const { return scale_; }  // s
  bool moves_base() const { return moves_base_; }

  // Adds one for a matrix. Factors that move are appended to the trained row's layout, others lie
  // behind `frozen` values and those of earlier ones. REQUIRES: one of them moves.
  void add(const ParameterSlot& matrix, bool a_moves, bool b_moves, int64_t frozen,
           ParameterLayout& trained);
  // Appends all factors to a layout that has the whole model's tensors.
  void append_to(ParameterLayout& all);
  // Values of the factors that do not move.
  int64_t frozen_values() const { return frozen_values_; }

  // Takes what a file has of the factors, at places of append_to(): returns those of the trained
  // row. Throws InvalidArgument: a factor that does not move would be 0 for ever.
  std::vector<Model::StartPart> take_start(const std::vector<Model::StartPart>& parts);
  // Writes the frozen factors into the host's values: given ones, others from a stream.
  void fill(RandomStream stream, std::span<float> values);
  // From now on W_0 and the frozen factors are read there; `seed` is that of refresh().
  void hold(std::shared_ptr<float> frozen, uint64_t seed);
  // A tensor at a place of the whole row lies in bfloat16 instead. Does expand() write it there?
  // REQUIRES: split() was called.
  bool hold_narrow(int64_t weight, const uint16_t* values);
  // From now on a network that reads single tensors computes with W_0, A and B; expand() forms no
  // W then. Which: as `path` says. Throws InvalidArgument: not all can be split that must be.
  void split(TensorReader* reader, AdapterPath path);
  int64_t split_count() const;
  // Values of W that expand() forms, on each rank.
  int64_t formed_values() const;

  // Writes the factors that move as they start: those at random from the stream, the others 0.
  void draw(RandomStream stream, std::span<float> row) const;
  // The same for a round, from 1 on; those of round 1 are the start's.
  void refresh(int64_t round, std::span<float> row) const;

  // Writes each W into the whole row; with `noise` some inputs are dropped. used() are the factors
  // that it has read, until the next call.
  void expand(std::span<const float> row, RandomStream* noise, float* whole);
  const std::vector<AdapterFactors>& used() const { return used_; }
  const std::vector<AdapterDropout>& dropouts() const { return dropouts_; }
  const std::vector<PartAdapter>& places() const { return places_; }

  // Those of a row. `layout`: the whole model's.
  std::vector<NamedAdapter> of_row(std::span<const float> row, const ParameterLayout& layout) const;
  // Writes each W, or the factors, into a row of all tensors, which has W_0 already.
  void write(std::span<const float> row, bool merged, std::span<float> all) const;

  // |sum_i w_i B_i A_i - (sum_i w_i B_i)(sum_i w_i A_i)| / |sum_i w_i B_i A_i|, w_i = c_i / sum c,
  // in the Frobenius norm of all adapters together; NaN where the sum is 0. From inner products of
  // r x r matrices in float64. Cost of a matrix and n rows: n^2 r^2 (in + out) multiply-adds.
  double product_gap(std::span<const WeighedRow> rows) const;
  // FLoRA's merge (Wang et al. 2024): W_0 <- float32(W_0 + s sum_i c_i B_i A_i), the sum in float64
  // in this order, in blocks of rows over the ranks of the host: the same bits on any ranks.
  // Collective over the host. REQUIRES: the same rows on all ranks. Cost: n r multiply-adds a value
  // of W_0, over the ranks.
  void merge(Communicator& host, std::span<const WeighedRow> rows);
  // All W_0, one behind the other; the second writes them, from the host's first rank. Collective
  // over the host.
  std::vector<float> base() const;
  void set_base(Communicator& host, std::span<const float> values);

 private:
  // Calls write(adapter, values) with the random factor of each adapter, in their order.
  template <class Write>
  void draw_factors(RandomStream stream, const Write& write) const;

  int64_t rank_;
  float scale_;
  double dropout_;
  bool moves_base_;
  std::vector<PartAdapter> places_;
  int64_t frozen_values_ = 0;
  std::vector<Model::StartPart> given_;  // of frozen factors
  std::shared_ptr<float> frozen_;        // of the host
  uint64_t seed_ = 0;
  std::vector<AdapterFactors> used_;
  std::vector<AdapterDropout> dropouts_;
};

}  // namespace hanse

// Models in which clients train a part: some tensors, adapters beside frozen ones, or both.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/model/adapters.hpp"
#include "hanse/model/frozen_part.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/trained_part.hpp"

namespace hanse {

// Where a tensor of the other model comes from.
struct TensorSource {
  static constexpr int64_t kNone = -1;
  // A factor of an adapter: a slot of the trained row, or frozen.
  struct Factor {
    int64_t own = kNone;
    std::vector<int64_t> shape = {};
    const float* frozen = nullptr;
  };
  int64_t own = kNone;      // the slot of the trained row that holds it
  bool is_adapted = false;  // or W = W_0 + s B A
  Factor a = {}, b = {};
  float scale = 1;                   // s
  ParameterSlot slot;                // its own
  const float* frozen;               // what it is while nobody trains it; W_0
  const uint16_t* narrow = nullptr;  // the same in bfloat16, where `frozen` must not be read
};

// A parameter row with the names of its tensors.
struct NamedRow {
  ParameterLayout layout;
  std::vector<float> row;  // [layout.n_params()]
  float scale = 1;         // of the adapters in it
};

// What the ranks of a host have of a whole row. REQUIRES: hold().
struct PartMemory {
  int64_t shared_bytes;  // a host's
  int64_t own_bytes;     // a rank's besides: tensors that are trained, and W that it forms
  bool is_narrow;        // frozen tensors lie in bfloat16
};

struct GradientTarget;
class PartStep;

// A model whose row is the trained part of another's, so that nothing else is sent, added, kept or
// saved. The row has the chosen tensors and the adapters in the order of the layers, and then the
// buffers. The weights of dense layers and of embeddings can have an adapter (adapters.hpp).
//
// The ranks of a host have one copy of the frozen tensors, in bfloat16 where `narrow` asks for it
// and the network reads single tensors (tensor_reader.hpp). Each also has its own weights W, but
// where they are split, and the pages on which a frozen tensor touches a trained one.
//
// Cost of a call beyond the other model's: a copy of the chosen tensors, and for adapters a pass
// over W_0 and W and 2 rank multiply-adds a value of W. Frozen tensors get no gradient; the
// gradients of adapters take rank (in + out) multiply-adds a sample for dense layers in closed
// form, else 2 rank a value of W. No record_gradient(); no hessian_vector() with adapters.
class PartModel final : public Model {
 public:
  // Does a model with these tensors need it?
  static bool is_needed(const TrainedPart& part, const ParameterLayout& layout);

  // Throws InvalidArgument: a pattern that matches nothing, an empty part, a rank above a side of a
  // matrix that was asked for by name, or of each; an adapter of which neither factor moves.
  PartModel(std::unique_ptr<Model> whole, const TrainedPart& part);
  ~PartModel() override;

  // All tensors of the other model and, behind them, the adapters', with marks on frozen ones.
  const ParameterLayout& all_tensors() const { return all_; }
  // start_from() by the places of all_tensors(); call it before hold().
  void start_whole_from(std::vector<StartPart> parts);
  // Draws the other model's row, from the stream of this seed that initializes models, once for all
  // ranks of the host. Call nothing before it. Collective. Throws AgreedError.
  void hold(Communicator& host, uint64_t seed);
  // The digest of the row that hold() has drawn.
  std::string start_digest() const;
  friend PartMemory memory_of(const PartModel& part);
  // What moves in the other model, in the row that hold() has drawn, but for the samples.
  // `buffers_move`: also by others than training.
  friend FreezeCase freeze_case_of(const PartModel& part, bool buffers_move);

  // The other model, for losses of the user's own.
  Model& network() const { return *whole_; }
  // Another of the same layout takes its place, and reads its row in one piece: returns the former
  // one.
  std::unique_ptr<Model> replace_network(std::unique_ptr<Model> other);
  Adapters& adapters() const { return *adapters_; }
  // Matrices without an adapter, because a side is below the rank.
  friend const std::vector<ParameterSlot>& small_matrices_of(const PartModel& part) {
    return part.small_;
  }

  // The other model's tensors, in the order of its layout. REQUIRES: hold().
  friend std::vector<TensorSource> sources_of(const PartModel& part);
  // All tensors, from a row of this model; merged: W in the place of W_0, A and B.
  NamedRow whole(std::span<const float> row, bool merged) const;

  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) override;
  void move_buffers(std::span<float> row) const override;
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) override;
  double step_by(std::span<float> row, const Batch& batch, RandomStream& noise,
                 RowStep& step) override;
  void receive(const Received& received) override;
  void represent(std::span<const float> row, const Batch& batch, std::span<float> to) override;
  void hessian_vector(std::span<const float> row, const Batch& batch, std::span<const float> v,
                      std::span<float> out) override;
  bool has_hessian() const override;
  std::string why_no_hessian() const override;
  int64_t pass_bytes() const override { return whole_->pass_bytes(); }
  EvaluationSums evaluate(std::span<const float> row, const Batch& batch,
                          SampleResults results = {}) override;
  int64_t evaluation_rows() const override { return whole_->evaluation_rows(); }
  int64_t vocabulary() const override { return whole_->vocabulary(); }
  std::vector<WholeNumbers> whole_numbers() const override { return whole_->whole_numbers(); }
  int64_t compared_rows() const override { return whole_->compared_rows(); }

 protected:
  void draw(std::span<float> row, RandomStream& stream) const override;

 private:
  // The whole row that belongs to a row; with `noise` for training.
  std::span<float> expand(std::span<const float> row, RandomStream* noise = nullptr);
  double train(std::span<const float> row, const Batch& batch, RandomStream& noise,
               const GradientTarget& target);

  std::unique_ptr<Model> whole_;
  ParameterLayout all_;
  std::vector<PartTensor> trained_, buffers_;
  std::vector<PartTensor> narrow_;  // frozen tensors that lie in bfloat16, and their places there
  std::unique_ptr<Adapters> adapters_;
  std::vector<ParameterSlot> small_;
  std::shared_ptr<float> start_;  // [P of whole_] frozen tensors, and how the others start; behind
                                  // them the frozen factors
  std::shared_ptr<float> row_;    // [P of whole_] this rank's, for its calls
  std::shared_ptr<uint16_t> narrow_values_;  // the tensors of narrow_
  AdapterPath path_;
  std::unique_ptr<PartStep> step_;
};

}  // namespace hanse

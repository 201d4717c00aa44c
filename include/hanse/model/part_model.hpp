// Models of which clients train a part: some tensors, adapters beside frozen ones, or both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// What is trained.
struct TrainedPart {
  std::vector<std::string> train;   // patterns of tensors; empty: all, or with adapters none
  int64_t rank = 0;                 // of adapters; 0: none
  std::vector<std::string> layers;  // patterns of the matrices that have one
};

// A parameter row with the names of its tensors.
struct NamedRow {
  ParameterLayout layout;
  std::vector<float> row;  // [layout.n_params()]
};

// A model whose row is the part of another's that is trained, so that nothing else is sent, added,
// kept or saved. The row has the chosen tensors and the adapters in the order of the layers, and
// then the buffers. An adapter (LoRA, Hu et al. 2022) stands for the weight
//   W = W_0 + B A,  W_0 [out, in] frozen,  A "NAME.lora_A" [rank, in],  B "NAME.lora_B" [out,
//   rank],
// with B = 0 at the start, and A uniform in +-1/sqrt(in). It can have every matrix: the weights of
// dense layers and of embeddings.
//
// The ranks of a host have one copy of the frozen tensors. Each has its own weights W beside it,
// and the pages on which a frozen tensor touches one that is trained.
//
// Cost of a call beyond the other model's: a copy of the chosen tensors, and for adapters a pass
// over W_0 and W and 2 rank multiply-adds a value of W. Of frozen tensors no gradient is computed;
// adapters of dense layers in closed form take rank (in + out) multiply-adds a sample for theirs,
// others 2 rank a value of W. No record_gradient(); no hessian_vector() with adapters.
class PartModel final : public Model {
 public:
  // Does a model of these tensors need it?
  static bool is_needed(const TrainedPart& part, const ParameterLayout& layout);

  // Throws InvalidArgument: a pattern that matches nothing, nothing that is trained, a rank above a
  // side of a matrix.
  PartModel(std::unique_ptr<Model> whole, const TrainedPart& part);
  ~PartModel() override;

  // All tensors of the other model and, behind them, the adapters', frozen ones marked.
  const ParameterLayout& all_tensors() const { return all_; }
  // As start_from(), by the places of all_tensors(); before hold().
  void start_whole_from(std::vector<StartPart> parts);
  // Draws the other model's row, from the stream of this seed that initializes models, once for all
  // ranks of the host. Nothing else may be called before. Collective. Throws AgreedError.
  void hold(Communicator& host, uint64_t seed);
  // Of the row that hold() has drawn.
  std::string start_digest() const;

  // The other model, for losses of the user's own.
  Model& network() { return *whole_; }
  int64_t rank() const { return rank_; }
  int64_t adapters() const;  // their number

  // All tensors, of a row of this model; merged: W in the place of W_0, A and B.
  NamedRow whole(std::span<const float> row, bool merged) const;

  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) override;
  void move_buffers(std::span<float> row) const override;
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) override;
  double step_by(std::span<float> row, const Batch& batch, RandomStream& noise,
                 RowStep& step) override;
  void receive(std::span<const float> row) override;
  void hessian_vector(std::span<const float> row, const Batch& batch, std::span<const float> v,
                      std::span<float> out) override;
  bool has_hessian() const override;
  EvaluationSums evaluate(std::span<const float> row, const Batch& batch,
                          SampleResults results = {}) override;
  int64_t evaluation_rows() const override { return whole_->evaluation_rows(); }
  int64_t vocabulary() const override { return whole_->vocabulary(); }

 protected:
  void draw(std::span<float> row, RandomStream& stream) const override;

 private:
  class Step;
  struct Adapter;
  // A tensor that both rows have.
  struct Tensor {
    int64_t whole, own, size;  // where it begins in them
  };

  void add_adapter(const ParameterSlot& matrix);
  // Writes the chosen tensors and the buffers of a row into a whole one.
  void put_tensors(std::span<const float> row, float* whole) const;
  // The whole row of a row.
  std::span<float> expand(std::span<const float> row);

  std::unique_ptr<Model> whole_;
  int64_t rank_;
  ParameterLayout all_;
  std::vector<Tensor> trained_, buffers_;
  std::vector<Adapter> adapters_;
  std::shared_ptr<const float> start_;  // [P of whole_] frozen tensors, and how the others start
  std::shared_ptr<float> row_;          // [P of whole_] of this rank, for its calls
  std::unique_ptr<Step> step_;
};

}  // namespace hanse

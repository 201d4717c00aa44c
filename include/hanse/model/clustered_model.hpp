// A model with several copies of some of its tensors, one for each cluster of clients, in one row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/model/model.hpp"

namespace hanse {

// Where the copies lie. `plain` is the row of one model, P = trained + buffers; the wide row is
//   [trained, with copy 0 | the tensors of copy 1 | ... | those of copy k - 1 | buffers],
// in which copies are called cluster1.fc1.weight and so on.
class CopyPlaces {
 public:
  // `patterns`: names of the tensors that have copies. Throws InvalidArgument, with the tensors'
  // names, when a pattern matches none that is trained. REQUIRES: copies >= 1; no frozen tensors.
  CopyPlaces(const ParameterLayout& plain, const std::vector<std::string>& patterns,
             int64_t copies);

  int64_t copies() const { return copies_; }
  int64_t plain_size() const { return trained_ + buffers_; }  // P
  int64_t trained() const { return trained_; }                // of P
  int64_t wide_size() const { return plain_size() + (copies_ - 1) * copy_size_; }
  int64_t copy_size() const { return copy_size_; }  // Q
  // The parts of the plain row that have copies, ascending; and those of all copies in the wide
  // row, one behind the other as in the plain row.
  const std::vector<RowPart>& parts() const { return parts_; }
  std::vector<RowPart> parts_of(int64_t copy) const;
  // What gradients train and all clusters share, in either row.
  const std::vector<RowPart>& shared() const { return shared_; }
  RowPart buffers() const { return {wide_size() - buffers_, wide_size()}; }  // in the wide row

  ParameterLayout wide_layout(const ParameterLayout& plain) const;

  // The plain row [P] with this copy, from the wide row; and back, which leaves the other copies.
  void take(std::span<const float> wide, int64_t copy, std::span<float> plain) const;
  void put(std::span<const float> plain, int64_t copy, std::span<float> wide) const;
  // Are all copies the same, to the last bit?
  bool all_equal(std::span<const float> wide) const;

 private:
  int64_t copies_, trained_, buffers_;
  int64_t copy_size_ = 0;
  std::vector<RowPart> parts_, shared_;
};

// A model of the wide row: evaluations, gradients and whoever knows nothing of clusters see copy 0.
// Cost of a call beyond the plain model's: a copy of the plain row; an evaluation without buffers
// reads copy 0 where it is. No hessian_vector(), record_gradient() or clipped_gradient() in closed
// form.
class ClusteredModel final : public Model {
 public:
  // Copy 0 starts from the stream of initialize(), copy a from that of (seed, kInitialize, 0, a).
  // Throws as CopyPlaces.
  ClusteredModel(std::unique_ptr<Model> plain, const std::vector<std::string>& patterns,
                 int64_t copies, uint64_t seed);

  const CopyPlaces& places() const { return places_; }
  // The model of one copy. Another of the same layout may take its place.
  std::unique_ptr<Model>& network() { return plain_; }
  Model& plain() { return *plain_; }
  const Model& plain() const { return *plain_; }

  double loss_and_gradient(std::span<const float> row, const Batch& batch, RandomStream& noise,
                           std::span<float> gradient) override;
  void move_buffers(std::span<float> row) const override;
  double sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                  double weight_decay) override;
  void receive(const Received& received) override;
  EvaluationSums evaluate(std::span<const float> row, const Batch& batch,
                          SampleResults results = {}) override;
  void forget_start() override;
  std::string why_no_hessian() const override { return "and copies of clusters have none"; }
  int64_t pass_bytes() const override { return plain_->pass_bytes(); }
  int64_t evaluation_rows() const override { return plain_->evaluation_rows(); }
  int64_t vocabulary() const override { return plain_->vocabulary(); }
  std::vector<WholeNumbers> whole_numbers() const override { return plain_->whole_numbers(); }
  int64_t compared_rows() const override { return plain_->compared_rows(); }

 protected:
  void draw(std::span<float> row, RandomStream& stream) const override;

 private:
  std::span<float> plain_row(std::span<const float> row);

  std::unique_ptr<Model> plain_;
  CopyPlaces places_;
  uint64_t seed_;
  std::vector<float> row_, gradient_;  // [P]
};

// "cluster3.": what stands before the names of copy 3.
std::string copy_prefix(int64_t copy);

}  // namespace hanse

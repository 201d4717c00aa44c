#include "hanse/model/clustered_model.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// The slots that gradients train and that have no copies.
std::vector<ParameterSlot> others_of(const ParameterLayout& plain,
                                     const std::vector<ParameterSlot>& copied) {
  std::vector<ParameterSlot> others = trainable_slots(plain);
  std::erase_if(others, [&](const ParameterSlot& slot) { return holds(copied, slot); });
  return others;
}

ParameterSlot named_copy(ParameterSlot slot, int64_t copy) {
  const std::string prefix = copy_prefix(copy);
  slot.name = prefix + slot.name;
  for (std::string& also : slot.also) also = prefix + also;
  std::map<std::string, MatrixUse> uses;
  for (const auto& [called, use] : slot.uses) uses[prefix + called] = use;
  slot.uses = std::move(uses);
  return slot;
}

bool lies_in(const ParameterSlot& slot, const std::vector<RowPart>& parts) {
  return std::ranges::any_of(parts, [&](const RowPart& part) {
    return part.begin <= slot.offset && slot.offset < part.end;
  });
}

auto from_place(auto row, int64_t place) { return row.begin() + place; }

}  // namespace

std::string copy_prefix(int64_t copy) { return fmt::format("cluster{}.", copy); }

CopyPlaces::CopyPlaces(const ParameterLayout& plain, const std::vector<std::string>& patterns,
                       int64_t copies)
    : copies_(copies),
      trained_(plain.n_trainable()),
      buffers_(plain.n_params() - plain.n_trainable()) {
  const auto copied = matching(trainable_slots(plain), patterns, "client.clustered");
  parts_ = joined_parts(copied);
  shared_ = joined_parts(others_of(plain, copied));
  copy_size_ = total_size(parts_);
}

std::vector<RowPart> CopyPlaces::parts_of(int64_t copy) const {
  if (copy == 0) return parts_;
  std::vector<RowPart> places;
  int64_t next = trained_ + (copy - 1) * copy_size_;
  for (const RowPart& part : parts_) {
    places.push_back({next, next + part.size()});
    next = places.back().end;
  }
  return places;
}

ParameterLayout CopyPlaces::wide_layout(const ParameterLayout& plain) const {
  ParameterLayout wide;
  const std::vector<ParameterSlot> trained = trainable_slots(plain);
  for (const ParameterSlot& slot : trained) wide.append(slot);
  for (int64_t copy = 1; copy < copies_; ++copy) {
    for (const ParameterSlot& slot : trained) {
      if (lies_in(slot, parts_)) wide.append(named_copy(slot, copy));
    }
  }
  for (const ParameterSlot& slot : plain.slots()) {
    if (!slot.trainable) wide.append(slot);
  }
  for (const CarriedTensor& tensor : plain.carried()) wide.carry(tensor);
  return wide;
}

void CopyPlaces::take(std::span<const float> wide, int64_t copy, std::span<float> plain) const {
  std::copy_n(wide.begin(), trained_, plain.begin());
  std::copy_n(from_place(wide, buffers().begin), buffers_, from_place(plain, trained_));
  const std::vector<RowPart> from = parts_of(copy);
  for (std::size_t i = 0; copy > 0 && i < from.size(); ++i) {
    std::copy_n(from_place(wide, from[i].begin), from[i].size(),
                from_place(plain, parts_[i].begin));
  }
}

void CopyPlaces::put(std::span<const float> plain, int64_t copy, std::span<float> wide) const {
  const auto move = [&](const RowPart& from, int64_t to) {
    std::copy_n(from_place(plain, from.begin), from.size(), from_place(wide, to));
  };
  for (const RowPart& part : shared_) move(part, part.begin);
  const std::vector<RowPart> to = parts_of(copy);
  for (std::size_t i = 0; i < to.size(); ++i) move(parts_[i], to[i].begin);
  move({trained_, plain_size()}, buffers().begin);
}

bool CopyPlaces::all_equal(std::span<const float> wide) const {
  for (int64_t copy = 1; copy < copies_; ++copy) {
    const std::vector<RowPart> own = parts_of(copy);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto first = from_place(wide, parts_[i].begin);
      if (!std::equal(first, first + parts_[i].size(), from_place(wide, own[i].begin)))
        return false;
    }
  }
  return true;
}

ClusteredModel::ClusteredModel(std::unique_ptr<Model> plain,
                               const std::vector<std::string>& patterns, int64_t copies,
                               uint64_t seed)
    : plain_(std::move(plain)),
      places_(plain_->layout(), patterns, copies),
      seed_(seed),
      row_(to_index(places_.plain_size())) {
  layout_ = places_.wide_layout(plain_->layout());
  gradient_flops_ = plain_->gradient_flops();
}

std::span<float> ClusteredModel::plain_row(std::span<const float> row) {
  places_.take(row, 0, row_);
  return row_;
}

double ClusteredModel::loss_and_gradient(std::span<const float> row, const Batch& batch,
                                         RandomStream& noise, std::span<float> gradient) {
  gradient_.resize(row_.size());
  const double loss = plain_->loss_and_gradient(plain_row(row), batch, noise, gradient_);
  std::ranges::fill(gradient, 0.0F);
  places_.put(gradient_, 0, gradient);
  return loss;
}

void ClusteredModel::move_buffers(std::span<float> row) const {
  std::vector<float> plain(row_.size());
  places_.take(row, 0, plain);
  plain_->move_buffers(plain);
  places_.put(plain, 0, row);
}

double ClusteredModel::sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise,
                                double lr, double weight_decay) {
  const double loss = plain_->sgd_step(plain_row(row), batch, noise, lr, weight_decay);
  places_.put(row_, 0, row);
  return loss;
}

void ClusteredModel::receive(const Received& received) {
  std::vector<float> last;
  if (!received.last.empty()) {
    const auto plain = plain_row(received.last);
    last.assign(plain.begin(), plain.end());
  }
  plain_->receive({plain_row(received.row), last, received.class_means});
}

EvaluationSums ClusteredModel::evaluate(std::span<const float> row, const Batch& batch,
                                        SampleResults results) {
  const bool lies_together = places_.buffers().size() == 0;
  const std::span<const float> own = lies_together ? row.first(row_.size()) : plain_row(row);
  return plain_->evaluate(own, batch, results);
}

void ClusteredModel::forget_start() {
  Model::forget_start();
  plain_->forget_start();
}

void ClusteredModel::draw(std::span<float> row, RandomStream& stream) const {
  std::vector<float> plain(row_.size());
  plain_->initialize(plain, stream);
  places_.put(plain, 0, row);
  for (int64_t copy = 1; copy < places_.copies(); ++copy) {
    RandomStream own(seed_, Purpose::kInitialize, 0, static_cast<uint64_t>(copy));
    plain_->initialize(plain, own);
    const std::vector<RowPart> to = places_.parts_of(copy);
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::copy_n(from_place(std::span(plain), places_.parts()[i].begin), to[i].size(),
                  from_place(row, to[i].begin));
    }
  }
}

}  // namespace hanse

#include "hanse/model/part_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "gradient_target.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/common_memory.hpp"
#include "layers/adapter.hpp"

namespace hanse {

struct PartModel::Adapter : AdapterPlace {
  int64_t named;  // where A and behind it B begin in all_tensors()

  int64_t factors() const { return rank * (in + out); }
};

// Turns the parts of the whole model's gradient into those of the trained row.
class PartModel::Step final : public RowStep {
 public:
  Step(const std::vector<Tensor>& trained, const std::vector<Adapter>& adapters)
      : adapters_(adapters), gradients_(adapters.size()) {
    for (const Tensor& tensor : trained) {
      pieces_.push_back({tensor.whole, tensor.whole + tensor.size, tensor.own, nullptr});
    }
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      const int64_t begin = adapters[i].weight;
      pieces_.push_back({begin, begin + adapters[i].size(), 0, &gradients_[i]});
    }
    std::ranges::sort(pieces_, {}, &Piece::begin);
  }

  // The row's factors are read until finish(), where they reach the target.
  void start(const float* row, const GradientTarget& target) {
    target_ = target;
    for (std::size_t i = 0; i < adapters_.size(); ++i) gradients_[i].start(adapters_[i], row);
  }
  void finish() {
    for (std::size_t i = 0; i < adapters_.size(); ++i) {
      const Adapter& place = adapters_[i];
      target_.add(place.a, gradients_[i].a(), place.rank * place.in);
      target_.add(place.b, gradients_[i].b(), place.out * place.rank);
    }
  }

  bool wants(int64_t offset) const override {
    const auto piece = from(offset);
    return piece != pieces_.end() && piece->begin <= offset && wants(*piece);
  }

  bool take(const WeightGradient& product) override {
    if (!wants(product.offset)) return true;
    const auto piece = from(product.offset);
    if (piece->adapter == nullptr) return false;
    piece->adapter->add(product);
    return true;
  }

  void apply(int64_t offset, const float* gradient, int64_t size) override {
    const int64_t end = offset + size;
    for (auto piece = from(offset); piece != pieces_.end() && piece->begin < end; ++piece) {
      const int64_t first = std::max(offset, piece->begin), last = std::min(end, piece->end);
      const float* values = gradient + (first - offset);
      if (piece->adapter != nullptr) {
        piece->adapter->add(first - piece->begin, values, last - first);
      } else {
        target_.add(piece->own + first - piece->begin, values, last - first);
      }
    }
  }

 private:
  // A tensor [begin, end) of the whole row that is trained, or that has an adapter.
  struct Piece {
    int64_t begin, end;
    int64_t own;               // where the tensor begins in the trained row
    AdapterGradient* adapter;  // null: it is trained itself
  };

  bool wants(const Piece& piece) const {
    if (piece.adapter == nullptr) return target_.wants(piece.own);
    const Adapter& place = adapters_[static_cast<std::size_t>(piece.adapter - gradients_.data())];
    return target_.wants(place.a) || target_.wants(place.b);
  }

  // The first piece that ends behind `offset`.
  std::vector<Piece>::const_iterator from(int64_t offset) const {
    return std::ranges::upper_bound(pieces_, offset, {}, &Piece::end);
  }

  const std::vector<Adapter>& adapters_;
  std::vector<AdapterGradient> gradients_;
  std::vector<Piece> pieces_;
  GradientTarget target_;
};

namespace {

constexpr const char* kRank = "client.lora";

using Slots = std::vector<ParameterSlot>;

Slots trainable(const ParameterLayout& layout) {
  Slots slots;
  std::ranges::copy_if(layout.slots(), std::back_inserter(slots), &ParameterSlot::trainable);
  return slots;
}

bool holds(const Slots& slots, const ParameterSlot& slot) {
  return std::ranges::count(slots, slot.offset, &ParameterSlot::offset) > 0;
}

// The tensors that are trained themselves.
Slots chosen_tensors(const TrainedPart& part, const ParameterLayout& layout) {
  const Slots slots = trainable(layout);
  if (part.train.empty()) return part.rank > 0 ? Slots() : slots;
  return matching(slots, part.train, "client.train");
}

// The matrices that would have an adapter, whatever the rank.
Slots asked_matrices(const TrainedPart& part, const ParameterLayout& layout, const Slots& trained) {
  if (part.rank == 0) return {};
  Slots matrices = trainable(layout);
  std::erase_if(matrices, [](const ParameterSlot& slot) { return slot.shape.size() != 2; });
  Slots chosen = matching(matrices, part.layers, "client.lora-layers");
  std::erase_if(chosen, [&](const ParameterSlot& slot) { return holds(trained, slot); });
  if (chosen.empty()) {
    throw InvalidArgument("all matrices that would have an adapter are trained themselves",
                          "client.train", "leave them out, or use client.lora = 0");
  }
  return chosen;
}

// Moves those that are smaller than the rank to `small`, where all matrices are asked for.
Slots without_small(Slots chosen, const TrainedPart& part, Slots& small) {
  const auto fits = [&](const ParameterSlot& slot) {
    return part.rank <= std::min(slot.shape[0], slot.shape[1]);
  };
  const auto behind = std::stable_partition(chosen.begin(), chosen.end(), fits);
  small.assign(behind, chosen.end());
  const bool may_leave_out = part.layers == std::vector<std::string>{"*"};
  if (small.empty() || (may_leave_out && small.size() < chosen.size())) {
    chosen.erase(behind, chosen.end());
    return chosen;
  }
  const ParameterSlot& first = small.front();
  throw InvalidArgument(fmt::format("a rank of {} is above a side of {} [{}, {}]", part.rank,
                                    first.name, first.shape[0], first.shape[1]),
                        kRank,
                        "use a smaller one, or choose other matrices by "
                        "client.lora-layers");
}

}  // namespace

bool PartModel::is_needed(const TrainedPart& part, const ParameterLayout& layout) {
  return !part.train.empty() || part.rank > 0 || layout.n_frozen() > 0;
}

PartModel::PartModel(std::unique_ptr<Model> whole, const TrainedPart& part)
    : whole_(std::move(whole)), rank_(part.rank) {
  const ParameterLayout& layout = whole_->layout();
  const Slots trained = chosen_tensors(part, layout);
  const Slots matrices = without_small(asked_matrices(part, layout, trained), part, small_);
  for (const ParameterSlot& slot : layout.slots()) {
    ParameterSlot named = slot;
    if (holds(trained, slot)) {
      trained_.push_back({slot.offset, layout_.append(slot), slot.size});
    } else if (holds(matrices, slot)) {
      add_adapter(slot);
      named.frozen = true;
    } else if (slot.trainable) {
      named.frozen = true;
    } else if (!slot.frozen) {
      buffers_.push_back({slot.offset, layout_.append(slot), slot.size});
    }
    if (named.frozen) named.trainable = false;
    all_.append(named);
  }
  for (Adapter& adapter : adapters_) {
    adapter.named = all_.n_params();
    for (const ParameterSlot& slot : layout_.slots()) {
      if (slot.offset == adapter.a || slot.offset == adapter.b) all_.append(slot);
    }
  }
  for (const CarriedTensor& tensor : layout.carried()) {
    layout_.carry(tensor);
    all_.carry(tensor);
  }
  step_ = std::make_unique<Step>(trained_, adapters_);
}

PartModel::~PartModel() = default;

void PartModel::add_adapter(const ParameterSlot& matrix) {
  const int64_t out = matrix.shape[0], in = matrix.shape[1];
  const int64_t a = layout_.add(matrix.name + ".lora_A", {rank_, in}, in);
  const int64_t b = layout_.append({.name = matrix.name + ".lora_B", .shape = {out, rank_}});
  adapters_.push_back({{matrix.offset, out, in, rank_, a, b}, 0});
}

int64_t PartModel::adapters() const { return std::ssize(adapters_); }

bool PartModel::has_hessian() const { return adapters_.empty() && whole_->has_hessian(); }

std::string PartModel::why_no_hessian() const {
  if (!whole_->has_hessian()) return whole_->why_no_hessian();
  return "and adapters have first derivatives alone";
}

void PartModel::start_whole_from(std::vector<StartPart> parts) {
  std::vector<StartPart> own;
  for (StartPart& part : parts) {
    for (const Adapter& adapter : adapters_) {
      const int64_t at = part.offset - adapter.named;
      if (at >= 0 && at < adapter.factors()) own.push_back({adapter.a + at, part.values});
    }
  }
  std::erase_if(parts, [&](const StartPart& part) { return part.offset >= whole_->n_params(); });
  whole_->start_from(std::move(parts));
  start_from(std::move(own));
}

void PartModel::hold(Communicator& host, uint64_t seed) {
  const auto size = static_cast<std::size_t>(whole_->n_params());
  const auto bytes = static_cast<int64_t>(size * sizeof(float));
  agree_on(host, [&] {
    if (host.rank() == 0) require_memory(bytes, "the model takes", "client.train", "");
  });
  const CommonMemory memory = share_to_change(host, bytes, [&](std::byte* to) {
    RandomStream stream(seed, Purpose::kInitialize);
    whole_->initialize({reinterpret_cast<float*>(to), size}, stream);
  });
  whole_->forget_start();
  start_ = {memory.common, reinterpret_cast<const float*>(memory.common.get())};
  row_ = {memory.own, reinterpret_cast<float*>(memory.own.get())};
}

std::string PartModel::start_digest() const {
  return digest_hex(
      std::as_bytes(std::span(start_.get(), static_cast<std::size_t>(whole_->n_params()))));
}

// The adapters have a stream of their own: in the model's A would have the model's first values.
void PartModel::draw(std::span<float> row, RandomStream& stream) const {
  for (const auto* tensors : {&trained_, &buffers_}) {
    for (const Tensor& tensor : *tensors) {
      std::copy_n(start_.get() + tensor.whole, tensor.size, row.begin() + tensor.own);
    }
  }
  RandomStream own(stream.next(), Purpose::kAdapters);
  for (const Adapter& adapter : adapters_) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(adapter.in));
    for (int64_t i = adapter.a; i < adapter.b; ++i) {
      row[static_cast<std::size_t>(i)] = static_cast<float>((2.0 * own.uniform() - 1.0) * bound);
    }
    std::fill_n(row.begin() + adapter.b, adapter.out * adapter.rank, 0.0F);
  }
}

void PartModel::put_tensors(std::span<const float> row, float* whole) const {
  for (const auto* tensors : {&trained_, &buffers_}) {
    for (const Tensor& tensor : *tensors) {
      std::copy_n(row.begin() + tensor.own, tensor.size, whole + tensor.whole);
    }
  }
}

std::span<float> PartModel::expand(std::span<const float> row) {
  put_tensors(row, row_.get());
  for (const Adapter& adapter : adapters_) {
    adapter.expand(start_.get() + adapter.weight, row.data(), row_.get() + adapter.weight);
  }
  return {row_.get(), static_cast<std::size_t>(whole_->n_params())};
}

std::vector<TensorSource> sources_of(const PartModel& part) {
  const auto slot_at = [&](int64_t offset) {
    return std::ranges::find(part.layout().slots(), offset, &ParameterSlot::offset) -
           part.layout().slots().begin();
  };
  std::vector<TensorSource> sources;
  for (const ParameterSlot& slot : part.whole_->layout().slots()) {
    sources.push_back({.slot = slot, .frozen = part.start_.get() + slot.offset});
    for (const auto* tensors : {&part.trained_, &part.buffers_}) {
      const auto found = std::ranges::find(*tensors, slot.offset, &PartModel::Tensor::whole);
      if (found != tensors->end()) sources.back().own = slot_at(found->own);
    }
    const auto adapter =
        std::ranges::find(part.adapters_, slot.offset, &PartModel::Adapter::weight);
    if (adapter != part.adapters_.end()) sources.back().factors = slot_at(adapter->a);
  }
  return sources;
}

NamedRow PartModel::whole(std::span<const float> row, bool merged) const {
  NamedRow all;
  for (ParameterSlot slot : all_.slots()) {
    if (merged && slot.offset >= whole_->n_params()) continue;
    for (const Adapter& adapter : adapters_) {
      if (merged && slot.offset == adapter.weight) slot.frozen = false;
    }
    all.layout.append(slot);
  }
  for (const CarriedTensor& tensor : all_.carried()) all.layout.carry(tensor);
  all.row.assign(start_.get(), start_.get() + whole_->n_params());
  all.row.resize(static_cast<std::size_t>(all.layout.n_params()));
  put_tensors(row, all.row.data());
  for (const Adapter& adapter : adapters_) {
    const int64_t weight = adapter.weight;
    if (merged) adapter.expand(start_.get() + weight, row.data(), all.row.data() + weight);
    if (merged) continue;
    std::copy_n(row.begin() + adapter.a, adapter.factors(), all.row.begin() + adapter.named);
  }
  return all;
}

double PartModel::loss_and_gradient(std::span<const float> row, const Batch& batch,
                                    RandomStream& noise, std::span<float> gradient) {
  const auto whole = expand(row);
  step_->start(row.data(), {{.row = gradient.data()}});
  const double loss = whole_->step_by(whole, batch, noise, *step_);
  step_->finish();
  std::fill(gradient.begin() + layout_.n_trainable(), gradient.end(), 0.0F);
  return loss;
}

void PartModel::move_buffers(std::span<float> row) const {
  for (const Tensor& buffer : buffers_) {
    std::copy_n(row_.get() + buffer.whole, buffer.size, row.begin() + buffer.own);
  }
}

double PartModel::sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                           double weight_decay) {
  const auto whole = expand(row);
  const RowUpdate update{.row = row.data(),
                         .keep = static_cast<float>(1.0 - lr * weight_decay),
                         .scale = static_cast<float>(-lr)};
  step_->start(row.data(), {update});
  const double loss = whole_->step_by(whole, batch, noise, *step_);
  step_->finish();
  move_buffers(row);
  return loss;
}

double PartModel::step_by(std::span<float> row, const Batch& batch, RandomStream& noise,
                          RowStep& step) {
  const auto whole = expand(row);
  step_->start(row.data(), {.step = &step});
  const double loss = whole_->step_by(whole, batch, noise, *step_);
  step_->finish();
  move_buffers(row);
  return loss;
}

void PartModel::receive(std::span<const float> row) { whole_->receive(expand(row)); }

// Multiplies with the Hessian's rows and columns of the trained tensors.
void PartModel::hessian_vector(std::span<const float> row, const Batch& batch,
                               std::span<const float> v, std::span<float> out) {
  const auto whole = expand(row);
  std::vector<float> direction(whole.size()), product(whole.size());
  for (const Tensor& tensor : trained_) {
    std::copy_n(v.begin() + tensor.own, tensor.size, direction.begin() + tensor.whole);
  }
  whole_->hessian_vector(whole, batch, direction, product);
  std::ranges::fill(out, 0.0F);
  for (const Tensor& tensor : trained_) {
    std::copy_n(product.begin() + tensor.whole, tensor.size, out.begin() + tensor.own);
  }
}

EvaluationSums PartModel::evaluate(std::span<const float> row, const Batch& batch,
                                   SampleResults results) {
  return whole_->evaluate(expand(row), batch, results);
}

}  // namespace hanse

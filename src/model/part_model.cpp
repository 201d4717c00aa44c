#include "hanse/model/part_model.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/short_floats.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/model/tensor_reader.hpp"
#include "part_choice.hpp"
#include "part_step.hpp"
#include "shared_row.hpp"

namespace hanse {

namespace {

// Writes a row's tensors into a whole row.
void put_tensors(std::initializer_list<const std::vector<PartTensor>*> lists,
                 std::span<const float> row, float* whole) {
  for (const auto* tensors : lists) {
    for (const PartTensor& tensor : *tensors) {
      std::copy_n(row.begin() + tensor.own, tensor.size, whole + tensor.whole);
    }
  }
}

}  // namespace

bool PartModel::is_needed(const TrainedPart& part, const ParameterLayout& layout) {
  return !part.train.empty() || part.rank > 0 || layout.n_frozen() > 0;
}

PartModel::PartModel(std::unique_ptr<Model> whole, const TrainedPart& part)
    : whole_(std::move(whole)), adapters_(std::make_unique<Adapters>(part)), path_(part.path) {
  representation_width_ = whole_->representation_width();
  const ParameterLayout& layout = whole_->layout();
  const PartChoice choice = choose_part(part, layout);
  small_ = choice.small;
  const auto find_matrix = [&](const ParameterSlot& slot) {
    return std::ranges::find(choice.matrices, slot.offset,
                             [](const AdaptedMatrix& matrix) { return matrix.slot.offset; });
  };
  for (const ParameterSlot& slot : layout.slots()) {
    ParameterSlot named = slot;
    if (holds(choice.trained, slot)) {
      trained_.push_back({slot.offset, layout_.append(slot), slot.size});
    } else if (const auto adapted = find_matrix(slot); adapted != choice.matrices.end()) {
      adapters_->add(slot, adapted->a_moves, adapted->b_moves, whole_->n_params(), layout_);
      named.frozen = true;
    } else if (slot.trainable) {
      named.frozen = true;
    } else if (!slot.frozen) {
      buffers_.push_back({slot.offset, layout_.append(slot), slot.size});
    }
    if (named.frozen) named.trainable = false;
    if (named.frozen && part.narrow) {
      const int64_t at = narrow_.empty() ? 0 : narrow_.back().own + narrow_.back().size;
      narrow_.push_back({slot.offset, at, slot.size});
    }
    all_.append(named);
  }
  adapters_->append_to(all_);
  for (const CarriedTensor& tensor : layout.carried()) {
    layout_.carry(tensor);
    all_.carry(tensor);
  }
  step_ = std::make_unique<PartStep>(trained_, adapters_->places());
}

PartModel::~PartModel() = default;

bool PartModel::has_hessian() const { return adapters_->count() == 0 && whole_->has_hessian(); }

std::string PartModel::why_no_hessian() const {
  if (!whole_->has_hessian()) return whole_->why_no_hessian();
  return "and adapters have first derivatives alone";
}

void PartModel::start_whole_from(std::vector<StartPart> parts) {
  std::vector<StartPart> own = adapters_->take_start(parts);
  if (adapters_->moves_base() && !own.empty()) {
    throw InvalidArgument("rounds start from fresh adapters, and the file has some", "model.start",
                          "merge them first, or use another client.lora-kind than flora");
  }
  std::erase_if(parts, [&](const StartPart& part) { return part.offset >= whole_->n_params(); });
  whole_->start_from(std::move(parts));
  start_from(std::move(own));
}

// The adapters have a stream of their own: in the model's A would have the model's first values.
void PartModel::hold(Communicator& host, uint64_t seed) {
  TensorReader* const reader = dynamic_cast<TensorReader*>(whole_.get());
  const int64_t size = whole_->n_params() + adapters_->frozen_values();
  const std::vector<PartTensor> rounded = narrow_;
  if (reader == nullptr) narrow_ = {};
  const int64_t bytes = shared_row_bytes(size, narrow_);
  agree_on(host, [&] {
    if (host.rank() == 0) require_memory(bytes, "the model takes", "client.train", "");
  });
  const uint64_t own_seed = RandomStream(seed, Purpose::kInitialize).next();
  const SharedRow shared = share_row(host, size, narrow_, [&](std::span<float> values) {
    RandomStream stream(seed, Purpose::kInitialize);
    whole_->initialize(values.first(to_index(whole_->n_params())), stream);
    adapters_->fill({own_seed, Purpose::kAdapters}, values);
    round_to_bfloat16(rounded, values);
  });
  whole_->forget_start();
  start_ = shared.start;
  row_ = shared.own;
  narrow_values_ = shared.narrow;
  adapters_->hold(start_, own_seed);
  adapters_->split(reader, path_);
  for (const PartTensor& tensor : narrow_) {
    const uint16_t* const values = narrow_values_.get() + tensor.own;
    if (!adapters_->hold_narrow(tensor.whole, values)) reader->read_narrow(tensor.whole, values);
  }
}

PartMemory memory_of(const PartModel& part) {
  int64_t own = part.adapters_->formed_values();
  for (const auto* tensors : {&part.trained_, &part.buffers_}) {
    for (const PartTensor& tensor : *tensors) own += tensor.size;
  }
  const int64_t all = part.whole_->n_params() + part.adapters_->frozen_values();
  return {.shared_bytes = shared_row_bytes(all, part.narrow_),
          .own_bytes = own * static_cast<int64_t>(sizeof(float)),
          .is_narrow = !part.narrow_.empty()};
}

FreezeCase freeze_case_of(const PartModel& part, bool buffers_move) {
  FreezeCase c{.moves = {}, .row = part.start_.get(), .samples = {}};
  const auto has = [](const auto& places, int64_t offset, auto member) {
    return std::ranges::find(places, offset, member) != places.end();
  };
  for (const ParameterSlot& slot : part.whole_->layout().slots()) {
    const bool moves = has(part.trained_, slot.offset, &PartTensor::whole) ||
                       has(part.adapters_->places(), slot.offset, &PartAdapter::weight) ||
                       (buffers_move && has(part.buffers_, slot.offset, &PartTensor::whole));
    c.moves.push_back(moves ? 1 : 0);
  }
  return c;
}

std::string PartModel::start_digest() const {
  return shared_row_digest(start_.get(), whole_->n_params() + adapters_->frozen_values(), narrow_);
}

std::unique_ptr<Model> PartModel::replace_network(std::unique_ptr<Model> other) {
  std::swap(whole_, other);
  adapters_->split(nullptr, AdapterPath::kMerged);
  if (narrow_.empty()) return other;
  read_shared_row(start_.get(), narrow_values_.get(), narrow_,
                  {row_.get(), to_index(whole_->n_params())});
  return other;
}

void PartModel::draw(std::span<float> row, RandomStream& stream) const {
  for (const auto* tensors : {&trained_, &buffers_}) {
    for (const PartTensor& tensor : *tensors) {
      std::copy_n(start_.get() + tensor.whole, tensor.size, row.begin() + tensor.own);
    }
  }
  adapters_->draw({stream.next(), Purpose::kAdapters}, row);
}

std::span<float> PartModel::expand(std::span<const float> row, RandomStream* noise) {
  put_tensors({&trained_, &buffers_}, row, row_.get());
  adapters_->expand(row, noise, row_.get());
  return {row_.get(), to_index(whole_->n_params())};
}

std::vector<TensorSource> sources_of(const PartModel& part) {
  const auto slot_at = [&](int64_t offset) {
    return std::ranges::find(part.layout().slots(), offset, &ParameterSlot::offset) -
           part.layout().slots().begin();
  };
  const auto factor = [&](const FactorPlace& place, int64_t rows, int64_t columns) {
    TensorSource::Factor found{.shape = {rows, columns}};
    if (place.moves) found.own = slot_at(place.at);
    if (!place.moves) found.frozen = part.start_.get() + place.at;
    return found;
  };
  std::vector<TensorSource> sources;
  for (const ParameterSlot& slot : part.whole_->layout().slots()) {
    sources.push_back({.slot = slot, .frozen = part.start_.get() + slot.offset});
    const auto narrow = std::ranges::find(part.narrow_, slot.offset, &PartTensor::whole);
    if (narrow != part.narrow_.end()) {
      sources.back().narrow = part.narrow_values_.get() + narrow->own;
    }
    for (const auto* tensors : {&part.trained_, &part.buffers_}) {
      const auto found = std::ranges::find(*tensors, slot.offset, &PartTensor::whole);
      if (found != tensors->end()) sources.back().own = slot_at(found->own);
    }
    const auto adapter =
        std::ranges::find(part.adapters_->places(), slot.offset, &PartAdapter::weight);
    if (adapter == part.adapters_->places().end()) continue;
    sources.back().is_adapted = true;
    sources.back().a = factor(adapter->a, adapter->rank, adapter->in);
    sources.back().b = factor(adapter->b, adapter->out, adapter->rank);
    sources.back().scale = adapter->scale;
  }
  return sources;
}

NamedRow PartModel::whole(std::span<const float> row, bool merged) const {
  NamedRow all{.layout = {}, .row = {}, .scale = adapters_->scale()};
  for (ParameterSlot slot : all_.slots()) {
    if (merged && slot.offset >= whole_->n_params()) continue;
    for (const PartAdapter& adapter : adapters_->places()) {
      if (merged && slot.offset == adapter.weight) slot.frozen = false;
    }
    all.layout.append(slot);
  }
  for (const CarriedTensor& tensor : all_.carried()) all.layout.carry(tensor);
  all.row.resize(to_index(all.layout.n_params()));
  read_shared_row(start_.get(), narrow_values_.get(), narrow_,
                  std::span(all.row).first(to_index(whole_->n_params())));
  put_tensors({&trained_, &buffers_}, row, all.row.data());
  adapters_->write(row, merged, all.row);
  return all;
}

double PartModel::train(std::span<const float> row, const Batch& batch, RandomStream& noise,
                        const GradientTarget& target) {
  const auto whole = expand(row, &noise);
  step_->start(adapters_->used(), target);
  const double loss = whole_->step_by(whole, batch, noise, *step_);
  step_->finish(adapters_->dropouts());
  return loss;
}

double PartModel::loss_and_gradient(std::span<const float> row, const Batch& batch,
                                    RandomStream& noise, std::span<float> gradient) {
  const double loss = train(row, batch, noise, {{.row = gradient.data()}});
  std::fill(gradient.begin() + layout_.n_trainable(), gradient.end(), 0.0F);
  return loss;
}

void PartModel::move_buffers(std::span<float> row) const {
  for (const PartTensor& buffer : buffers_) {
    std::copy_n(row_.get() + buffer.whole, buffer.size, row.begin() + buffer.own);
  }
}

double PartModel::sgd_step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                           double weight_decay) {
  const RowUpdate update{.row = row.data(),
                         .keep = static_cast<float>(1.0 - lr * weight_decay),
                         .scale = static_cast<float>(-lr)};
  const double loss = train(row, batch, noise, {update});
  move_buffers(row);
  return loss;
}

double PartModel::step_by(std::span<float> row, const Batch& batch, RandomStream& noise,
                          RowStep& step) {
  const double loss = train(row, batch, noise, {.step = &step});
  move_buffers(row);
  return loss;
}

void PartModel::receive(const Received& received) {
  std::vector<float> last;
  if (!received.last.empty()) {
    const auto whole = expand(received.last);
    last.assign(whole.begin(), whole.end());
  }
  whole_->receive({expand(received.row), last, received.class_means});
}

void PartModel::represent(std::span<const float> row, const Batch& batch, std::span<float> to) {
  whole_->represent(expand(row), batch, to);
}

// Multiplies with the Hessian's rows and columns of the trained tensors.
void PartModel::hessian_vector(std::span<const float> row, const Batch& batch,
                               std::span<const float> v, std::span<float> out) {
  const auto whole = expand(row);
  std::vector<float> direction(whole.size()), product(whole.size());
  for (const PartTensor& tensor : trained_) {
    std::copy_n(v.begin() + tensor.own, tensor.size, direction.begin() + tensor.whole);
  }
  whole_->hessian_vector(whole, batch, direction, product);
  std::ranges::fill(out, 0.0F);
  for (const PartTensor& tensor : trained_) {
    std::copy_n(product.begin() + tensor.whole, tensor.size, out.begin() + tensor.own);
  }
}

EvaluationSums PartModel::evaluate(std::span<const float> row, const Batch& batch,
                                   SampleResults results) {
  return whole_->evaluate(expand(row), batch, results);
}

}  // namespace hanse

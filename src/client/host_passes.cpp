#include "host_passes.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// Is the row where the steps start needed behind them?
bool keeps_start(const Pass& pass) { return pass.keeps_start || (pass.mu && !pass.to_received); }

// Is the received row needed behind the steps, where no start is the same row?
bool keeps_received(const std::vector<Pass>& passes) {
  const Pass& first = passes.front();
  return passes.size() > 1 || first.moves_start || (first.looks_back && !keeps_start(first));
}

}  // namespace

HostPasses::HostPasses(const ClientOptions& options, const Federation& federation, Model& model,
                       std::unique_ptr<StoredGradient> own)
    : options_(options),
      propfair_(options.propfair),
      schedule_(options),
      movement_(movement_of(options, model.layout())),
      model_(model),
      batches_(options, federation),
      optimizer_(options, model.layout().n_trainable()),
      has_own_(own != nullptr),
      found_(own ? std::move(own) : make_stored_gradient(options, federation, model)),
      stores_gradient_(has_own_ || options.clip > 0 || options.propfair.base > 0 ||
                       options.accumulate > 1 || options.private_steps),
      state_width_(to_index(width_of(optimizer_.state_blocks()))) {
  const std::size_t n = to_index(model.n_params());
  if (stores_gradient_) gradient_.resize(n);
  if (options.accumulate > 1) sum_.resize(n);
}

void HostPasses::make_room(const std::vector<Pass>& passes) {
  const std::size_t n = to_index(model_.n_params());
  if (keeps_received(passes)) received_.resize(n);
  for (const Pass& pass : passes) {
    if (pass.pulls) pull_.resize(to_index(model_.layout().n_trainable()));
    if (keeps_start(pass)) start_.resize(n);
  }
}

ClientOutcome HostPasses::run(PassUpdate& update, const ClientTask& task) {
  const std::vector<Pass>& passes = update.passes();
  if (keeps_received(passes)) received_.assign(task.row.begin(), task.row.end());
  double lost = 0;  // a loss that is no number
  for (std::size_t pass = 0; pass + 1 < passes.size(); ++pass) {
    const double loss = make_pass(update, pass, task).loss;
    if (!std::isfinite(loss)) lost = loss;
    std::copy(received_.begin(), received_.end(), task.row.begin());
  }
  ClientOutcome outcome = make_pass(update, passes.size() - 1, task);
  if (lost != 0) outcome.loss = lost;  // ends the run, as the row's would
  return outcome;
}

ClientOutcome HostPasses::make_pass(PassUpdate& update, std::size_t number,
                                    const ClientTask& task) {
  const Pass& pass = update.passes()[number];
  update.before(number, task, pass.pulls ? std::span(pull_) : std::span<float>());
  if (keeps_start(pass)) start_.assign(task.row.begin(), task.row.end());
  const std::span<const float> anchor = pass.to_received ? received_ : start_;
  Received received = update.beside(task);
  received.row = pass.to_received ? anchor : task.row;
  model_.receive(received);
  const std::span<float> moments = task.state.first(state_width_);
  optimizer_.start(task.row, moments,
                   {.mu = pass.mu.value_or(0),
                    .anchor = pass.mu ? anchor.data() : nullptr,
                    .pull = pass.pulls ? pull_.data() : nullptr});
  found_->start(task);
  PhaseWalk walk(movement_, task.round);
  double lr = schedule_.rate(task.round);
  int64_t done = 0;  // mini-batches
  const ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
    const int64_t all = batches_.steps(), group = options_.accumulate;
    if (schedule_.moves_within_rounds()) {
      lr = schedule_.rate(task.round, done / group, (all + group - 1) / group);
    }
    ++done;
    if (walk.next(batches_.unit())) optimizer_.move(walk.part(), walk.age_change());
    return step(task.row, batch, noise, lr, done % group == 0 || done == all);
  });
  optimizer_.finish(moments);
  if (pass.looks_back) {
    update.after(number, task, pass.keeps_start ? start_ : std::span<const float>(),
                 keeps_received(update.passes()) ? received_ : start_);
  }
  return outcome;
}

double HostPasses::step(std::span<float> row, const Batch& batch, RandomStream& noise, double lr,
                        bool last) {
  if (stores_gradient_) return stored_step(row, batch, noise, lr, last);
  if (optimizer_.is_plain()) {
    return model_.sgd_step(row, batch, noise, lr, options_.weight_decay);
  }
  optimizer_.next(lr, 1);
  return model_.step_by(row, batch, noise, optimizer_);
}

// h = s(F) g, the objective's gradient;  the optimizer's is h min(1, clip/|h|)
double HostPasses::stored_step(std::span<float> row, const Batch& batch, RandomStream& noise,
                               double lr, bool last) {
  const double loss = found_->find(row, batch, noise, gradient_);
  optimizer_.clear_still(std::span(gradient_).first(to_index(model_.layout().n_trainable())));
  double scale = propfair_slope(propfair_, loss);
  if (options_.accumulate > 1) {
    accumulate(scale, batch.rows);
    if (!last) {
      model_.move_buffers(row);
      return loss;
    }
    std::swap(gradient_, sum_);
    std::fill(sum_.begin(), sum_.end(), 0.0F);
    scale = 1 / static_cast<double>(std::exchange(samples_, 0));
  }
  optimizer_.next(lr, scale * clip_scale(scale));
  optimizer_.apply(0, gradient_.data(), model_.layout().n_trainable());
  model_.move_buffers(row);
  return loss;
}

// Mini-batches count by their samples, as if they were one.
void HostPasses::accumulate(double slope, int64_t samples) {
  const auto weight = static_cast<float>(slope * static_cast<double>(samples));
  for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += weight * gradient_[i];
  samples_ += samples;
}

double HostPasses::clip_scale(double slope) const {
  if (options_.clip <= 0) return 1;
  double squared = 0;
  for (const float g : gradient_) squared += static_cast<double>(g) * static_cast<double>(g);
  const double norm = slope * std::sqrt(squared);
  return norm > options_.clip ? options_.clip / norm : 1;
}

PassUpdate::PassUpdate(const ClientOptions& options, const Federation& federation, Model& model,
                       std::vector<Pass> passes, std::vector<StateBlock> state)
    : LocalUpdate({}, RoundSteps(options)),
      passes_(std::move(passes)),
      host_(std::make_shared<HostPasses>(options, federation, model)) {
  host_->make_room(passes_);
  state_ = host_->state_blocks();
  state_.insert(state_.end(), state.begin(), state.end());
}

PassUpdate::PassUpdate(const ClientOptions& options, const Federation& federation, Model& model,
                       std::vector<Pass> passes, std::unique_ptr<StoredGradient> gradient)
    : LocalUpdate({}, RoundSteps(options)),
      passes_(std::move(passes)),
      host_(std::make_shared<HostPasses>(options, federation, model, std::move(gradient))) {
  host_->make_room(passes_);
  state_ = host_->state_blocks();
}

PassUpdate::PassUpdate(const PassUpdate& inner, std::vector<Pass> passes,
                       std::vector<StateBlock> state)
    : LocalUpdate(inner.state_blocks(), inner.steps()),
      passes_(std::move(passes)),
      host_(inner.host_) {
  host_->make_room(passes_);
  state_.insert(state_.end(), state.begin(), state.end());
}

const Movement& PassUpdate::movement() const { return host_->movement(); }

int64_t PassUpdate::sent_values(int64_t round, int64_t, const ParameterLayout& layout) const {
  return total_size(movement().moved_in(round, layout));
}
bool PassUpdate::trains_side_by_side() const { return host_->steps_by_model(); }

ClientOutcome PassUpdate::train(const ClientTask& task) { return host_->run(*this, task); }

}  // namespace hanse

// The passes of an update, for a cohort on a device.
#include <algorithm>
#include <cmath>

#include "hanse/base/index.hpp"
#include "hanse/client/cohort_update.hpp"
#include "hanse/client/passes.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

namespace {

// The steps are those of CohortTraining; what stands before and behind them, states and control
// variates, is the update's own code in the host's memory, to which rows go only where a pass says
// so: up to 3 C P floats each way.
class CohortPasses final : public CohortUpdate {
 public:
  // `update` and `cohorts` must outlive the object; the options behind them are the same.
  CohortPasses(PassUpdate& update, CohortTraining& cohorts, const ParameterLayout& layout);

  bool reads_received() const override { return !rows_.empty(); }
  std::vector<ClientOutcome> train(std::span<const ClientTask> tasks,
                                   const ReceivedModels& received) override;
  void finish(std::span<const double> losses, const ReceivedModels& received,
              std::span<ClientOutcome> outcomes) override;
  const at::Tensor& origin() override { return cohorts_.cohort().received(); }

 private:
  std::vector<ClientOutcome> run(std::size_t pass, std::span<const ClientTask> tasks,
                                 const ReceivedModels& received);

  PassUpdate& update_;
  CohortTraining& cohorts_;
  const std::vector<Pass>& passes_;
  std::size_t n_params_, trained_;
  std::vector<float> rows_, starts_, pulls_;  // [C, P], where a pass needs them
  std::vector<ClientOutcome> before_;         // of the passes before the last one; their losses
};

CohortPasses::CohortPasses(PassUpdate& update, CohortTraining& cohorts,
                           const ParameterLayout& layout)
    : update_(update),
      cohorts_(cohorts),
      passes_(update_.passes()),
      n_params_(to_index(layout.n_params())),
      trained_(to_index(layout.n_trainable())) {
  cohorts_.move_by(update_.movement(), layout.n_trainable());
  const std::size_t size = static_cast<std::size_t>(cohorts.clients()) * n_params_;
  for (const Pass& pass : passes_) {
    if (pass.moves_start || pass.pulls || pass.looks_back) rows_.resize(size);
    if (pass.keeps_start) starts_.resize(size);
    if (pass.pulls) pulls_.resize(size);
  }
}

std::vector<ClientOutcome> CohortPasses::train(std::span<const ClientTask> tasks,
                                               const ReceivedModels& received) {
  before_.clear();
  for (std::size_t pass = 0; pass + 1 < passes_.size(); ++pass) {
    auto outcomes = run(pass, tasks, received);
    std::vector<double> losses(static_cast<std::size_t>(cohorts_.clients()));
    cohorts_.cohort().take_losses(losses);
    finish(losses, received, outcomes);
    before_ = std::move(outcomes);
  }
  return run(passes_.size() - 1, tasks, received);
}

void CohortPasses::finish(std::span<const double> losses, const ReceivedModels&,
                          std::span<ClientOutcome> outcomes) {
  cohorts_.finish(losses, outcomes);
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (!std::isfinite(before_[i].loss)) outcomes[i].loss = before_[i].loss;  // ends the run
  }
}

std::vector<ClientOutcome> CohortPasses::run(std::size_t number, std::span<const ClientTask> tasks,
                                             const ReceivedModels& received) {
  const Pass& pass = passes_[number];
  const std::size_t size = tasks.size() * n_params_;
  const auto part = [&](std::vector<float>& rows, std::size_t i) {
    return rows.empty() ? std::span<float>() : std::span(rows).subspan(i * n_params_, n_params_);
  };
  std::vector<ClientTask> here(tasks.begin(), tasks.end());
  for (std::size_t i = 0; i < here.size() && !rows_.empty(); ++i) {
    here[i].row = part(rows_, i);
    std::ranges::copy(received[i], here[i].row.begin());
    update_.before(number, here[i],
                   pass.pulls ? part(pulls_, i).first(trained_) : std::span<float>());
  }
  if (pass.keeps_start) std::copy_n(rows_.begin(), size, starts_.begin());
  const auto outcomes = cohorts_.train(
      tasks, {.mu = pass.mu.value_or(0),
              .to_theta = pass.to_received,
              .rows = pass.moves_start ? std::span(rows_).first(size) : std::span<float>(),
              .received = received.each(),
              .pulls = pass.pulls ? std::span(pulls_).first(size) : std::span<float>()});
  if (!pass.looks_back) return outcomes;
  cohorts_.cohort().take_rows(std::span(rows_).first(size));
  bool changed = false;
  for (std::size_t i = 0; i < here.size(); ++i) {
    changed = update_.after(number, here[i], part(starts_, i), received[i]) || changed;
  }
  if (changed) cohorts_.cohort().put_rows(std::span(rows_).first(size));
  return outcomes;
}

}  // namespace

int64_t LocalUpdate::sent_values(int64_t, int64_t, const ParameterLayout& layout) const {
  return layout.n_params();
}

std::unique_ptr<CohortUpdate> LocalUpdate::cohort_update(CohortTraining&, const ParameterLayout&) {
  return nullptr;
}

std::unique_ptr<CohortUpdate> PassUpdate::cohort_update(CohortTraining& cohorts,
                                                        const ParameterLayout& layout) {
  return std::make_unique<CohortPasses>(*this, cohorts, layout);
}

}  // namespace hanse

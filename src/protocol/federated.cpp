#include "hanse/protocol/federated.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "attempt.hpp"
#include "findings.hpp"
#include "hanse/base/clock.hpp"
#include "hanse/base/error.hpp"
#include "hanse/protocol/evaluation.hpp"
#include "kept_updates.hpp"

namespace hanse {

namespace {

constexpr int64_t kForesee = -1;

bool hosts_all_ranks(const FederatedTrainer::Parts& parts) {
  return parts.host.size() == parts.comm.size();
}

// Does rank 0 train clients beside serving?
bool server_hosts_clients(const FederatedTrainer::Parts& parts, const std::string& role) {
  if (role == "auto" && parts.cohorts != nullptr) return true;  // it has a GPU, too
  const bool one_host = role == "auto" && parts.comm.allreduce_one(int64_t{hosts_all_ranks(parts)},
                                                                   ReduceOp::kMin) == 1;
  return server_trains(role, parts.comm.size(), one_host);
}

Reduction reduction_of(const CommOptions& comm) {
  return comm.reduction == "fast" ? Reduction::kFast : Reduction::kExact;
}

// Cohorts evaluate the model that lies on their device.
Evaluator& choose_evaluator(const FederatedTrainer::Parts& parts, RowEvaluator& of_rows) {
  if (parts.cohorts != nullptr) return *parts.cohorts;
  return of_rows;
}

}  // namespace

FederatedTrainer::FederatedTrainer(Parts parts, Settings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      sum_(parts.model.n_params(), settings_.max_participants, reduction_of(settings_.comm)),
      control_sum_(parts.update.control_width(), settings_.max_participants,
                   reduction_of(settings_.comm)),
      evaluator_(parts.federation, parts.model) {
  const auto n = static_cast<std::size_t>(parts_.model.n_params());
  theta_.resize(n);
  row_.resize(n);
  const auto controls = static_cast<std::size_t>(parts_.update.control_width());
  if (parts_.update.control_returns()) control_.resize(controls);
  control_change_.resize(controls);
  if (is_server()) {
    step_.resize(n);
    participation_ = std::make_unique<Participation>(
        *parts_.sampler, parts_.availability, parts_.federation,
        Participation::Settings{.seed = settings_.seed,
                                .equal_importance = settings_.equal_importance,
                                .regret = settings_.regret});
  }
  const AggregatorNeeds needs = parts_.aggregator.needs();
  const auto layers = row_parts(parts_.model.layout(), needs.layers);
  if (needs.gram && parts_.cohorts == nullptr) {
    kept_ = std::make_unique<KeptUpdates>(parts_.comm, layers);
  }
  const bool shared = server_hosts_clients(parts_, settings_.server.role);
  workers_ = parts_.comm.size() - (shared ? 0 : 1);
  my_worker_ = parts_.comm.rank() - (shared ? 0 : 1);
  const bool stateful = parts_.update.state_width() > 0;
  if (stateful) {
    states_ = std::make_unique<ClientStateStore>(
        parts_.update.state_width(), settings_.client.state_memory << 20, settings_.state_folder);
  }
  if (parts_.cohorts != nullptr) {
    const std::string& device = parts_.cohorts->device();
    device_sum_ =
        std::make_unique<DeviceSum>(parts_.model.n_params(), settings_.max_participants, device);
    if (needs.gram) {
      device_updates_ =
          std::make_unique<DeviceUpdates>(parts_.comm, *parts_.devices, layers, device);
    }
  }
  // A model that comes back in parts would be on the hosts, and not on their devices.
  overlaps_ = parts_.cohorts == nullptr && step_overlaps(needs, parts_.update);
  const Dispatch dispatch =
      choose_dispatch({.ranks = parts_.comm.size(),
                       .one_host = hosts_all_ranks(parts_),
                       .server_trains = shared,
                       .planned = settings_.comm.dispatch == "planned" || parts_.cohorts != nullptr,
                       .exact = settings_.comm.reduction == "exact",
                       .has_states = stateful,
                       .has_deadline = settings_.round_seconds > 0});
  if (dispatch == Dispatch::kSharedQueue) queue_ = make_shared_queue(parts_.host, workers_);
  if (dispatch == Dispatch::kServedQueue) queue_ = make_served_queue(parts_.comm);
  // A queue hands a slow rank less by itself, and nobody knows there who trained whom.
  if (!queue_) costs_ = CostModel(workers_);
}

FederatedTrainer::~FederatedTrainer() = default;

void FederatedTrainer::initialize_model() {
  RandomStream stream(settings_.seed, Purpose::kInitialize);
  parts_.model.initialize(theta_, stream);
}

RoundRecord FederatedTrainer::round(bool stop_requested) {
  start_s_ = settings_.clock();
  const double comm_before_s = parts_.comm.seconds();
  traffic_ = {.before_bytes = bytes_moved()};

  find_homes();
  decide_participants();
  move_states();
  share_model();
  if (parts_.aggregator.needs().losses) gather_losses();

  Findings findings(plan_.size());
  double train_s = 0;
  double wait_s = 0;
  {
    const PhaseTimer timer(my_worker_ < 0 ? wait_s : train_s);
    train_participants(findings);
  }
  {
    const PhaseTimer timer(wait_s);
    parts_.comm.barrier();
  }
  if (keeps_updates()) mix_kept(findings);
  if (!control_change_.empty()) reduce_controls();

  findings.rank(Findings::kTrainSeconds) = train_s;
  findings.rank(Findings::kWaitSeconds) = wait_s;
  findings.rank(Findings::kCommSeconds) = parts_.comm.seconds() - comm_before_s - wait_s;
  findings.rank(Findings::kStop) = stop_requested;
  findings.rank(Findings::kFailed) = failure_ != nullptr;
  merge(findings.table);

  RoundRecord record{.round = completed_ + 1,
                     .participants = static_cast<int64_t>(plan_.size()),
                     .train_s = findings.rank(Findings::kTrainSeconds),
                     .wait_s = findings.rank(Findings::kWaitSeconds),
                     .mixed_loss = mixed_loss_,
                     .stop_requested = findings.rank(Findings::kStop) > 0,
                     .failed = findings.rank(Findings::kFailed) > 0};
  const AlignedFloats before =
      is_server() && parts_.aggregator.needs().trials > 0 ? theta_ : AlignedFloats();
  const double exchange_s = combine(findings, record);
  if (parts_.aggregator.needs().trials > 0) backtrack(before, record.failed);
  record.comm_s = std::max(0.0, findings.rank(Findings::kCommSeconds)) + exchange_s;
  record.bytes_sent = bytes_moved() - traffic_.before_bytes + traffic_.others_bytes;
  record.more = round_values();
  ++completed_;
  record.seconds = settings_.clock() - start_s_;
  return record;
}

void FederatedTrainer::attempt(const std::function<void()>& work) {
  hanse::attempt(failure_, work);
}

// Who takes part, told to all ranks. When the sampler must know what every client would report, a
// plan of length kForesee says so first.
void FederatedTrainer::decide_participants() {
  const auto draw_and_mix = [&] {
    draw_participants();
    if (!parts_.aggregator.needs().losses && !keeps_updates()) mix();
  };
  plan_.clear();
  bool foresees = false;
  if (is_server()) {
    attempt([&] {
      foresees = participation_->needs_foresight();
      if (!foresees) draw_and_mix();
    });
  }
  if (share_plan(foresees)) return;
  foresee();
  if (is_server()) attempt(draw_and_mix);
  share_plan(false);
}

// Rank 0: who takes part, and on which rank.
void FederatedTrainer::draw_participants() {
  const Draw& draw = participation_->draw(completed_ + 1);
  std::vector<double> costs(draw.size());
  std::vector<int64_t> homes(states_ ? draw.size() : 0, -1);
  for (std::size_t i = 0; i < draw.size(); ++i) {
    const int64_t samples = parts_.federation.train(draw.clients[i]).size();
    const int64_t steps = local_steps(settings_.client, samples);
    costs[i] = costs_.predict(draw.clients[i], static_cast<double>(steps));
    if (homes_.count(draw.clients[i])) homes[i] = homes_.at(draw.clients[i]);
  }
  piece_ = hosts_all_ranks(parts_) ? 1 : piece_length(costs, costs_.has_measured(), workers_);
  const auto order = parts_.cohorts ? draw_order(costs) : longest_first(costs);
  const auto slowness = costs_.slowness();
  const auto worker_of =
      parts_.cohorts ? balance_cohorts(costs, parts_.cohorts->clients(), workers_, slowness)
                     : balance(costs, workers_, homes, states_ ? move_seconds() : 0, slowness);
  plan_.clear();
  for (const int64_t position : order) {
    const auto i = static_cast<std::size_t>(position);
    const int64_t client = draw.clients[i];
    plan_.push_back({.client = client,
                     .position = position,
                     .worker = worker_of[i],
                     .coefficient = 0,
                     .importance = participation_->importance(client)});
  }
  if (settings_.round_seconds > 0) order_at_random();
}

// For a round with a time limit: who is left out must not depend on what it would have cost.
void FederatedTrainer::order_at_random() {
  std::vector<int64_t> order(plan_.size());
  std::iota(order.begin(), order.end(), 0);
  RandomStream(settings_.seed, Purpose::kDeadline, static_cast<uint64_t>(completed_ + 1))
      .shuffle(std::span(order));
  std::sort(plan_.begin(), plan_.end(),
            [](const Assignment& a, const Assignment& b) { return a.position < b.position; });
  std::vector<Assignment> shuffled;
  for (const int64_t position : order) {
    shuffled.push_back(plan_[static_cast<std::size_t>(position)]);
    shuffled.back().worker = static_cast<int64_t>(shuffled.size() - 1) % workers_;
  }
  plan_ = std::move(shuffled);
}

// What rank 0 knows of the participants before they train, in the draw's order.
RoundReport FederatedTrainer::report() const {
  const Draw& draw = participation_->drawn();
  return {.round = completed_ + 1,
          .clients = draw.clients,
          .lambda = participation_->shares(),
          .draw_weights = draw.weights,
          .losses = losses_};
}

// Rank 0: what each participant's update counts.
void FederatedTrainer::mix() {
  mixed_loss_ = std::numeric_limits<double>::quiet_NaN();
  if (plan_.empty()) return;  // nobody was there
  const Mix mix = parts_.aggregator.mix(report());
  for (auto& assignment : plan_) {
    assignment.coefficient = mix.coefficients[static_cast<std::size_t>(assignment.position)];
  }
  if (losses_.empty()) return;
  const double sum = std::accumulate(mix.coefficients.begin(), mix.coefficients.end(), 0.0);
  mixed_loss_ =
      std::inner_product(losses_.begin(), losses_.end(), mix.coefficients.begin(), 0.0) / sum;
}

// Rank 0's plan to all; false: it foresees first.
bool FederatedTrainer::share_plan(bool foresees) {
  int64_t length = foresees ? kForesee : static_cast<int64_t>(plan_.size());
  parts_.comm.bcast(std::span(&length, 1), 0);
  if (length == kForesee) return false;
  plan_.resize(static_cast<std::size_t>(length));
  parts_.comm.bcast(std::as_writable_bytes(std::span(plan_)), 0);
  return true;
}

void FederatedTrainer::share_model() {
  const PhaseTimer timer(traffic_.times.broadcast_s);
  const int64_t before = bytes_moved();
  if (!model_is_shared_) bcast_model();
  model_is_shared_ = true;
  if (!control_.empty()) parts_.comm.bcast(std::span(control_), 0);
  traffic_.broadcast_bytes += bytes_moved() - before;
}

// Calls work(entry) for the entries of the plan that fall to this rank.
template <class Work>
void FederatedTrainer::for_my_participants(Work work) {
  if (queue_) {
    queue_->start(static_cast<int64_t>(plan_.size()), piece_);
    if (my_worker_ < 0) return queue_->serve();
    for (WorkQueue::Piece piece; !(piece = queue_->next()).empty();) {
      for (int64_t entry = piece.begin; entry < piece.end; ++entry) {
        work(static_cast<std::size_t>(entry));
      }
    }
    return;
  }
  for (std::size_t entry = 0; entry < plan_.size(); ++entry) {
    if (plan_[entry].worker == my_worker_) work(entry);
  }
}

double FederatedTrainer::training_loss(int64_t client) {
  const SampleRange range = parts_.federation.train(client);
  const RandomStream stream(settings_.seed, Purpose::kLoss, static_cast<uint64_t>(completed_ + 1),
                            static_cast<uint64_t>(client));
  const int64_t count = loss_samples(settings_.loss_batches, settings_.client, range.size());
  const auto sums = evaluate_sample(choose_evaluator(parts_, evaluator_.at(received_model(client))),
                                    range, count, stream);
  const double loss = sums.loss / static_cast<double>(sums.samples);
  return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
}

// F_i at the received model on the participants' training samples, in the draw's order; on rank 0.
// Infinity stands for whatever is not finite.
std::vector<double> FederatedTrainer::participants_losses() {
  std::vector<double> losses(plan_.size(), kUnknown);
  for_my_participants([&](std::size_t entry) {
    double& loss = losses[static_cast<std::size_t>(plan_[entry].position)];
    loss = 1;  // stands in after a failure; the round is dropped then
    attempt([&] { loss = training_loss(plan_[entry].client); });
  });
  merge(losses);
  return losses;
}

// Brings what the ranks know to rank 0, and with it the bytes that each has counted of the round so
// far. A round's last call counts: what follows it is rooted at rank 0.
void FederatedTrainer::merge(std::vector<double>& table) {
  const auto entries = static_cast<std::ptrdiff_t>(table.size());
  table.resize(table.size() + static_cast<std::size_t>(parts_.comm.size()), kUnknown);
  table[static_cast<std::size_t>(entries + parts_.comm.rank())] =
      static_cast<double>(bytes_moved() - traffic_.before_bytes);
  parts_.comm.reduce(std::span(table), ReduceOp::kMax, 0);
  const double others = std::accumulate(table.begin() + entries + 1, table.end(), 0.0);
  if (is_server()) traffic_.others_bytes = static_cast<int64_t>(others);
  table.resize(static_cast<std::size_t>(entries));
}

// At the received model; then the mix has all it needs, unless it waits for the updates.
void FederatedTrainer::gather_losses() {
  losses_ = participants_losses();
  if (is_server()) attempt([&] { check_losses(); });
  if (keeps_updates()) {
    parts_.comm.barrier();  // nobody trains before everyone has found the queue of losses empty
    return;
  }
  if (is_server()) attempt([&] { mix(); });
  share_plan(false);
}

void FederatedTrainer::check_losses() const {
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    if (std::isfinite(losses_[i])) continue;
    throw TrainingError("the model's loss on a client's samples is not finite",
                        participation_->drawn().clients[i], completed_ + 1,
                        "a smaller client.lr or client.clip may help");
  }
}

void FederatedTrainer::train_participants(Findings& findings) {
  std::copy(theta_.begin(), theta_.end(), row_.begin());
  if (parts_.cohorts != nullptr) return train_cohorts(findings);
  deadline_ = Deadline(settings_.round_seconds);
  for_my_participants([&](std::size_t entry) {
    if (deadline_.starts(settings_.clock() - start_s_)) {
      attempt([&] { train_one(entry, findings); });
    }
  });
  if (deadline_.factor() > 1 && !failure_) sum_.scale(deadline_.factor());
}

ClientTask FederatedTrainer::task_of(int64_t client, std::span<float> state) {
  return {.client = client,
          .round = completed_ + 1,
          .seed = settings_.seed,
          .row = row_,
          .state = state,
          .control = control_,
          .control_change = control_change_};
}

// The next client starts from the model.
void FederatedTrainer::forget_training() {
  std::copy(theta_.begin(), theta_.end(), row_.begin());
  std::fill(control_change_.begin(), control_change_.end(), 0.0F);
}

void FederatedTrainer::train_one(std::size_t entry, Findings& findings) {
  const Assignment& mine = plan_[entry];
  const double start_s = settings_.clock();
  const ClientTask task =
      task_of(mine.client, states_ ? states_->row(mine.client) : std::span<float>());
  const ClientOutcome outcome = parts_.update.train(task);
  if (!deadline_.counts(settings_.clock() - start_s_)) return forget_training();
  const FoldResult folded = kept_ ? keep_update(mine) : fold_update(mine);
  const FoldResult control = control_sum_.fold(control_change_, {}, mine.importance);
  std::fill(control_change_.begin(), control_change_.end(), 0.0F);
  note_training(entry, outcome, {folded.squared_norm, folded.in_range && control.in_range},
                settings_.clock() - start_s, findings);
}

// Throws unless the client's update can enter the sum.
void FederatedTrainer::note_training(std::size_t entry, const ClientOutcome& outcome,
                                     const FoldResult& folded, double seconds, Findings& findings) {
  if (!folded.in_range || !std::isfinite(outcome.loss + outcome.rate)) {
    throw TrainingError(
        fmt::format("the update of a client is not finite or above {:.3g} (its loss is {:.6g})",
                    sum_.limit(), outcome.loss),
        plan_[entry].client, completed_ + 1, "a smaller client.lr or client.clip may help");
  }
  findings.of(entry, Findings::kLoss) = outcome.loss;
  findings.of(entry, Findings::kSquaredNorm) = folded.squared_norm;
  findings.of(entry, Findings::kRate) = outcome.rate;
  findings.of(entry, Findings::kSeconds) = seconds;
}

std::vector<ClientEvaluation> FederatedTrainer::evaluate() {
  share_model();
  if (settings_.own_models) return evaluate_own_models();
  return evaluate_clients(parts_.comm, parts_.federation,
                          choose_evaluator(parts_, evaluator_.at(theta_)));
}

}  // namespace hanse

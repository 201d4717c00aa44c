// What FederatedTrainer::round() sends, in the order in which it does, and what a rank keeps.
#include "hanse/protocol/footprint.hpp"

#include <algorithm>
#include <cmath>

#include "federated/column_stepping.hpp"
#include "federated/findings.hpp"
#include "federated/parts/parts.hpp"
#include "federated/report.hpp"
#include "federated/round_plan.hpp"
#include "federated/update_sink.hpp"
#include "hanse/comm/work_queue.hpp"
#include "hanse/protocol/federated.hpp"
#include "hanse/sums/gram.hpp"

namespace hanse {

namespace {

double number(int64_t n) { return static_cast<double>(n); }

constexpr double kNumber = sizeof(double);
constexpr double kCount = sizeof(int64_t);
constexpr double kValue = sizeof(float);

// Bytes of an entry of the updates' sum.
double sum_entry(const FederatedFacts& facts) {
  return static_cast<double>(facts.exact ? sizeof(int64_t) : sizeof(float));
}

// Counts what RoundPlan::for_mine() sends.
void send_queue(const FederatedFacts& facts, double clients, int64_t ranks, int64_t hosts,
                RoundFootprint& footprint) {
  const bool is_open =
      !facts.planned && facts.exact && facts.state_width == 0 && !facts.has_deadline;
  const bool one_host = hosts == 1;
  const Dispatch dispatch =
      choose_dispatch(is_open, ranks, one_host, server_trains(facts.role, ranks, one_host));
  if (dispatch != Dispatch::kServedQueue) return;
  const QueueTraffic queue = served_queue_traffic(std::ceil(clients), ranks - 1);
  footprint.add("queue", queue.bytes, queue.messages, 0);
}

// Updates that are weighed in a round: those of the participants and, with last_updates, of the
// clients that took part in the M/K rounds before and are absent, when draws are uniform.
double weighed_updates(const FederatedFacts& facts) {
  const double k = facts.participants;
  const auto clients = number(facts.clients);
  if (!facts.needs.last_updates || k <= 0) return k;
  return k + (clients - k) * (1 - std::pow(1 - k / clients, std::floor(clients / k)));
}

// Counts what Weighing::trained() sends: rates and norms, absent clients, products, coefficients.
void send_products(const FederatedFacts& facts, int64_t ranks, RoundFootprint& footprint) {
  const char* kind = facts.needs.gram ? "inner products" : "norms";
  const double k = facts.participants;
  const double updates = weighed_updates(facts) + number(further_rows(facts.needs));
  footprint.allreduce(kind, kNumber * k * (facts.needs.norms ? 2 : 1));
  if (facts.needs.last_updates) {
    footprint.broadcast(kind, kCount);
    footprint.broadcast(kind, kCount * (updates - k));
  }
  double layers = 1;
  if (facts.needs.gram) {
    const GramTraffic gram = gram_traffic(facts.parts, updates, ranks);
    footprint.add(kind, gram.bytes, gram.messages, gram.operations);
    layers = number(static_cast<int64_t>(facts.parts.size()));
  }
  if (facts.needs.forging_rows > 0) send_forging(facts, kind, footprint);
  if (facts.needs.columns) return send_columns(facts, updates, ranks, footprint);
  footprint.broadcast(kind, kNumber * updates * layers);
}

// What make_stacking()'s part sends: rows with their places and coefficients.
void send_stack(const FederatedFacts& facts, int64_t ranks, RoundFootprint& footprint) {
  if (facts.stacked == FederatedFacts::Stacked::kNone) return;
  const double row = kValue * number(facts.n_params) + kCount + kNumber;
  const double all = facts.participants * row;
  const double others = all * number(ranks - 1) / number(ranks);  // on an even share
  for (int array = 0; array < 3; ++array) footprint.gather("adapters", others / 3);
  footprint.keep("adapters of a round", all);
  if (facts.stacked != FederatedFacts::Stacked::kOnAll) return;
  footprint.broadcast("adapters", all + 2 * kCount);
  footprint.broadcast("adapters", kNumber);
}

void keep_rows(const FederatedFacts& facts, int64_t ranks, int64_t hosts,
               RoundFootprint& footprint) {
  const auto p = number(facts.n_params);
  const auto controls = number(facts.control_width);
  const auto workers = number(server_trains(facts.role, ranks, hosts == 1) ? ranks : ranks - 1);
  const auto sums = number(sum_rows(facts.needs));
  // The model, the rows in training, the server's step.
  const std::size_t trained =
      facts.needs.after_training() ? 1 : folded_at_once(facts.n_params, facts.control_width);
  footprint.keep("model rows", (1 + static_cast<double>(trained) + sums) * kValue * p);
  footprint.keep("sums", sum_entry(facts) * (sums * p + controls));
  footprint.keep("controls", kValue * controls * (facts.control_returns ? 2 : 1));
  if (facts.needs.after_training()) {
    const double most =
        facts.most_on_rank > 0 ? facts.most_on_rank : std::ceil(facts.participants / workers);
    footprint.keep("kept updates", kValue * p * most);
  }
  footprint.keep("numbers of the rule", rule_bytes(facts, ranks));
  if (facts.needs.columns) {  // pieces of all rows, and their integers, or numbers and a copy
    const double piece =
        number(std::min(RowExchange::kPiece, facts.n_params)) * weighed_updates(facts);
    const double mapped = facts.needs.own_columns ? 2 * kNumber : kCount;
    footprint.keep("kept updates", (2 * kValue + mapped) * piece);
  }
  footprint.keep("model rows", kValue * p * number(further_rows(facts.needs)));
  footprint.keep("client states",
                 kValue * number(facts.state_width) * std::ceil(number(facts.clients) / workers));
}

}  // namespace

double rule_bytes(const FederatedFacts& facts, int64_t ranks) {
  const AggregatorNeeds& needs = facts.needs;
  const double k = weighed_updates(facts) + number(further_rows(needs));
  const double layers = needs.layers ? number(std::ssize(facts.parts)) : 1;
  double matrices = needs.matrices + (needs.layers ? layers : 0);
  if (needs.forging_rows > 0) matrices += 3;  // products with the forged rows, and a trial's
  if (!needs.gram) return kNumber * matrices * k * k;
  const GramTraffic gram = gram_traffic(facts.parts, k, ranks);
  return std::max({gram.kept_bytes, gram.matrix_bytes, kNumber * (layers + matrices) * k * k});
}

double rule_seconds(const FederatedFacts& facts) {
  constexpr double kMultiplicationsASecond = 3e9;  // of dense matrices, on one core
  return facts.needs.cubes * std::pow(weighed_updates(facts), 3) / kMultiplicationsASecond;
}

RoundFootprint federated_footprint(const FederatedFacts& facts, int64_t ranks, int64_t hosts) {
  RoundFootprint footprint(ranks);
  const double k = facts.participants;
  const AggregatorNeeds& needs = facts.needs;
  const auto share_plan = [&](double clients) {
    footprint.broadcast("plan", kCount);
    footprint.broadcast("plan", static_cast<double>(sizeof(Assignment)) * clients);
  };
  const auto share_controls = [&] {
    if (facts.control_returns)
      footprint.broadcast("controls", kValue * number(facts.control_width));
  };
  const auto merge = [&](const char* kind, double entries) {
    footprint.reduce(kind, kNumber * (entries + number(ranks)));
  };
  const auto gather_losses = [&](double clients) {
    send_queue(facts, clients, ranks, hosts, footprint);
    merge("losses", clients);
  };

  // draw(), share_model().
  if (facts.all_clients_first) {
    footprint.broadcast("plan", kCount);
    share_controls();
    footprint.reduce("feedback of all clients", kNumber * number(facts.clients));
  }
  if (facts.candidates > 0) {
    share_plan(facts.candidates);
    share_controls();
    gather_losses(facts.candidates);
  }
  share_plan(k);
  footprint.broadcast("model", kValue * number(facts.n_params));
  share_controls();
  if (facts.chooses_copies) footprint.allreduce("copies", kCount * k);
  if (needs.losses) {
    gather_losses(k);
    if (!needs.after_training()) share_plan(k);
  }
  // train(), with the barrier behind it.
  send_queue(facts, k, ranks, hosts, footprint);
  footprint.add("waiting", 0, 0, needs.losses && needs.after_training() ? 2 : 1);
  if (needs.after_training() && k > 0) send_products(facts, ranks, footprint);
  if (facts.private_rows > 0) footprint.allreduce("private counts", 4 * kCount);
  if (facts.control_width > 0) {
    footprint.reduce("control sum", sum_entry(facts) * number(facts.control_width));
  }
  merge("findings", k * number(Findings::fields(facts.squares)) + number(Findings::kRankFields));
  send_stack(facts, ranks, footprint);
  footprint.reduce("sum", sum_entry(facts) * number(facts.n_params) * number(sum_rows(needs)));
  if (needs.trials > 0) {  // backtrack(), when the first step is accepted
    footprint.broadcast("trials", kCount);
    share_controls();
    gather_losses(k);
    footprint.broadcast("trials", kCount);
  }
  keep_rows(facts, ranks, hosts, footprint);
  return footprint;
}

}  // namespace hanse

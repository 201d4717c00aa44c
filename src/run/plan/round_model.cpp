#include "round_model.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/sums/gram.hpp"

namespace hanse {

namespace {

constexpr int64_t kDraws = 30;  // rounds whose participants are drawn
// Collective operations of a few bytes in a round: the plan's length and entries, two barriers,
// what the clients found, whether to go on. With losses: those, the weighed plan.
constexpr double kSmallOperations = 6;
constexpr double kSmallOfLosses = 3;

// The participants of the job's first rounds, had the sampler learnt nothing meanwhile.
std::vector<std::vector<int64_t>> first_draws(const Job& job, FederatedAssembly& parts) {
  Participation participation(*parts.sampler, parts.availability.get(), parts.federation,
                              {.seed = static_cast<uint64_t>(job.run.seed)});
  std::vector<std::vector<int64_t>> draws;
  const int64_t rounds = std::min(kDraws, std::max<int64_t>(job.run.rounds, 1));
  for (int64_t round = 1; round <= rounds; ++round) {
    if (participation.needs_foresight()) {
      participation.foresee(
          std::vector<double>(static_cast<std::size_t>(trained_clients(parts)), 1));
    }
    draws.push_back(participation.draw(round).clients);
  }
  return draws;
}

}  // namespace

RoundModel::RoundModel(const Job& job, FederatedAssembly& parts, const Cluster& cluster,
                       const Calibration& found)
    : job_(job),
      parts_(parts),
      cluster_(cluster),
      found_(found),
      needs_(parts.aggregator->needs()),
      draws_(first_draws(job, parts)) {
  for (const auto& draw : draws_) participants_ += number(static_cast<int64_t>(draw.size()));
  participants_ /= number(static_cast<int64_t>(draws_.size()));
}

double RoundModel::controls_down_bytes() const {
  return parts_.update->control_returns() ? 4 * number(parts_.update->control_width()) : 0;
}

double RoundModel::controls_up_bytes() const {
  return sum_bytes() * number(parts_.update->control_width());
}

// One after the other where they do not overlap.
double RoundModel::exchange_s() const {
  const double controls_s =
      broadcast_s(cluster_, controls_down_bytes()) + sum_s(cluster_, controls_up_bytes());
  return controls_s + (step_overlaps(needs_, *parts_.update)
                           ? hanse::exchange_s(cluster_, up_bytes(), down_bytes(), found_.server_s)
                           : up_s() + found_.server_s + down_s());
}

// Mean over the draws.
template <class Cost>
double RoundModel::busiest_of_draws_s(Cost cost) const {
  double total_s = 0;
  for (const auto& draw : draws_) {
    std::vector<double> costs;
    for (const int64_t client : draw) costs.push_back(cost(client));
    total_s += busiest_s(cluster_, loads_of(cluster_, costs, balance(costs, cluster_.workers())));
  }
  return total_s / number(static_cast<int64_t>(draws_.size()));
}

// Every client on the rank that would keep its state, were they spread evenly.
template <class Cost>
double RoundModel::all_clients_s(Cost cost) const {
  std::vector<double> costs;
  std::vector<int64_t> workers;
  for (int64_t client = 0; client < trained_clients(parts_); ++client) {
    costs.push_back(cost(client));
    workers.push_back(client % cluster_.workers());
  }
  return busiest_s(cluster_, loads_of(cluster_, costs, workers));
}

double RoundModel::training_s() const {
  return busiest_of_draws_s(
      [&](int64_t client) { return found_.client(number(work_of(parts_, client))); });
}

double RoundModel::loss_samples(int64_t client) const {
  const int64_t samples = parts_.federation.train(client).size();
  const int64_t batches = loss_batches(job_.aggregator.loss);
  if (batches == 0) return number(samples);
  const int64_t batch = parts_.client.batch > 0 ? parts_.client.batch : samples;
  return number(std::min(samples, batches * batch));
}

// The participants' losses at the received model.
double RoundModel::losses_s() const {
  if (!needs_.losses) return 0;
  return busiest_of_draws_s([&](int64_t client) { return found_.sample_s * loss_samples(client); });
}

double RoundModel::foresight_s() const {
  if (!foresees()) return 0;
  return small_s(cluster_) + all_clients_s([&](int64_t client) {
           return found_.client(number(work_of(parts_, client)));
         });
}

int64_t RoundModel::gram_blocks() const {
  return GramBlocks::count(row_parts(parts_.model->layout(), needs_.layers));
}

// What the ranks send for the inner products: the updates' rates there and back, which rank has
// which, a part of every update, the blocks' results, and coefficients. The updates lie evenly.
double RoundModel::gram_bytes() const {
  const double k = participants_;
  const auto ranks = number(cluster_.ranks);
  const auto parts =
      number(static_cast<int64_t>(row_parts(parts_.model->layout(), needs_.layers).size()));
  const int64_t at_server = (gram_blocks() + cluster_.ranks - 1) / cluster_.ranks;
  const double results = number(gram_blocks() - at_server) * k * (k + 1) / 2;
  const double values = k * number(parts_.model->n_params()) / ranks;
  return (ranks - 1) * (8 * (2 * k + ranks + k + parts * k) + 4 * values) + 8 * results;
}

// Blocks of all updates go to the ranks that multiply them, a block a rank at a time.
double RoundModel::gram_s() const {
  if (!needs_.gram) return 0;
  const auto p = number(parts_.model->n_params());
  const double blocks = number(gram_blocks());
  const auto ranks = number(cluster_.ranks);
  const std::vector<double> loads(static_cast<std::size_t>(cluster_.ranks),
                                  found_.gram_s * std::ceil(blocks / ranks) / blocks);
  const double received = 4 * participants_ * p / ranks;  // by each rank
  const double within_s = cluster_.ranks_a_host() > 1 ? received / cluster_.memory.down : 0;
  const double between_s =
      cluster_.hosts > 1 ? received * number(cluster_.ranks_a_host()) / cluster_.network.down : 0;
  return busiest_s(cluster_, loads) + std::max(within_s, between_s);
}

double RoundModel::small_operations_s() const {
  const double stall_s = cluster_.ranks > 1 ? found_.stall_s : 0;
  return (kSmallOperations + (needs_.losses ? kSmallOfLosses : 0)) * small_s(cluster_) + stall_s;
}

// As evaluate_clients() and FederatedTrainer::evaluate_own_models() share the clients out.
double RoundModel::evaluation_s() const {
  if (found_.own_share > 0) {
    return all_clients_s([&](int64_t client) {
      return found_.own_share * found_.client(number(work_of(parts_, client))) +
             found_.sample_s * number(samples_evaluated(parts_, client));
    });
  }
  const int64_t all = parts_.federation.clients() + parts_.federation.held_out();
  std::vector<int64_t> sizes;
  for (int64_t client = 0; client < all; ++client) {
    sizes.push_back(parts_.federation.train(client).size() + parts_.federation.test(client).size());
  }
  const auto borders = cut_evenly(sizes, cluster_.ranks);
  std::vector<double> loads(static_cast<std::size_t>(cluster_.ranks));
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    for (int64_t client = borders[rank]; client < borders[rank + 1]; ++client) {
      loads[rank] += found_.sample_s * number(samples_evaluated(parts_, client));
    }
  }
  return busiest_s(cluster_, loads);
}

double RoundModel::round_s() const {
  return foresight_s() + losses_s() + training_s() + gram_s() + exchange_s() + small_operations_s();
}

// To and from each of the other ranks: the plan, the model, the sum and what clients and ranks
// found; with losses, those and, unless the updates are weighed later, the plan once more; with
// trials of a step, the losses behind the first, and twice whether to go on; with foresight, a
// number a client.
double RoundModel::sent_bytes() const {
  const double k = participants_;
  const double plan = 8 + 40 * k;
  const auto ranks = number(cluster_.ranks);
  const double told = 8 * (4 * k + 5 + ranks);
  double bytes =
      plan + down_bytes() + controls_down_bytes() + up_bytes() + controls_up_bytes() + told;
  if (needs_.losses) bytes += 8 * (k + ranks) + (needs_.gram ? 0 : plan);
  if (needs_.trials > 0) bytes += 8 + 8 * (k + ranks) + 8;
  if (foresees()) bytes += 8 + controls_down_bytes() + 8 * number(trained_clients(parts_));
  return (ranks - 1) * bytes + (needs_.gram ? gram_bytes() : 0);
}

double RoundModel::messages() const {
  return number(cluster_.ranks - 1) * (kSmallOperations + (needs_.losses ? kSmallOfLosses : 0));
}

double RoundModel::kept_rows() const {
  double most = 0;
  for (const auto& draw : draws_) {
    std::vector<double> costs;
    for (const int64_t client : draw) {
      costs.push_back(found_.client(number(work_of(parts_, client))));
    }
    std::vector<double> rows(static_cast<std::size_t>(cluster_.workers()));
    for (const int64_t worker : balance(costs, cluster_.workers())) {
      most = std::max(most, ++rows[static_cast<std::size_t>(worker)]);
    }
  }
  return most;
}

// The model, the row in training, the server's step, the sum; and of control variates the clients'
// change, the sum, and the server's own where it returns.
double RoundModel::rows_bytes() const {
  const auto p = number(parts_.model->n_params());
  const auto controls = number(parts_.update->control_width());
  double floats = 3 * p + controls;
  if (parts_.update->control_returns()) floats += controls;
  return 4 * floats + sum_bytes() * (p + controls);
}

// The updates that wait to be weighed, and pieces of all of them on their way.
double RoundModel::kept_bytes() const {
  if (!needs_.gram) return 0;
  const auto p = number(parts_.model->n_params());
  return 4 * p * kept_rows() +
         number(parts_.sampler->per_round()) * number(GramExchange::kPiece) * (4 + 4);
}

double RoundModel::states_bytes() const {
  const double rows = std::ceil(number(trained_clients(parts_)) / number(cluster_.workers()));
  return 4 * number(parts_.update->state_width()) * rows;
}

// Of the data, by a rank that trains its share of all rounds and evaluates its share of clients.
double RoundModel::touched_share() const {
  const double drawn = participants_ * number(job_.run.rounds) / number(cluster_.workers());
  const double not_drawn = std::pow(1 - 1 / number(trained_clients(parts_)), drawn);
  return 1 - (1 - 1 / number(cluster_.ranks)) * not_drawn;
}

}  // namespace hanse

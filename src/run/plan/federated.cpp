#include "federated.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/progress.hpp"
#include "hanse/protocol/gram.hpp"

namespace hanse {

namespace {

constexpr int64_t kDraws = 30;  // rounds whose participants are drawn
// Collective operations of a few bytes in a round: the plan's length and entries, two barriers,
// what the clients found, whether to go on. With losses: those, the weighed plan.
constexpr double kSmallOperations = 6;
constexpr double kSmallOfLosses = 3;

double number(int64_t n) { return static_cast<double>(n); }

// What rank 0 needs to foretell a round.
class RoundModel {
 public:
  RoundModel(const Job& job, Components& parts, const Cluster& cluster, const Calibration& found);

  double training_s() const;
  double losses_s() const;
  double foresight_s() const;
  double gram_s() const;
  double down_s() const { return broadcast_s(cluster_, 4 * down_values()); }
  double up_s() const { return sum_s(cluster_, sum_bytes() * up_values()); }
  double small_operations_s() const;
  double evaluation_s() const;
  double round_s() const;

  double sent_bytes() const;
  double messages() const;
  double participants() const { return participants_; }
  double kept_rows() const;  // the most on a rank
  double rows_bytes() const;
  double kept_bytes() const;
  double states_bytes() const;
  double touched_share() const;

 private:
  double down_values() const;
  double up_values() const {
    return number(parts_.model->n_params() + parts_.update->control_width());
  }
  double sum_bytes() const { return job_.comm.reduction == "fast" ? 4 : 8; }
  bool foresees() const { return job_.evaluate.regret || parts_.sampler->needs_foresight(); }
  bool stateful() const { return parts_.update->state_width() > 0; }
  std::vector<int64_t> workers_of(const std::vector<int64_t>& clients,
                                  std::span<const double> costs) const;
  template <class Cost>
  double busiest_of_draws_s(Cost cost) const;
  template <class Cost>
  double all_clients_s(Cost cost) const;
  double loss_samples(int64_t client) const;
  double evaluated_samples(int64_t client) const;

  const Job& job_;
  Components& parts_;
  const Cluster& cluster_;
  const Calibration& found_;
  AggregatorNeeds needs_;
  std::vector<std::vector<int64_t>> draws_;
  double participants_ = 0;  // mean of a round
};

// The participants of the job's first rounds, had the sampler learnt nothing meanwhile.
std::vector<std::vector<int64_t>> first_draws(const Job& job, Components& parts) {
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

RoundModel::RoundModel(const Job& job, Components& parts, const Cluster& cluster,
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

double RoundModel::down_values() const {
  return number(parts_.model->n_params() +
                (parts_.update->control_returns() ? parts_.update->control_width() : 0));
}

// Clients with a state stay on their rank.
std::vector<int64_t> RoundModel::workers_of(const std::vector<int64_t>& clients,
                                            std::span<const double> costs) const {
  if (!stateful()) return balance(costs, cluster_.workers());
  std::vector<int64_t> workers;
  for (const int64_t client : clients) workers.push_back(client % cluster_.workers());
  return workers;
}

// Mean over the draws.
template <class Cost>
double RoundModel::busiest_of_draws_s(Cost cost) const {
  double total_s = 0;
  for (const auto& draw : draws_) {
    std::vector<double> costs;
    for (const int64_t client : draw) costs.push_back(cost(client));
    total_s += busiest_s(cluster_, loads_of(cluster_, costs, workers_of(draw, costs)));
  }
  return total_s / number(static_cast<int64_t>(draws_.size()));
}

// Every client on the rank that would keep its state.
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
  return down_s() + small_s(cluster_) + all_clients_s([&](int64_t client) {
           return found_.client(number(work_of(parts_, client)));
         });
}

// Blocks of all updates go to the ranks that multiply them, a block a rank at a time.
double RoundModel::gram_s() const {
  if (!needs_.gram) return 0;
  const auto p = number(parts_.model->n_params());
  const double blocks = std::clamp(std::ceil(p / number(GramExchange::kPiece)), 2.0,
                                   number(GramExchange::kMostBlocks));
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
  return (kSmallOperations + (needs_.losses ? kSmallOfLosses : 0)) * small_s(cluster_);
}

double RoundModel::evaluated_samples(int64_t client) const {
  const SampleRange train = parts_.federation.train(client);
  const SampleRange test = parts_.federation.test(client);
  return number(test.size() + (test.begin == train.begin ? 0 : train.size()));
}

// As evaluate_clients() and FederatedTrainer::evaluate_own_models() share the clients out.
double RoundModel::evaluation_s() const {
  if (found_.own_share > 0) {
    return down_s() + all_clients_s([&](int64_t client) {
             return found_.own_share * found_.client(number(work_of(parts_, client))) +
                    found_.sample_s * evaluated_samples(client);
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
      loads[rank] += found_.sample_s * evaluated_samples(client);
    }
  }
  return down_s() + busiest_s(cluster_, loads);
}

double RoundModel::round_s() const {
  return foresight_s() + down_s() + losses_s() + training_s() + gram_s() + up_s() +
         found_.server_s + small_operations_s();
}

// To and from each of the other ranks: the plan, the model, the sum and what the clients found;
// with losses, those and the plan once more; with foresight, another model and a number a client;
// with inner products, a part of every update, what the clients found, and coefficients.
double RoundModel::sent_bytes() const {
  const double k = participants_;
  const double plan = 8 + 40 * k;
  const double told = 8 * (4 * k + 5);
  double bytes = plan + 4 * down_values() + sum_bytes() * up_values() + told;
  if (needs_.losses) bytes += 8 * k + plan;
  if (foresees()) bytes += 8 + 4 * down_values() + 8 * number(trained_clients(parts_));
  if (needs_.gram) {
    bytes += told + 8 * k + 4 * k * number(parts_.model->n_params()) / number(cluster_.ranks);
  }
  return number(cluster_.ranks - 1) * bytes;
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
    for (const int64_t worker : workers_of(draw, costs)) {
      most = std::max(most, ++rows[static_cast<std::size_t>(worker)]);
    }
  }
  return most;
}

// The model, the row in training, the server's step, the sum; and of control variates the same.
double RoundModel::rows_bytes() const {
  const auto p = number(parts_.model->n_params());
  const auto controls = number(parts_.update->control_width());
  double floats = 3 * p + 2 * controls;
  if (parts_.update->tells_update()) floats += p;
  if (parts_.update->control_returns()) floats += controls;
  return 4 * floats + sum_bytes() * (p + controls);
}

// The updates that wait to be weighed, and pieces of all of them on their way.
double RoundModel::kept_bytes() const {
  if (!needs_.gram) return 0;
  const auto p = number(parts_.model->n_params());
  return 4 * p * (kept_rows() + 1) +
         number(parts_.sampler->per_round()) * number(GramExchange::kPiece) * (4 + 4 + 8);
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

void describe_job(const Job& job, const Components& parts, PlanSheet& sheet) {
  sheet.text("job", "job", job.run.name);
  sheet.count("parameters", "parameters", parts.model->layout().n_trainable());
  const std::string buffers = buffers_text(parts.model->layout());
  if (!buffers.empty()) sheet.line("buffers", buffers);
  sheet.line("clients, training samples",
             fmt::format("{}, {}", parts.federation.clients(), parts.federation.train_samples()));
  sheet.field("clients", parts.federation.clients());
  sheet.field("train_samples", parts.federation.train_samples());
}

void describe_memory(const Job& job, const Components& parts, const Cluster& cluster,
                     const Calibration& found, const RoundModel& model, const Footprint& footprint,
                     PlanSheet& sheet) {
  const auto data = number(parts.federation.bytes());
  const double rows = model.rows_bytes();
  const double work = found.work_bytes + found.state_bytes;
  const double states = std::min(model.states_bytes(), number(job.client.state_memory << 20));
  const double rank = footprint.start + rows + work + model.kept_bytes() + states;
  sheet.bytes("data_bytes", "data a host, shared", data);
  sheet.bytes("program_bytes", "program and libraries a rank", footprint.start);
  sheet.bytes("rows_bytes", "model rows a rank", rows);
  sheet.bytes("work_bytes", "batches, checkpoint a rank", work);
  if (model.kept_bytes() > 0) sheet.bytes("kept_bytes", "kept updates a rank", model.kept_bytes());
  if (states > 0) sheet.bytes("state_bytes", "client states a rank, at most", states);
  if (model.states_bytes() > states) {
    sheet.bytes("state_file_bytes", "and in a mapped file", model.states_bytes() - states);
  }
  sheet.bytes("rank_bytes", "memory a rank", rank);
  sheet.bytes("host_bytes", "memory a host, with data",
              number(cluster.ranks_a_host()) * rank + data);
  sheet.bytes("peak_bytes", "greatest of a rank, with data",
              std::max(footprint.load, rank + model.touched_share() * data));
}

void describe_round(const Job& job, const Components& parts, const Calibration& found,
                    const RoundModel& model, PlanSheet& sheet) {
  const int64_t clients = trained_clients(parts);
  double steps = 0;
  double work = 0;
  for (int64_t client = 0; client < clients; ++client) {
    steps += number(steps_of(parts, client));
    work += number(work_of(parts, client));
  }
  sheet.bytes("sent_bytes", "sent a round", model.sent_bytes());
  sheet.count("messages", "messages a round", std::llround(model.messages()));
  sheet.line("participants a round", fmt::format("{:g}", model.participants()));
  sheet.field("participants", model.participants());
  sheet.line("local steps a client, mean", fmt::format("{:.1f}", steps / number(clients)));
  sheet.field("steps", steps / number(clients));
  sheet.seconds("step_seconds", "a local step",
                found.client(work / number(clients)) / (steps / number(clients)));
  if (model.foresight_s() > 0) {
    sheet.seconds("foresight_seconds", "all clients before it", model.foresight_s());
  }
  if (model.losses_s() > 0)
    sheet.seconds("losses_seconds", "the losses before it", model.losses_s());
  sheet.seconds("train_seconds", "a round's training", model.training_s());
  if (model.gram_s() > 0) sheet.seconds("gram_seconds", "inner products", model.gram_s());
  sheet.seconds("down_seconds", "the model to the ranks", model.down_s());
  sheet.seconds("up_seconds", "the sum of the updates", model.up_s());
  sheet.seconds("small_seconds", "short messages", model.small_operations_s());
  sheet.seconds("server_seconds", "the server's step", found.server_s);
  sheet.seconds("round_seconds", "a round", model.round_s());
  sheet.seconds("evaluation_seconds", "an evaluation", model.evaluation_s());
  const int64_t every = job.evaluate.every;
  const int64_t evaluations = every > 0 ? (job.run.rounds + every - 1) / every : 1;
  const double run_s =
      number(job.run.rounds) * model.round_s() + number(evaluations) * model.evaluation_s();
  sheet.line("the run", fmt::format("{} ({} rounds, {} evaluations)", duration_text(run_s),
                                    job.run.rounds, evaluations));
  sheet.field("run_seconds", run_s);
}

}  // namespace

void plan_federated(const PlanOptions& options, const Job& job, Components& parts,
                    const Footprint& footprint, const Cluster& started, Cluster planned,
                    Communicator& comm, PlanSheet& sheet) {
  const Calibration found = calibrate(job, parts, started, planned, comm);
  if (comm.rank() != 0) return;
  const std::string source = set_links(options, found, started, planned);
  const RoundModel model(job, parts, planned, found);
  describe_job(job, parts, sheet);
  describe(planned, source, sheet);
  describe_memory(job, parts, planned, found, model, footprint, sheet);
  describe_round(job, parts, found, model, sheet);
}

}  // namespace hanse

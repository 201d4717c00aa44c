#include "plan/sample_privacy.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "assemble/assemble.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/rules/privacy/sample_rounds.hpp"
#include "json_text.hpp"
#include "plan/privacy_cells.hpp"

namespace hanse {

namespace {

using SampleJson = nlohmann::ordered_json;

struct SampleCase {
  int64_t rounds = 0, per_round = 0, client_rounds = 0;
  int64_t n_params = 0, clients = 0;
  double multiplier = 0, epsilon = 0;
  StepNoise noise;
  ClientSteps weakest;
  PrivacyCost cost;
  AccountantKind accountant = AccountantKind::kRdp;  // whose epsilon it is
};

SampleCase play_samples(Job job, const FederatedAssembly& parts, int64_t rounds,
                        int64_t per_round) {
  job.run.rounds = rounds;
  job.sampler.per_round = per_round;
  const int64_t n_params = parts.model->layout().n_trainable();
  const SampleTerms terms = sample_terms(job, parts.federation, n_params);
  SampleRounds played(job.privacy, terms);
  played.take_part_in(terms.rounds);
  const PrivacyCost cost = played.cost();
  return {.rounds = rounds,
          .per_round = std::min(per_round, parts.federation.clients()),
          .client_rounds = terms.rounds,
          .n_params = n_params,
          .clients = parts.federation.clients(),
          .multiplier = played.multiplier(),
          .epsilon = played.epsilon(),
          .noise = played.noise(),
          .weakest = played.weakest(),
          .cost = cost,
          .accountant = accountant_of(job, cost)};
}

// Divides the strongest signal, all expected gradients alike, by the noise, as for rounds.
double sample_signal(const SampleCase& one) {
  const double sum = one.noise.clip * static_cast<double>(one.weakest.batch);
  return sum / (one.noise.deviation() * std::sqrt(static_cast<double>(one.n_params)));
}

SampleJson sample_json(const SampleCase& one, double delta, bool is_one) {
  SampleJson object = SampleJson::object();
  if (!is_one) object = {{"rounds", one.rounds}, {"per_round", one.per_round}};
  object["epsilon"] = json_number(one.epsilon);
  object["accountant"] = name_of(one.accountant);
  object["delta"] = delta;
  object["noise_multiplier"] = one.multiplier;
  object["best_order"] = one.cost.rdp.order;
  object["epsilon_zcdp"] = json_number(one.cost.zcdp);
  object["epsilon_pld"] = json_number(one.cost.pld);
  object["sigma"] = one.noise.deviation();
  object["step_exponent"] = one.noise.lattice.exponent;
  object["sensitivity"] = one.noise.lattice.bound;
  object["client_rounds"] = one.client_rounds;
  object["samples"] = one.weakest.samples;
  object["rate"] = one.weakest.rate();
  object["steps"] = one.weakest.steps * one.client_rounds;
  return object;
}

std::string sample_line(const SampleCase& one) {
  return fmt::format(
      "{:>7} {:>9} {:>7} {:>10} {:>10} {:>10} {:>10.5g} {:>11.5g} {:>8} {:>8.4g} {:>8} {:>12.4g}\n",
      one.rounds, one.per_round, one.client_rounds, number_cell(one.cost.rdp.epsilon),
      number_cell(one.cost.zcdp), number_cell(one.cost.pld), one.multiplier, one.noise.deviation(),
      one.weakest.samples, one.weakest.rate(), one.weakest.steps * one.client_rounds,
      sample_signal(one));
}

std::string sample_head(const Job& job, const SampleCase& one) {
  const PrivacyOptions& o = job.privacy;
  std::string text = fmt::format(
      "{}: samples of {} clients, {} parameters; {} noise in each step of a client; neighbours by "
      "{}; clip {:g}, delta {:g}\n",
      job.run.name, one.clients, one.n_params, name_of(o.mechanism), name_of(o.adjacency), o.clip,
      o.delta);
  if (const std::string flaw = privacy_flaw(o); !flaw.empty()) {
    text += flaw + ": the numbers hold with privacy.seed = system and noise of integers\n";
  }
  text +=
      "epsilon is of a sample of the client that costs most, against those who see the models or "
      "the updates; its client, which draws the noise, is trusted\n";
  return text + fmt::format(
                    "{:>7} {:>9} {:>7} {:>10} {:>10} {:>10} {:>10} {:>11} {:>8} {:>8} {:>8} "
                    "{:>12}\n",
                    "rounds", "per-round", "client", "rdp", "zcdp", "pld", "noise z", "sigma",
                    "samples", "rate", "steps", "signal/noise");
}

std::string sample_statement(const Job& job, const SampleCase& one) {
  const PrivacyOptions& o = job.privacy;
  std::string text;
  if (const std::string flaw = privacy_flaw(o); !flaw.empty()) {
    text = fmt::format(
        "This run has no guarantee ({}). With privacy.seed = system and noise of integers the "
        "following would hold. ",
        flaw);
  }
  text += fmt::format(
      "Training satisfies ({:.4f}, {:g})-differential privacy for each sample of each of the {} "
      "clients; two data sets are neighbours where the gradients of one sample are replaced by "
      "zeros, so that numbers of samples are public. ",
      one.epsilon, o.delta, one.clients);
  text += fmt::format(
      "Clients train by DP-SGD: a step takes each sample of the client with probability batch / n, "
      "clips its gradient of {} parameters to the length {:g}, adds up the clipped gradients, "
      "rounds the sum to multiples of 2^{} and adds {} noise of standard deviation {:.5g} in each "
      "coordinate (z = {:.5g}). ",
      one.n_params, one.noise.clip, one.noise.lattice.exponent, name_of(o.mechanism),
      one.noise.deviation(), one.multiplier);
  if (o.seed.of_system) {
    text +=
        "The noise and the draws come from ChaCha20 with a key of the system's random numbers. ";
  }
  text += fmt::format(
      "A client is in at most {} of {} rounds. The largest epsilon is that of a client with {} "
      "samples: {} steps at rate {:.4g}, composed with amplification by sampling ({}). ",
      one.client_rounds, one.rounds, one.weakest.samples, one.weakest.steps * one.client_rounds,
      one.weakest.rate(), name_of(one.accountant));
  return text +
         "The guarantee covers the updates and the models of all rounds, and no evaluation or "
         "loss.\n";
}

}  // namespace

std::string sample_privacy_table(const Job& job, const PrivacyQuery& query) {
  const auto alone = make_single_communicator();
  FederatedAssembly parts(*alone);
  load_samples_and_model(job, *alone, parts);
  std::vector<SampleCase> cases;
  for (const AskedCase& line : asked_cases(job, query)) {
    cases.push_back(play_samples(line.job, parts, line.rounds, line.per_round));
  }
  std::string text = query.statement ? "" : sample_head(job, cases.front());
  SampleJson all = SampleJson::array();
  for (const SampleCase& one : cases) {
    text += query.statement ? sample_statement(job, one) : sample_line(one);
    all.push_back(sample_json(one, job.privacy.delta, cases.size() == 1));
  }
  if (!query.json || query.statement) return text;
  return json_dump(cases.size() == 1 ? all.front() : all, 2) + "\n";
}

}  // namespace hanse

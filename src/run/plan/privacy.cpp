#include "hanse/kinds/privacy.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "assemble/assemble.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/rules/privacy/private_rounds.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/run/privacy_table.hpp"
#include "json_text.hpp"
#include "plan/privacy_cells.hpp"
#include "plan/privacy_statement.hpp"
#include "plan/sample_privacy.hpp"

namespace hanse {

namespace {

using Json = nlohmann::ordered_json;

// Who trains what, and what of it is assumed; empty: nothing.
struct Population {
  int64_t clients = 1;
  int64_t n_params = 1;
  std::string assumed;
};

constexpr int64_t kAssumedParams = 1'000'000;

Population population_of(const Job& job) {
  try {
    const auto alone = make_single_communicator();
    FederatedAssembly parts(*alone);
    load_samples_and_model(job, *alone, parts);
    return {parts.federation.clients(), sent_params(job, parts.model->layout()), ""};
  } catch (const AgreedError& error) {
    const HeldOut& out = job.federation.held_out;
    const int64_t all = job.federation.clients;
    const double kept_out = out.number < 1 ? out.number * static_cast<double>(all) : out.number;
    const int64_t clients = std::max<int64_t>(1, all - std::llround(kept_out));
    return {clients, kAssumedParams,
            fmt::format("assumed: {} clients, by federation.clients, and {} parameters, for the "
                        "data cannot be read: {}",
                        clients, kAssumedParams, error.what())};
  }
}

double bits_of(const PrivateRound& round, double expected, double n_params) {
  constexpr double kDeviations = 4;
  const double step = std::ldexp(round.lattice.step(), -round.fraction_bits);
  const double sum = round.clip * expected;
  const double square =
      sum * sum / n_params + step * step / 4 * expected + round.deviation * round.deviation;
  return std::ceil(std::log2(2 * kDeviations * std::sqrt(square) / step));
}

// Rounds of `rounds` that a client is in: the most, or of a draw by chance the expected number.
int64_t client_rounds(const PrivacyTerms& terms, int64_t rounds) {
  const bool is_by_chance =
      terms.attendance == Attendance::kPoisson || terms.attendance == Attendance::kUniform;
  if (!is_by_chance) return terms.participations(rounds);
  return static_cast<int64_t>(std::ceil(terms.rate() * static_cast<double>(rounds) - 0x1p-20));
}

PrivacyCase play(Job job, const Population& population, int64_t rounds, int64_t per_round) {
  job.sampler.per_round = per_round;
  const PrivacyTerms terms = privacy_terms(job, population.clients, population.n_params);
  PrivateRounds played(job.privacy, terms, rounds);
  PrivacyCase found{
      .terms = terms, .rounds = rounds, .per_round = terms.per_round, .delta = job.privacy.delta};
  found.round = played.next();
  found.multiplier = played.multiplier();
  if (job.privacy.is_distributed()) {
    found.client_rounds = client_rounds(terms, rounds);
    found.of_server = played.epsilon_of_server(found.client_rounds);
  }
  played.finish_alike(rounds);
  found.cost = played.cost();
  found.accountant = accountant_of(job, found.cost);
  found.epsilon = found.cost.epsilon(found.accountant);
  const PrivateRound& round = found.round;
  found.sensitivity = static_cast<double>(terms.reach() * round.lattice.bound);
  if (job.privacy.correlation != Correlation::kNone) {
    found.sensitivity *= std::sqrt(played.correlated().sensitivity_squared(rounds));
  }
  const auto n = static_cast<double>(played.expected());
  const auto p = static_cast<double>(population.n_params);
  found.signal = round.clip * n / (round.deviation * std::sqrt(p));
  found.bits = bits_of(round, n, p);
  return found;
}

// The accountants whose number is a bound, be it infinite.
Json applied(const PrivacyCost& cost) {
  Json names = Json::array({"rdp"});
  if (cost.zcdp) names.push_back("zcdp");
  if (cost.pld) names.push_back("pld");
  return names;
}

Json json_of(const PrivacyCase& one, const PrivacyQuery& query, bool is_one) {
  Json object = Json::object();
  if (!is_one) object = {{"rounds", one.rounds}, {"per_round", one.per_round}};
  object["epsilon"] = json_number(one.epsilon);
  object["accountant"] = name_of(one.accountant);
  object["accountants"] = applied(one.cost);
  object["delta"] = one.delta;
  object["noise_multiplier"] = one.multiplier;
  object["best_order"] = one.cost.rdp.order;
  object["epsilon_zcdp"] = json_number(one.cost.zcdp);
  object["epsilon_pld"] = json_number(one.cost.pld);
  object["sigma"] = one.round.deviation;
  object["step_exponent"] = one.round.lattice.exponent;
  object["sensitivity"] = one.sensitivity;
  if (one.client_rounds > 0) {
    object["client_rounds"] = one.client_rounds;
    object["epsilon_server"] = json_number(one.of_server);
  }
  if (query.bits) object["bits"] = json_number(one.bits);
  return object;
}

std::string line_of(const PrivacyCase& one, const PrivacyQuery& query) {
  std::string line = fmt::format(
      "{:>7} {:>9} {:>10} {:>6} {:>10} {:>10} {:>10.5g} {:>11.5g} {:>6} "
      "{:>12.4g}",
      one.rounds, one.per_round, number_cell(one.cost.rdp.epsilon), one.cost.rdp.order,
      number_cell(one.cost.zcdp), number_cell(one.cost.pld), one.multiplier, one.round.deviation,
      fmt::format("2^{}", one.round.lattice.exponent), one.signal);
  if (one.client_rounds > 0)
    line += fmt::format(" {:>6} {:>10.4f}", one.client_rounds, one.of_server);
  if (query.bits) line += fmt::format(" {:>5}", one.bits);
  return line + "\n";
}

// Against whom the numbers hold, and what is assumed.
std::vector<std::string> statement_of(const PrivacyOptions& o, const Population& population) {
  std::vector<std::string> lines;
  if (!population.assumed.empty()) lines.push_back(population.assumed);
  if (const std::string flaw = privacy_flaw(o); !flaw.empty()) {
    const char* hint = o.seed.of_system ? "privacy.mechanism = discrete-gaussian or skellam"
                                        : "privacy.seed = system";
    lines.push_back(fmt::format("{}: the numbers hold with {}", flaw, hint));
  }
  if (!o.is_distributed()) {
    lines.push_back(
        "epsilon is against those who see the models; the server draws the noise and knows it: "
        "against it, privacy.kind = distributed counts the shares of those who come");
    return lines;
  }
  lines.push_back(
      "epsilon is against those who see the models, where the server fills up the shares of those "
      "who did not come; against the server, which knows these and the draw, only the shares of "
      "those who came count: server is the epsilon of a client in so many rounds, if all that are "
      "expected come");
  if (o.honest < 1) {
    lines.push_back(fmt::format(
        "both count only the shares of honest participants, {:g} of those that are expected",
        o.honest));
  }
  return lines;
}

std::string head_of(const Job& job, const Population& population, const PrivacyQuery& query) {
  const PrivacyOptions& o = job.privacy;
  std::string text = fmt::format(
      "{}: {} clients, {} parameters; {} noise, {}; neighbours by {}, sampler {}; clip {:g}, delta "
      "{:g}\n",
      job.run.name, population.clients, population.n_params, o.kind, name_of(o.mechanism),
      name_of(o.adjacency), job.sampler.kind, o.clip, o.delta);
  for (const std::string& line : statement_of(o, population)) text += line + "\n";
  if (o.clip_kind == ClipKind::kAdaptive) text += "sigma is that of the first clip\n";
  text += fmt::format("epsilon by rdp (at its best order), zcdp and pld; {} counts in the run\n",
                      o.accountant == AccountantKind::kAuto ? "the least" : name_of(o.accountant));
  text += fmt::format("{:>7} {:>9} {:>10} {:>6} {:>10} {:>10} {:>10} {:>11} {:>6} {:>12}", "rounds",
                      "per-round", "rdp", "order", "zcdp", "pld", "noise z", "sigma", "step",
                      "signal/noise");
  if (o.is_distributed()) text += fmt::format(" {:>6} {:>10}", "client", "server");
  if (query.bits) text += fmt::format(" {:>5}", "bits");
  return text + "\n";
}

}  // namespace

void bind_privacy_query(OptionTable& table, PrivacyQuery& query) {
  table.add("rounds", query.rounds, at_least(1), "rounds of the run, several separated by commas");
  table.add("per-round", query.per_round, at_least(1), "participants a round, the same");
  table.add("epsilon", query.epsilon, above(0), "epsilons that the noise shall meet, the same");
}

std::string privacy_table(const std::string& job_file, const Overrides& overrides,
                          const PrivacyQuery& query) {
  KeyedJob job(catalog());
  load_job(job_file, overrides, job);
  if (!query.epsilon.empty()) meet(job, query.epsilon.front());
  check_kinds(job);
  if (!job.privacy.is_on()) {
    throw InvalidArgument("the job's rounds are not private", "privacy.kind",
                          "--privacy.kind=central makes them so");
  }
  if (job.sampler.kind == "full" && !query.per_round.empty()) {
    throw InvalidArgument("all clients take part in every round", "--per-round",
                          "leave it out, or sampler.kind = poisson, uniform or cyclic");
  }
  if (job.privacy.of_samples()) return sample_privacy_table(job, query);
  const Population population = population_of(job);
  const auto asked = asked_cases(job, query);
  std::string lines, statements;
  Json cases = Json::array();
  for (const AskedCase& line : asked) {
    const PrivacyCase one = play(line.job, population, line.rounds, line.per_round);
    lines += line_of(one, query);
    if (query.statement) statements += privacy_statement(line.job, one);
    cases.push_back(json_of(one, query, asked.size() == 1));
  }
  if (query.statement) {
    if (!population.assumed.empty()) notice(population.assumed);
    return statements;
  }
  if (query.json) {
    for (const std::string& line : statement_of(job.privacy, population)) notice(line);
    return json_dump(asked.size() == 1 ? cases.front() : cases, 2) + "\n";
  }
  return head_of(job, population, query) + lines;
}

}  // namespace hanse

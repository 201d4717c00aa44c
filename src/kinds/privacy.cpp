#include "hanse/kinds/privacy.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/personal.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

namespace {

using Options = PrivacyOptions;
const auto key = keys_of<Job>("privacy", &Job::privacy);

constexpr const char* kSeedIsKnown = "not private: the seed is known";
constexpr const char* kMayChange[] = {"privacy.audit", "privacy.max-epsilon"};

const Keys<Job> kHonest =
    key("honest", &Options::honest, above_to(0, 1),
        "part of the expected participants whose shares alone make the noise, whatever the others "
        "know of theirs");

const Keys<Job> kUnit = key(
    "unit", &Options::unit,
    "whose contribution others can hardly tell: all of a client's samples, by noise on the sum of "
    "updates; or a sample of a client, by noise in each of the client's steps (DP-SGD)");

const Keys<Job> kPrivacy{
    kUnit,
    key("mechanism", &Options::mechanism,
        "law of the noise: integers, drawn without floating point; gaussian: float64, as others "
        "add it, for comparison: its low bits tell what it was added to"),
    key("clip", &Options::clip, above(0),
        "C, largest norm of an update, or of a sample's gradient, longer ones are shortened to it; "
        "adaptive: the first one"),
    key("clip-kind", &Options::clip_kind,
        "adaptive: the clip follows a quantile of the clients' norms (Andrew et al. 2021)"),
    key("quantile", &Options::quantile, between(0, 1),
        "adaptive: share of the clients whose norms shall lie within the clip"),
    key("clip-rate", &Options::clip_rate, above(0), "adaptive: how fast the clip follows"),
    key("count-noise", &Options::count_noise, or_auto(above(0)),
        "adaptive: deviation of the noise on the number within the clip; auto: a twentieth of the "
        "expected participants"),
    key("noise", &Options::noise, "auto",
        "z, deviation of the noise on the sum, or on that of each step, over the clip, as if "
        "nothing "
        "but the model were released; auto: the least that meets privacy.epsilon over run.rounds"),
    key("epsilon", &Options::epsilon, at_least(0), "noise = auto: the epsilon to meet"),
    key("delta", &Options::delta, Range{.low = 0, .high = 1, .low_open = true, .high_open = true},
        "the guarantee is (epsilon, delta)-differential privacy; well below 1 / clients"),
    key("adjacency", &Options::adjacency,
        "runs that must look alike: a client's contribution becomes 0 (zero-out), a client is "
        "there or not (add-remove), or is another one (replace)"),
    key("step", &Options::step,
        "step of the lattice of updates and noise, a power of two, as 2^-20; auto: the largest up "
        "to 2^-20 of the noise's deviation, of correlated noise 2^-16, for samples 2^-24"),
    key("seed", &Options::seed,
        "secret of the noise: auto: run.seed, or a number beside it: then it is known, and the run "
        "is "
        "not private. system: random numbers of the system, also for the draws that the guarantee "
        "counts on"),
    key("correlation", &Options::correlation,
        "noise over the rounds: none: each its own; tree, toeplitz and banded cancel most of it "
        "in the model, and need clients that take part rarely"),
    key("bands", &Options::bands, at_least(1), "banded: rounds whose noise hangs together"),
    key("separation", &Options::separation, or_auto(at_least(1)),
        "tree, toeplitz, banded: least rounds from one of a client's to its next; auto: the "
        "sampler's"),
    key("participations", &Options::participations, or_auto(at_least(1)),
        "tree, toeplitz, banded, and noise = auto for samples: most rounds of a client; auto: the "
        "sampler's"),
    key("accountant", &Options::accountant,
        "which epsilon is printed and counts: the least that holds, or Renyi, zero-concentrated, "
        "or "
        "by distributions of the privacy loss; summary.json has all that apply"),
    key("audit", &Options::audit,
        "also write what is not private: how much stronger the sum is than its noise"),
    key("max-epsilon", &Options::max_epsilon, at_least(0),
        "the run ends before the round that would exceed it; 0: no limit but privacy.epsilon"),
    Keys<Job>([](OptionTable& table, Job&) { table.let_change(kMayChange); })};

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& hint) {
  throw InvalidArgument(what, where, hint);
}

void check_target(const PrivacyOptions& o) {
  if (!o.noise && o.epsilon == 0) {
    refuse("noise = auto meets an epsilon, and none is given", "privacy.epsilon",
           "privacy.epsilon = 4, for example");
  }
  if (o.noise && o.epsilon > 0) {
    refuse(fmt::format("noise = {} meets no epsilon but its own", *o.noise), "privacy.epsilon",
           "privacy.noise = auto; or privacy.max-epsilon, at which the run ends");
  }
  const bool counts_rounds = o.participations > 0 && !(o.of_samples() && !o.noise);
  if (o.correlation == Correlation::kNone && (o.separation > 0 || counts_rounds)) {
    refuse("rounds with noise of their own do not ask when a client comes again",
           o.separation > 0 ? "privacy.separation" : "privacy.participations",
           "auto, or privacy.correlation");
  }
}

std::string seed_text(const PrivacyOptions& o, bool draws_are_secret) {
  if (!o.seed.of_system) {
    return fmt::format(
        "privacy.seed = {}: {}: who has it knows the noise and the draws; privacy.seed = system is "
        "for models that others see",
        o.seed.text(), kSeedIsKnown);
  }
  return fmt::format("privacy.seed = system: nobody knows the noise{}, and no other run has it",
                     draws_are_secret ? ", or who takes part" : "");
}

KindRow<Job> row(const std::string& name, const std::string& summary, const Keys<Job>& keys) {
  return {name, summary, keys, check_private_rounds};
}

}  // namespace

KindFamily privacy_family() {
  return {
      "privacy",
      "privacy.kind",
      "differential privacy, of clients or of their samples: who adds the noise",
      chosen_by<&Job::privacy, &PrivacyOptions::kind>,
      {{"none", "sums without noise", {}},
       row("central", "one draw of noise on each round's sum, or with unit = sample on each step's",
           kPrivacy),
       row("distributed", "each participant adds a share of the noise", {kPrivacy, kHonest})}};
}

void check_private_rounds(const Job& job) {
  check_target(job.privacy);
  privacy_terms(job, 1, 1);
}

PrivacyTerms privacy_terms(const Job& job, int64_t clients, int64_t n_params) {
  PrivacyTerms terms{.adjacency = job.privacy.adjacency,
                     .attendance = value_of<Attendance>(job.sampler.kind).value(),
                     .clients = clients,
                     .per_round = std::min(job.sampler.per_round, clients),
                     .mechanism = job.privacy.mechanism,
                     .n_params = n_params};
  terms.check();
  const bool all_come = terms.attendance == Attendance::kUniform && terms.per_round == clients;
  if (all_come) terms.attendance = Attendance::kFull;
  if (terms.attendance == Attendance::kFull) terms.per_round = clients;
  return terms;
}

SampleTerms sample_terms(const Job& job, const Federation& federation, int64_t n_params) {
  const int64_t clients = federation.clients();
  SampleTerms terms{.rounds = privacy_terms(job, clients, n_params).participations(job.run.rounds),
                    .n_params = n_params};
  if (job.privacy.participations > 0) {
    terms.rounds = std::min(terms.rounds, job.privacy.participations);
  }
  for (int64_t client = 0; client < clients; ++client) {
    const int64_t samples = federation.train(client).size();
    terms.clients.push_back({});
    if (samples == 0) continue;
    terms.clients.back() = {samples, expected_batch(job.client, samples),
                            local_steps(job.client, samples)};
  }
  return terms;
}

bool masks_sums(const Job& job) {
  const AskedMasks asked = job.comm.masks;
  return asked == AskedMasks::kTrue || (asked == AskedMasks::kAuto && job.privacy.of_clients());
}

bool has_secret_draws(const Job& job) {
  const auto attendance = value_of<Attendance>(job.sampler.kind);
  return job.privacy.has_secret() && job.privacy.of_clients() && attendance &&
         PrivacyTerms{.adjacency = job.privacy.adjacency, .attendance = *attendance}.is_amplified();
}

std::string privacy_flaw(const PrivacyOptions& options) {
  if (!options.seed.of_system) return kSeedIsKnown;
  if (options.noise == 0) return "not private: there is no noise";
  if (options.mechanism == Mechanism::kGaussian) {
    return "not private: the low bits of floating-point noise tell what it was added to";
  }
  return "";
}

std::vector<RowPart> kept_parts(const Job& job, const ParameterLayout& layout) {
  const auto patterns = split_list(job.client.personal);
  return patterns.empty() ? std::vector<RowPart>() : personal_parts(layout, patterns);
}

int64_t sent_params(const Job& job, const ParameterLayout& layout) {
  int64_t sent = layout.n_params();
  for (const RowPart& part : kept_parts(job, layout)) sent -= part.size();
  return sent;
}

double private_weight(const AggregatorOptions& options, int64_t samples) {
  if (options.weights != ClientWeights::kCapped) return 1;
  return capped_share(static_cast<double>(samples), options.cap);
}

double sum_of_private_weights(const AggregatorOptions& options, const Federation& federation) {
  double sum = 0;
  for (int64_t c = 0; c < federation.clients(); ++c) {
    sum += private_weight(options, federation.train(c).size());
  }
  return sum;
}

std::vector<std::string> privacy_notices(const Job& job, int64_t units) {
  const PrivacyOptions& o = job.privacy;
  if (!o.is_on()) return {};
  std::vector<std::string> lines;
  if (privacy_flaw(o).empty()) {
    lines.emplace_back(
        "privacy: the models of all rounds, and the columns clip, clipped_share, noise_sd and "
        "privacy_epsilon of rounds.csv, may be published, and nothing else: hanse publish copies "
        "them");
  }
  std::vector<std::string> choices;
  if (!job.run.target.empty()) choices.emplace_back("run.target");
  if (job.run.patience > 0) choices.emplace_back("run.patience");
  if (!job.evaluate.best.empty()) choices.emplace_back("evaluate.best");
  if (!choices.empty()) {
    lines.push_back(
        fmt::format("privacy: {} choose{} among the models by numbers without noise: the guarantee "
                    "does not cover the choice",
                    join(choices, ", "), choices.size() == 1 ? "s" : ""));
  }
  if (o.delta * static_cast<double>(units) > 1) {
    lines.push_back(
        fmt::format("privacy.delta = {:g} is above 1 / {} {}s: a run that publishes one {} at "
                    "random would meet "
                    "it",
                    o.delta, units, name_of(o.unit), name_of(o.unit)));
  }
  if (o.mechanism == Mechanism::kGaussian) {
    lines.emplace_back(
        "privacy.mechanism = gaussian is not private on a computer: the low bits of float64 noise "
        "tell what it was added to");
  }
  lines.push_back(seed_text(o, has_secret_draws(job)));
  return lines;
}

}  // namespace hanse

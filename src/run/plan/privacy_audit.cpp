#include "hanse/run/privacy_audit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/rules/privacy/audit.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/store/atomic_file.hpp"
#include "json_text.hpp"
#include "results/results.hpp"

namespace hanse {

namespace {

// The last parameter that clients send: in most models a bias.
int64_t direction_of(const Job& job, const ParameterLayout& layout) {
  int64_t last = layout.n_params() - 1;
  const auto parts = kept_parts(job, layout);
  for (auto part = parts.rbegin(); part != parts.rend() && part->end > last; ++part) {
    last = part->begin - 1;
  }
  return last;
}

struct AuditedRun {
  double score = 0;
  PrivacyReport claimed;
};

// Trains once, with the job's canary and noise of its own.
AuditedRun trained_once(Job job, int64_t run) {
  if (!job.privacy.has_secret()) job.privacy.seed.number = run + 1;
  const auto alone = make_single_communicator();
  const auto parts = assemble(job, *alone);
  Protocol& protocol = parts->protocol();
  protocol.initialize_model();
  const auto place = to_index(direction_of(job, parts->model->layout()));
  const double before = protocol.model_row()[place];
  while (protocol.completed_rounds() < job.run.rounds && protocol.end().empty()) {
    if (protocol.round(false).failed) std::rethrow_exception(protocol.failure());
  }
  protocol.collect();
  return {static_cast<double>(protocol.model_row()[place]) - before,
          privacy_report(job.privacy, protocol.columns().of_run()).value()};
}

// The client that is in the most rounds of the job's own draws, and in how many.
std::pair<int64_t, int64_t> most_drawn(Job job) {
  std::vector<int64_t> rounds;
  job.privacy.canary = Canary{.client = -1, .taken = &rounds};
  trained_once(job, 0);
  if (rounds.empty()) return {0, 0};
  const auto most = std::ranges::max_element(rounds);
  return {most - rounds.begin(), *most};
}

AuditScores scores_of(Job job, int64_t client, int64_t runs, PrivacyReport& claimed) {
  const double absent = job.privacy.adjacency == Adjacency::kReplace ? -1 : 0;
  AuditScores scores;
  for (int64_t run = 0; run < 2 * runs; ++run) {
    const bool is_with = run % 2 == 0;
    job.privacy.canary = Canary{.client = client, .sign = is_with ? 1 : absent};
    const AuditedRun found = trained_once(job, run);
    (is_with ? scores.with : scores.without).push_back(found.score);
    claimed = found.claimed;
  }
  return scores;
}

std::string text_of(const AuditBound& found, const PrivacyReport& claimed, const AuditQuery& query,
                    const std::string& whose) {
  const AuditEvent& event = found.event;
  std::string text = whose + "\n";
  text += fmt::format("claimed   epsilon {:.4f} by {}, delta {:g}{}\n", claimed.epsilon,
                      claimed.accountant, claimed.delta,
                      claimed.flaw.empty() ? "" : "; " + claimed.flaw);
  text += fmt::format(
      "measured  epsilon at least {:.4f}, with confidence {:g}: the model went {} than {:.5g} in "
      "{} "
      "of {} runs with the canary and in {} of {} without it\n",
      found.epsilon, query.confidence, event.is_above ? "further" : "no further", event.threshold,
      event.with, event.runs, event.without, event.runs);
  return text + (found.epsilon > claimed.epsilon ? "the claim does not hold\n"
                                                 : "the claim is not refuted\n");
}

// Each line has the claim, which a figure of the curve shows.
std::string csv_of(const AuditScores& scores, const PrivacyReport& claimed) {
  std::string text = "threshold,without,with,epsilon,delta\n";
  for (const TradeOff& point : trade_off(scores)) {
    text += fmt::format("{},{},{},{},{}\n", point.threshold, point.without, point.with,
                        claimed.epsilon, claimed.delta);
  }
  return text;
}

}  // namespace

void bind_audit(OptionTable& table, AuditQuery& query) {
  table.add("runs", query.runs, at_least(4), "runs with a canary, and as many without");
  table.add("confidence", query.confidence,
            Range{.low = 0, .high = 1, .low_open = true, .high_open = true},
            "probability that the measured epsilon is no larger than the true one");
  table.add("curve", query.curve, "file for the trade-off curve, CSV");
}

std::string privacy_audit(const std::string& job_file, const Overrides& overrides,
                          const AuditQuery& query) {
  KeyedJob job(catalog());
  load_job(job_file, overrides, job);
  check_kinds(job);
  if (!job.privacy.is_on()) {
    throw InvalidArgument("the job's rounds are not private", "privacy.kind",
                          "--privacy.kind=central makes them so");
  }
  Job plain = job;
  plain.run.trace = false;
  plain.run.timeline = false;
  int64_t client = 0;
  std::string whose = "the canary is client 0, which is drawn as all are";
  if (!plain.privacy.has_secret()) {
    const auto [most, rounds] = most_drawn(plain);
    client = most;
    whose = fmt::format("the draws are known: the canary is client {}, which is in {} of {} rounds",
                        most, rounds, plain.run.rounds);
  }
  PrivacyReport claimed;
  AuditScores scores = scores_of(plain, client, query.runs, claimed);
  const AuditBound found = audited_epsilon(scores, claimed.delta, query.confidence);
  if (!query.curve.empty()) write_file(query.curve, csv_of(scores, claimed));
  if (!query.json) return text_of(found, claimed, query, whose);
  nlohmann::ordered_json object{{"claimed", claimed.epsilon},
                                {"accountant", claimed.accountant},
                                {"delta", claimed.delta},
                                {"measured", found.epsilon},
                                {"confidence", query.confidence},
                                {"holds", found.epsilon <= claimed.epsilon},
                                {"client", client},
                                {"runs", found.event.runs},
                                {"with", found.event.with},
                                {"without", found.event.without}};
  return json_dump(object, 2) + "\n";
}

}  // namespace hanse

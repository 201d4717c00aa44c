#include <algorithm>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/protocol/checked_rules.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/execute.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostDepth = 32;

struct Family {
  const char* key;  // of the rule, that names its kind
  Json (*replay)(const Json& trace, const Job& job, bool checks);
  bool has_state = true;  // that its rules save
};

constexpr Family kFamilies[] = {
    {"attack.kind", replay_attack},         {"aggregator.kind", replay_aggregator},
    {"client.rate", replay_rate, false},    {"sampler.kind", replay_sampler},
    {"online.kind", replay_online},         {"bandit.kind", replay_bandit, false},
    {"server.optimizer", replay_optimizer}, {"async.kind", replay_async},
    {"clock.round", replay_rounds},         {kMechanismKey, replay_noise, false}};

// What a family reads itself: no option of a rule's table.
bool is_option(const std::string& key) { return key != kMechanismKey && key != "attack.byzantine"; }

const Family& family_of(const Json& rule, const KeyedJob& job) {
  const auto* found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& family) { return rule.contains(family.key); });
  if (found != std::end(kFamilies)) return *found;
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (!is_option(family.key)) continue;
    known.push_back(std::string(family.key) + ": " + join(job.table.at(family.key).choices, ", "));
  }
  throw InvalidArgument("no rule that can be replayed", "rule", "name a " + join(known, "; a "));
}

// The rule's options, set in a job as a job file would. "participation" is no option: a trace of an
// aggregator has no sampler to take it from; and "attack.byzantine" is the number of a trace's
// attackers.
void set_options(const Json& rule, KeyedJob& job) {
  for (const auto& [key, value] : rule.items()) {
    if (key == "participation" || !is_option(key)) continue;
    job.table.set(key, value.is_string() ? value.get<std::string>() : value.dump(), "rule." + key);
  }
  job.table.resolve();
}

// Refuses deep ones, which would not fit on the stack when they are printed.
void check_depth(const std::string& trace) {
  int64_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const char c = trace[i];
    if (c == '"') quoted = !quoted;
    if (c == '\\' && quoted) ++i;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMostDepth) {
      throw InvalidArgument(fmt::format("nested more than {} deep", kMostDepth), "trace");
    }
  }
}

Json parsed(const std::string& text) {
  check_depth(text);
  Json trace = Json::parse(text, nullptr, false);
  if (trace.is_discarded()) throw InvalidArgument("the trace is not JSON", "trace");
  return trace;
}

// A trace and its rule, which can be played several times.
class Trace {
 public:
  explicit Trace(const std::string& text) : trace_(parsed(text)), job_(catalog()) {
    const Json& rule = field(trace_, "rule", "trace");
    if (!rule.is_object()) throw InvalidArgument("expected an object of options", "rule");
    set_options(rule, job_);
    family_ = &family_of(rule, job_);
  }

  Json play(bool checks) const { return family_->replay(trace_, job_, checks); }
  bool has_state() const { return family_->has_state; }
  std::string rule() const {
    const std::string kind = is_option(family_->key)
                                 ? job_.table.at(family_->key).format()
                                 : trace_.at("rule").at(family_->key).get<std::string>();
    return fmt::format("{} = {}", family_->key, kind);
  }

 private:
  Json trace_;
  KeyedJob job_;
  const Family* family_;
};

}  // namespace

std::string replay(const std::string& trace) { return to_text(Trace(trace).play(false)) + "\n"; }

std::string check_replay(const std::string& text) {
  const Trace trace(text);
  const Json first = trace.play(false);
  if (const auto difference = first_difference(first, trace.play(true))) {
    throw Error(fmt::format("the rule is not pure: {} when it runs again", *difference),
                trace.rule(), kPurityHint);
  }
  return fmt::format("{} is pure: run twice{}, it has the same bits\n", trace.rule(),
                     trace.has_state() ? ", and once from its saved state in every round" : "");
}

}  // namespace hanse

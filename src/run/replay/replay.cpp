#include "hanse/run/replay.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "json.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostDepth = 32;

struct Family {
  const char* key;  // of the rule, that names its kind
  Json (*replay)(const Json& trace, const Job& job);
};

constexpr Family kFamilies[] = {{"aggregator.kind", replay_aggregator},
                                {"client.rate", replay_rate},
                                {"sampler.kind", replay_sampler},
                                {"online.kind", replay_online},
                                {"bandit.kind", replay_bandit}};

const Family& family_of(const Json& rule, const KeyedJob& job) {
  const auto* found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& family) { return rule.contains(family.key); });
  if (found != std::end(kFamilies)) return *found;
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    known.push_back(std::string(family.key) + ": " + join(job.table.at(family.key).choices, ", "));
  }
  throw InvalidArgument("no rule that can be replayed", "rule", "name a " + join(known, "; a "));
}

// The rule's options, set in a job as a job file would. "participation" is no option: a trace of an
// aggregator has no sampler to take it from.
void set_options(const Json& rule, KeyedJob& job) {
  for (const auto& [key, value] : rule.items()) {
    if (key == "participation") continue;
    job.table.set(key, value.is_string() ? value.get<std::string>() : value.dump(), "rule." + key);
  }
  job.table.resolve();
}

// Deep ones would not fit on the stack when they are printed.
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

}  // namespace

std::string replay(const std::string& trace) {
  check_depth(trace);
  const Json parsed = Json::parse(trace, nullptr, false);
  if (parsed.is_discarded()) throw InvalidArgument("the trace is not JSON", "trace");
  const Json& rule = field(parsed, "rule", "trace");
  if (!rule.is_object()) throw InvalidArgument("expected an object of options", "rule");
  KeyedJob job(catalog());
  set_options(rule, job);
  return to_text(family_of(rule, job).replay(parsed, job)) + "\n";
}

}  // namespace hanse

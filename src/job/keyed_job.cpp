#include "hanse/job/keyed_job.hpp"

#include <fmt/format.h>

#include "bind.hpp"

namespace hanse {

namespace {

struct Section {
  const char* name;
  void (*bind)(OptionTable& table, Job& job);  // null: all keys are those of kinds
};

// In the order of job.cfg.
constexpr Section kSections[] = {{"run", bind_run},
                                 {"data", bind_data},
                                 {"federation", bind_federation},
                                 {"model", bind_model},
                                 {"client", bind_client},
                                 {"sampler", bind_sampler},
                                 {"aggregator", nullptr},
                                 {"server", bind_server},
                                 {"comm", bind_comm},
                                 {"evaluate", bind_evaluate},
                                 {"checkpoint", bind_checkpoint},
                                 {"report", bind_report},
                                 {"bandit", bind_bandit},
                                 {"online", bind_online}};

}  // namespace

KeyedJob::KeyedJob(std::span<const KindFamily> families) {
  for (const Section& section : kSections) {
    for (const KindFamily& family : families) {
      if (family.section() != section.name) continue;
      table.add_choice(family.key, family.choice(*this), names_of(family.rows), family.help);
    }
    if (section.bind) section.bind(table, *this);
  }
  for (const KindFamily& family : families) {
    for (const KindRow& row : family.rows) {
      KindKeys keys(table, family.key, row.name);
      if (row.keys) row.keys(keys, *this);
    }
  }
}

std::string job_text(const KeyedJob& job) {
  std::string text = "# Every option of the run; `hanse run` accepts this file.\n";
  std::string section;
  for (const Option& option : job.table.options()) {
    if (option.section() != section) {
      section = option.section();
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("{} = {}\n", option.key.substr(section.size() + 1), option.format());
  }
  return text;
}

std::vector<std::string> names_of(const std::vector<KindRow>& rows) {
  std::vector<std::string> names;
  for (const KindRow& row : rows) names.push_back(row.name);
  return names;
}

InvalidArgument unknown_kind(const std::string& key, const std::string& name,
                             const std::vector<std::string>& known) {
  return InvalidArgument(
      fmt::format("unknown value '{}'", name), key,
      fmt::format("did you mean '{}'? known: {}", nearest(name, known), join(known, ", ")));
}

std::optional<double> given_bound(const std::string& text) {
  if (text == "auto" || text == "first-round" || text == "running") return std::nullopt;
  double value = 0;
  try {
    value = parse_number(text);
  } catch (const InvalidArgument&) {
  }
  if (value > 0) return value;
  throw InvalidArgument(fmt::format("unknown value '{}'", text), "sampler.a-max",
                        "known: auto, first-round, running, or a number above 0");
}

int64_t loss_batches(const std::string& text) {
  if (text == "full") return 0;
  const std::string open = "batches(";
  try {
    if (text.rfind(open, 0) == 0 && text.back() == ')') {
      const int64_t n = parse_integer(text.substr(open.size(), text.size() - open.size() - 1));
      if (n >= 1) return n;
    }
  } catch (const InvalidArgument&) {
  }
  throw InvalidArgument(fmt::format("unknown value '{}'", text), "aggregator.loss",
                        "known: full, batches(n) with n >= 1");
}

}  // namespace hanse

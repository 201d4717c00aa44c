#include "hanse/kinds/own_rules.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/protocol/checked_rules.hpp"

namespace hanse {

RuleSource own_rule(const std::string& section, const std::string& kind, const RuleFile& file) {
  return {.section = section, .file = file, .python = kind == "python"};
}

std::unique_ptr<ColumnFunction> own_columns_of(const Job& job, int64_t clients) {
  const AggregatorOptions& rule = job.aggregator;
  const auto make = [source = own_rule("aggregator", rule.kind, rule.own), clients] {
    return make_own_columns(source, clients);
  };
  return job.run.check_rules ? checked_columns("aggregator.kind = " + rule.kind, make) : make();
}

std::vector<std::pair<std::string, RuleFile*>> rule_files(Job& job, bool has_rules) {
  std::vector<std::pair<std::string, RuleFile*>> files;
  if (has_rules && is_own_rule(job.sampler.kind))
    files.emplace_back("sampler.path", &job.sampler.own);
  if (has_rules && is_own_rule(job.aggregator.kind))
    files.emplace_back("aggregator.path", &job.aggregator.own);
  if (has_rules && is_own_rule(job.attack.kind)) files.emplace_back("attack.path", &job.attack.own);
  if (has_rules && is_own_rule(job.server.optimizer))
    files.emplace_back("server.path", &job.server.own);
  if (!job.evaluate.metric.path.empty()) {
    files.emplace_back("evaluate.metric", &job.evaluate.metric);
  }
  return files;
}

namespace {

// "aggregator.path" -> "aggregator.digest"
std::string digest_key(const std::string& path_key) {
  if (path_key == "evaluate.metric") return "evaluate.metric-digest";
  return path_key.substr(0, path_key.find('.')) + ".digest";
}

}  // namespace

void digest_rule_files(Job& job, bool has_rules) {
  for (const auto& [key, file] : rule_files(job, has_rules)) {
    if (file->path.empty()) throw InvalidArgument("the rule has no file", key, "name one");
    std::string found;
    try {
      found = file_digest_hex(file->path, 0);
    } catch (const IoError&) {
      const bool is_there = std::filesystem::exists(file->path);
      throw InvalidArgument(
          is_there ? "cannot read the rule's file: " + file->path : missing_text(file->path), key,
          "--" + key + "=PATH says where it lies");
    }
    if (!file->digest.empty() && file->digest != found) {
      throw InvalidArgument(
          fmt::format("{} is not the file that the run has started with: its digest is {}, not {}",
                      file->path, found, file->digest),
          key, fmt::format("put it back, or start a new run without {}", digest_key(key)));
    }
    file->digest = found;
  }
}

}  // namespace hanse

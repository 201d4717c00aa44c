#include "trace.hpp"

#include <fstream>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/store/atomic_file.hpp"
#include "told_fields.hpp"

namespace hanse {

namespace {

// Fields stand in the order in which they are named.
using Fields = nlohmann::ordered_json;

// A trace is a header, a line a round, and this end, which every further line is written over.
const std::string kEnd = "\n]}\n";

// The options of one section, as texts, that its chosen kind uses.
Fields options_of(const KeyedJob& job, const std::string& section) {
  Fields options;
  for (const Option& option : job.table.options()) {
    if (option.section() != section || !job.table.is_used(option)) continue;
    if (option.key == "sampler.availability") continue;  // each round says who was there
    options[option.key] = option.format();
  }
  return options;
}

Fields sampler_header(const KeyedJob& job, const Federation& federation,
                      const ClientSampler& sampler) {
  Fields header{{"rule", options_of(job, "sampler")}, {"clients", sampler.clients()}};
  const SamplerTraits traits = sampler_traits(job.sampler);
  if (traits.own) header["seed"] = seed_of(job, job.sampler.seed);
  for (int64_t client = 0; client < sampler.clients(); ++client) {
    if (traits.by_shares) header["initial"].push_back(sampler.probability(client));
    if (!traits.by_samples) continue;
    header[traits.own ? "samples" : "initial"].push_back(federation.train(client).size());
  }
  return header;
}

Fields aggregator_header(const KeyedJob& job, const Federation& federation, double participation) {
  Fields rule = options_of(job, "aggregator");
  rule["client.lr"] = fmt::format("{:.17g}", job.client.lr);
  rule["sampler.kind"] = job.sampler.kind;
  rule["participation"] = participation;
  return {
      {"rule", rule}, {"clients", federation.clients()}, {"samples", federation.train_samples()}};
}

// Writes each draw once, and what its client reported.
Fields sampler_round(const RoundTrace& round) {
  std::vector<std::size_t> places;
  std::vector<int64_t> draws;
  for (std::size_t i = 0; i < round.draw.size(); ++i) {
    const auto count = static_cast<std::size_t>(round.draw.counts[i]);
    places.insert(places.end(), count, i);
    draws.insert(draws.end(), count, round.draw.clients[i]);
  }
  Fields line{{"draws", draws}, {"feedback", Fields::array()}, {"losses", Fields::array()}};
  add_told(at_places(round.feedback.report(), places).report(), 0, line);
  if (!round.candidates.empty()) {
    line["candidates"] = round.candidates;
    line["candidate_losses"] = round.candidate_losses;
  }
  if (!round.everyone_there) line["available"] = round.available;
  if (!round.a_of_all.empty()) line["foreseen"] = round.a_of_all;
  return line;
}

Fields aggregator_round(const RoundTrace& round) {
  Fields line{{"participants", round.draw.clients},
              {"sizes", Fields::array()},
              {"draw_weights", Fields::array()},
              {"norms", Fields::array()}};
  add_told(round.report.report(), round.draw.size() + round.further, line);
  return line;
}

std::vector<std::string> read_rounds(const std::string& path, int64_t completed) {
  std::vector<std::string> lines;
  if (completed == 0) return lines;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // the header
  while (static_cast<int64_t>(lines.size()) < completed && std::getline(file, line)) {
    if (!line.empty() && line.back() == ',') line.pop_back();
    lines.push_back(line);
  }
  if (static_cast<int64_t>(lines.size()) == completed) return lines;
  throw IoError(fmt::format("the trace has {} rounds, not {}", lines.size(), completed), path,
                "resume with the run directory as the run left it");
}

// Begins a trace, with the first `completed` rounds of the file in the folder `from`, if there are
// any. Returns what appends a round.
std::function<void(const Fields& round)> begin(const KeyedJob& job, const std::string& name,
                                               const Fields& header, const std::string& from,
                                               int64_t completed) {
  const auto lines = read_rounds(from + "/" + name, completed);
  const std::string path = job.run.out + "/" + name;
  std::string text = to_text(header);
  text.back() = ',';  // one more field
  text += " \"rounds\": [";
  write_file(path, text + (lines.empty() ? "" : "\n") + join(lines, ",\n") + kEnd);
  const auto file = std::make_shared<GrowingFile>(path, "r+e");
  return [file, is_first = lines.empty()](const Fields& round) mutable {
    file->append_over(kEnd.size(), (is_first ? "\n" : ",\n") + to_text(round) + kEnd);
    file->flush();
    is_first = false;
  };
}

}  // namespace

std::function<void()> trace_rounds(const KeyedJob& job, const FederatedAssembly& parts,
                                   const std::string& from, int64_t completed) {
  const auto sampler =
      begin(job, "trace-sampler.json", sampler_header(job, parts.federation, *parts.sampler), from,
            completed);
  const auto aggregator =
      begin(job, "trace-aggregator.json",
            aggregator_header(job, parts.federation, parts.participation), from, completed);
  return [&parts, sampler, aggregator] {
    const RoundTrace& round = parts.trainer->trace();
    sampler(sampler_round(round));
    aggregator(aggregator_round(round));
  };
}

}  // namespace hanse

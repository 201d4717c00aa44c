#include "trace.hpp"

#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/samplers.hpp"

namespace hanse {

namespace {

const std::string kEnd = "\n]}\n";

std::string list(const std::vector<double>& values) {
  return fmt::format("[{:.17g}]", fmt::join(values, ", "));
}

std::string list(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

// The options of one section, as texts, that its chosen kind uses.
std::string options_text(const KeyedJob& job, const std::string& section) {
  std::string text;
  for (const Option& option : job.table.options()) {
    if (option.section() != section || !job.table.is_used(option)) continue;
    if (option.key == "sampler.availability") continue;  // each round says who was there
    text += fmt::format("{}\"{}\": \"{}\"", text.empty() ? "" : ", ", option.key, option.format());
  }
  return text;
}

std::string sampler_header(const KeyedJob& job, const ClientSampler& sampler) {
  std::string shares;
  if (sampler_traits(job.sampler).by_shares) {
    std::vector<double> p;
    for (int64_t client = 0; client < sampler.clients(); ++client) {
      p.push_back(sampler.probability(client));
    }
    shares = "\"initial\": " + list(p) + ", ";
  }
  return fmt::format("{{\"rule\": {{{}}}, \"clients\": {}, {}\"rounds\": [",
                     options_text(job, "sampler"), sampler.clients(), shares);
}

std::string aggregator_header(const KeyedJob& job, const Federation& federation,
                              double participation) {
  return fmt::format(
      "{{\"rule\": {{{}, \"client.lr\": \"{:.17g}\", \"sampler.kind\": \"{}\", "
      "\"participation\": {:.17g}}}, \"clients\": {}, \"samples\": {}, \"rounds\": [",
      options_text(job, "aggregator"), job.client.lr, job.sampler.kind, participation,
      federation.clients(), federation.train_samples());
}

// Each draw once, and what its client reported.
std::string sampler_line(const RoundTrace& round) {
  std::vector<int64_t> draws;
  std::vector<double> feedback;
  std::vector<double> losses;
  for (std::size_t i = 0; i < round.draw.size(); ++i) {
    const auto times = static_cast<std::size_t>(round.draw.counts[i]);
    draws.insert(draws.end(), times, round.draw.clients[i]);
    feedback.insert(feedback.end(), times, round.a[i]);
    losses.insert(losses.end(), times, round.batch_losses[i]);
  }
  return fmt::format("{{\"draws\": {}, \"feedback\": {}, \"losses\": {}{}{}}}", list(draws),
                     list(feedback), list(losses),
                     round.everyone_there ? "" : ", \"available\": " + list(round.available),
                     round.a_of_all.empty() ? "" : ", \"foreseen\": " + list(round.a_of_all));
}

// [[K x K]], or a list of one such matrix a layer.
std::string matrices(const RoundTrace& round) {
  const std::size_t k = round.draw.size();
  std::vector<std::string> layers;
  for (std::size_t begin = 0; begin < round.gram.size(); begin += k * k) {
    std::vector<std::string> rows;
    for (std::size_t i = 0; i < k; ++i) {
      const auto row = round.gram.begin() + static_cast<std::ptrdiff_t>(begin + i * k);
      rows.push_back(list(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(k))));
    }
    layers.push_back(fmt::format("[{}]", join(rows, ", ")));
  }
  return layers.size() == 1 ? layers[0] : fmt::format("[{}]", join(layers, ", "));
}

std::string aggregator_line(const RoundTrace& round) {
  return fmt::format(
      "{{\"participants\": {}, \"sizes\": {}, \"draw_weights\": {}, \"norms\": {}{}{}{}}}",
      list(round.draw.clients), list(round.samples), list(round.draw.weights),
      list(round.squared_norms), round.losses.empty() ? "" : ", \"losses\": " + list(round.losses),
      round.rates.empty() ? "" : ", \"rates\": " + list(round.rates),
      round.gram.empty() ? "" : ", \"gram\": " + matrices(round));
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

// With the first `completed` rounds of the file in the folder `from`, if there are any.
TraceFile begin(const KeyedJob& job, const std::string& name, const std::string& header,
                const std::string& from, int64_t completed) {
  const auto lines = read_rounds(from + "/" + name, completed);
  const std::string path = job.run.out + "/" + name;
  write_file(path, header + (lines.empty() ? "" : "\n") + join(lines, ",\n") + kEnd);
  return {GrowingFile(path, "r+e"), lines.empty()};
}

void append(TraceFile& trace, const std::string& line) {
  trace.file.append_over(kEnd.size(), (trace.empty ? "\n" : ",\n") + line + kEnd);
  trace.file.flush();
  trace.empty = false;
}

}  // namespace

Traces::Traces(const KeyedJob& job, const FederatedAssembly& parts, const std::string& from,
               int64_t completed)
    : parts_(parts),
      sampler_(begin(job, kNames[0], sampler_header(job, *parts.sampler), from, completed)),
      aggregator_(begin(job, kNames[1],
                        aggregator_header(job, parts.federation, parts.participation), from,
                        completed)) {}

void Traces::append_round() {
  const RoundTrace& round = parts_.trainer->trace();
  append(sampler_, sampler_line(round));
  append(aggregator_, aggregator_line(round));
}

}  // namespace hanse

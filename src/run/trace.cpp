#include "trace.hpp"

#include <cstdio>
#include <fstream>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

namespace {

constexpr const char* kEnd = "\n]}\n";

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
                     round.foreseen.empty() ? "" : ", \"foreseen\": " + list(round.foreseen));
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

}  // namespace

// A header, a line a round, and an end that every further line is written over.
class Traces::File {
 public:
  // With the first `completed` rounds of the file `from`, if there are any.
  File(const std::string& path, const std::string& header, const std::string& from,
       int64_t completed)
      : path_(path) {
    const auto lines = read_rounds(from, completed);
    empty_ = lines.empty();
    TemporaryFile file(path + ".tmp");
    Descriptor(file.path(), O_WRONLY)
        .write_at(0, header + (empty_ ? "" : "\n") + join(lines, ",\n") + kEnd);
    file.publish(path);
    file_.reset(std::fopen(path.c_str(), "r+e"));
    if (!file_) throw IoError("cannot write: " + errno_text(), path);
  }

  void append(const std::string& line) {
    const std::string text = (empty_ ? "\n" : ",\n") + line + kEnd;
    empty_ = false;
    const auto end = static_cast<long>(std::char_traits<char>::length(kEnd));
    const bool written = std::fseek(file_.get(), -end, SEEK_END) == 0 &&
                         std::fputs(text.c_str(), file_.get()) >= 0 &&
                         std::fflush(file_.get()) == 0;
    if (!written) throw IoError("cannot write: " + errno_text(), path_, "is the disk full?");
  }

 private:
  static std::vector<std::string> read_rounds(const std::string& path, int64_t completed) {
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

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool empty_ = true;
};

Traces::Traces(const KeyedJob& job, const FederatedAssembly& parts, const std::string& from,
               int64_t completed)
    : parts_(parts) {
  const auto open = [&](const char* name, const std::string& header) {
    return std::make_unique<File>(job.run.out + "/" + name, header, from + "/" + name, completed);
  };
  sampler_ = open(kNames[0], sampler_header(job, *parts.sampler));
  aggregator_ = open(kNames[1], aggregator_header(job, parts.federation, parts.participation));
}

Traces::~Traces() = default;

void Traces::append_round() {
  const RoundTrace& round = parts_.trainer->trace();
  sampler_->append(sampler_line(round));
  aggregator_->append(aggregator_line(round));
}

}  // namespace hanse

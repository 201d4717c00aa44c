#include "hanse/run/summary.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/progress.hpp"
#include "hanse/comm/mpi_environment.hpp"
#include "hanse/config.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/model/torch_library.hpp"

namespace hanse {

std::vector<std::pair<std::string, std::string>> versions() {
  const auto of_torch = [](std::string (*TorchLibrary::*version)()) {
    return uses_torch() ? (torch_library().*version)() : "not used";
  };
  const auto of_cuda = [&](std::string (*TorchLibrary::*version)()) {
    return kHasCuda ? of_torch(version) : "not in this build";
  };
  return {{"hanse", kVersion},
          {"mpi", MpiEnvironment::library_version()},
          {"libtorch", of_torch(&TorchLibrary::version)},
          {"hdf5", kHdf5Version},
          {"cuda", of_cuda(&TorchLibrary::cuda_version)},
          {"nccl", of_cuda(&TorchLibrary::nccl_version)},
          {"kernels", kernel_family()}};
}

std::string summary_json(const Summary& summary) {
  nlohmann::ordered_json json{{"name", summary.name},
                              {"seed", summary.seed},
                              {"rounds", summary.rounds},
                              {"ranks", summary.ranks},
                              {"model_digest", digest_hex(std::as_bytes(summary.row))},
                              {"data_digest", summary.data_digest},
                              {"setup_seconds", summary.setup_seconds},
                              {"seconds", summary.seconds},
                              {"seconds_per_round_median", summary.seconds_per_round_median},
                              {"bytes_per_round", summary.bytes_per_round},
                              {"peak_memory_bytes", summary.peak_memory_bytes}};
  for (const auto& [key, on] :
       {std::pair{"split", summary.clients}, {"held_out_split", summary.held_out}}) {
    if (!on.split().empty()) json[key] = on.split();
  }
  for (const auto& [name, value] : summary.metrics) {
    if (std::isfinite(value)) json["metrics"][name] = value;
  }
  for (const auto& [name, version] : versions()) json["versions"][name] = version;
  return json.dump(2) + "\n";
}

namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;  // label, value

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

Lines bandit_lines(const Summary& summary) {
  Lines lines;
  for (const auto& [name, value] : summary.metrics) {
    if (name == "regret") lines.emplace_back("regret", fmt::format("{:.1f}", value));
    if (name == "regret_std") {
      lines.emplace_back("deviation over repeats", fmt::format("{:.1f}", value));
    }
    if (name == "syncs") lines.emplace_back("synchronizations", fmt::format("{:.1f}", value));
    if (name == "loss_mean") {
      lines.emplace_back("regret of a pull, mean", fmt::format("{:.4f}", value));
    }
  }
  return lines;
}

// Every number says on which samples it is measured.
Lines model_lines(const Summary& summary) {
  const std::string own = summary.clients.prefix(), other = summary.held_out.prefix();
  Lines lines;
  for (const auto& [name, value] : summary.metrics) {
    const auto add = [&, &name = name](const char* metric, const std::string& label,
                                       const std::string& text) {
      if (name == metric) lines.emplace_back(label, text);
    };
    add("accuracy_mean", own + "accuracy, mean of clients", percent(value));
    add("accuracy_worst10", own + "accuracy, worst 10 %", percent(value));
    add("accuracy_best10", own + "accuracy, best 10 %", percent(value));
    add("loss_mean", own + "loss, mean of clients", fmt::format("{:.4f}", value));
    add("held_out_accuracy_mean", other + "accuracy, held-out clients", percent(value));
    add("held_out_loss_mean", other + "loss, held-out clients", fmt::format("{:.4f}", value));
  }
  if (summary.clients.test > 0 && summary.clients.training > 0) {
    lines.emplace_back("evaluated on", fmt::format("test samples of {} clients, training samples "
                                                   "of {} that have no others",
                                                   summary.clients.test, summary.clients.training));
  }
  return lines;
}

}  // namespace

void print_summary(const Summary& summary, const std::string& run_directory) {
  const bool is_bandit =
      std::ranges::count(summary.metrics, "regret", &Metrics::value_type::first) > 0;
  Lines lines = is_bandit ? bandit_lines(summary) : model_lines(summary);
  lines.emplace_back("rounds", fmt::format("{} in {}, evaluations aside", summary.rounds,
                                           duration_text(summary.seconds)));
  lines.emplace_back("a round, median",
                     fmt::format("{:.3f} ms", 1e3 * summary.seconds_per_round_median));
  lines.emplace_back("model digest", digest_hex(std::as_bytes(summary.row)));
  lines.emplace_back("run directory", run_directory);
  std::size_t width = 28;
  for (const auto& [label, value] : lines) width = std::max(width, label.size());
  fmt::print("\n");
  for (const auto& [label, value] : lines) fmt::print("{:<{}} {}\n", label, width, value);
}

double peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace hanse

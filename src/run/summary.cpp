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
  for (const auto& [name, value] : summary.metrics) {
    if (std::isfinite(value)) json["metrics"][name] = value;
  }
  for (const auto& [name, version] : versions()) json["versions"][name] = version;
  return json.dump(2) + "\n";
}

void print_summary(const Summary& summary, const std::string& run_directory) {
  const auto line = [](const std::string& label, const std::string& value) {
    fmt::print("{:<28} {}\n", label, value);
  };
  const auto percent = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
  fmt::print("\n");
  const bool is_bandit = std::any_of(summary.metrics.begin(), summary.metrics.end(),
                                     [](const auto& metric) { return metric.first == "regret"; });
  const std::string loss = is_bandit ? "regret of a pull, mean" : "test loss, mean of clients";
  for (const auto& [name, value] : summary.metrics) {
    if (name == "accuracy_mean") line("accuracy, mean of clients", percent(value));
    if (name == "accuracy_worst10") line("accuracy, worst 10 %", percent(value));
    if (name == "accuracy_best10") line("accuracy, best 10 %", percent(value));
    if (name == "regret") line("regret", fmt::format("{:.1f}", value));
    if (name == "regret_std") line("deviation over repeats", fmt::format("{:.1f}", value));
    if (name == "syncs") line("synchronizations", fmt::format("{:.1f}", value));
    if (name == "loss_mean") line(loss, fmt::format("{:.4f}", value));
  }
  line("rounds",
       fmt::format("{} in {}, evaluations aside", summary.rounds, duration_text(summary.seconds)));
  line("a round, median", fmt::format("{:.3f} ms", 1e3 * summary.seconds_per_round_median));
  line("model digest", digest_hex(std::as_bytes(summary.row)));
  line("run directory", run_directory);
}

double peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace hanse

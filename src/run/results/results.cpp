#include "results.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "hanse/base/choice.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/evaluation/attack_success.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/model/peft.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/rules/attack/options.hpp"
#include "hanse/store/atomic_file.hpp"
#include "hanse/store/model_file.hpp"
#include "hanse/store/run_directory.hpp"
#include "hanse/store/weights.hpp"

namespace hanse {

namespace {

// Clients up to which decisions.csv is written: beyond, nobody would look at the columns.
constexpr int64_t kMostDecisions = 100;

void add_own_metrics(const Metrics& own, Metrics& metrics) {
  for (const auto& metric : own) {
    for (const auto& [name, value] : metrics) {
      if (name != metric.first) continue;
      throw InvalidArgument("the metric has the name of a column that is there: " + name,
                            "evaluate.metric", "choose another name");
    }
    metrics.push_back(metric);
  }
}

// The features for the model's file. That of a private run has none: it may be published, and
// means, levels and fillings are the clients' own.
std::string features_of(const Job& job, const Assembly& parts) {
  constexpr std::size_t kMostLines = kLongestFeatures / 10;
  const auto& record = parts.federation.names().features;
  if (job.privacy.is_on() || !record) return "";
  const bool fits = record->values.size() * record->preparations.size() <= kMostLines;
  return fits ? features_text(*record) : "";
}

void write_named(const std::string& path, const ParameterLayout& layout, std::span<const float> row,
                 const std::string& features, float adapter_scale = 1) {
  if (path.ends_with(".pt")) return write_file(path, torch_library().state_dict(layout, row));
  if (path.ends_with(".safetensors")) return write_file(path, safetensors(layout, row));
  write_model(path, layout, row, features, adapter_scale);
}

void write_row(const Job& job, Assembly& parts, const std::string& path,
               std::span<const float> row) {
  const std::string features = features_of(job, parts);
  if (parts.part == nullptr) {
    return write_named(path, parts.protocol().model_layout(), row, features);
  }
  const NamedRow whole = parts.part->whole(row, job.run.merge_adapters);
  write_named(path, whole.layout, whole.row, features, whole.scale);
}

// Writes the adapters for Python's PEFT into a folder of the run, if the job asks for them.
void write_adapters(const Job& job, Assembly& parts, const RunDirectory& directory,
                    const char* folder) {
  if (job.run.adapters != AdapterFormat::kPeft || parts.part == nullptr) return;
  const PartModel& part = *parts.part;
  const bool by_root = job.client.lora_scale == LoraScale::kRoot;
  const auto rank = static_cast<double>(part.adapters().rank());
  const PeftConfig config{
      .rank = part.adapters().rank(),
      .alpha = static_cast<double>(part.adapters().scale()) * (by_root ? std::sqrt(rank) : rank),
      .root = by_root};
  const PeftText text =
      write_peft(part.adapters().of_row(parts.protocol().model_row(), part.network().layout()),
                 config, job.client.lora_dropout, part.network().layout());
  const std::string path = directory.file(folder);
  std::filesystem::create_directories(path);
  write_file(path + "/adapter_model.safetensors", text.tensors);
  write_file(path + "/adapter_config.json", text.config);
}

// Writes the scores of samples, if there are any.
void write_samples(Assembly& parts, const char* file, RunDirectory& directory) {
  const SampleTable& samples = parts.protocol().samples();
  if (!samples.empty()) directory.write_scores(file, samples, parts.federation);
}

}  // namespace

void LastEvaluation::set_samples(const Federation& federation, EvaluateOn on) {
  clients_on = clients_evaluated_on(federation, on);
  held_out_on = held_out_evaluated_on(federation, on);
  if (on == EvaluateOn::kBoth) {
    validation_on = clients_evaluated_on(federation, EvaluateOn::kValidation);
  }
}

void LastEvaluation::open_history(const std::string& path, int64_t done,
                                  const Federation& federation, const AskedMetrics& asked) {
  history.emplace(path, done, federation.clients() + federation.held_out(), federation.classes(),
                  asked);
}

void LastEvaluation::find_attack_success(const Job& job, Assembly& parts, Communicator& comm) {
  const Federation& federation = parts.federation;
  attack_success = hanse::attack_success(poison_of(job, federation.clients()), federation,
                                         *parts.model, parts.protocol().model_row(), comm);
}

ProgressStatus LastEvaluation::progress(int64_t completed, int64_t rounds, double loss) const {
  ProgressStatus status{
      .round = completed,
      .rounds = rounds,
      .loss = loss,
      .evaluated = round,
      .samples = clients_on.apart == 0 && clients_on.training > 0 ? "training " : ""};
  for (const auto& [name, value] : metrics) {
    if (name == "accuracy_mean") status.accuracy = value;
  }
  for (const auto& [name, value] : metrics) {
    if (name != "common_accuracy") continue;
    status.accuracy = value;
    status.samples = "common ";
  }
  return status;
}

void LastEvaluation::take(EvaluationTable found, const Job& job, const Federation& federation,
                          Protocol& protocol, RunDirectory& directory) {
  clients = std::move(found);
  metrics = summarize_all(clients, train_losses, federation, asked_of(job));
  if (attack_success) metrics.emplace_back("attack_success", *attack_success);
  const auto trained = trained_clients(clients, federation);
  for (auto& metric : protocol.metrics()) metrics.push_back(std::move(metric));
  if (own_metric) add_own_metrics(own_metric(trained, federation.names().clients), metrics);
  train_losses.assign(
      to_index(std::max(federation.clients(), static_cast<int64_t>(trained.size()))), std::nan(""));
  for (std::size_t i = 0; i < trained.size(); ++i) {
    train_losses[to_index(clients.client(i))] = clients.train_loss()[i];
  }
  const int64_t completed = protocol.completed_rounds();
  if (completed <= directory.last_evaluation()) return;
  std::vector<std::pair<std::string, std::string>> splits;
  for (const auto& [column, on] : {std::pair{"split", clients_on},
                                   {"held_out_split", held_out_on},
                                   {"validation_split", validation_on}}) {
    if (!on.split().empty()) splits.emplace_back(column, on.split());
  }
  directory.append_evaluation(completed, metrics, splits);
  if (history) history->append(completed, clients);
  if (federation.clients() > kMostDecisions) return;
  const auto decision = protocol.decision();
  if (!decision.empty()) directory.append_decision(completed, decision);
}

ResultDigest digest_of(Assembly& parts) {
  const Protocol& protocol = parts.protocol();
  if (!protocol.has_model()) return {"results", protocol.results_digest()};
  if (parts.part == nullptr || !parts.part->adapters().moves_base()) {
    return {"model", digest_hex(std::as_bytes(protocol.model_row()))};
  }
  std::vector<float> all = parts.part->adapters().base();
  const auto row = protocol.model_row();
  all.insert(all.begin(), row.begin(), row.end());
  return {"model", digest_hex(std::as_bytes(std::span<const float>(all)))};
}

std::optional<PrivacyReport> privacy_report(const PrivacyOptions& options, const Metrics& metrics) {
  if (!options.is_on()) return std::nullopt;
  PrivacyReport report{.epsilon = INFINITY,
                       .delta = options.delta,
                       .accountant = name_of(options.accountant),
                       .flaw = privacy_flaw(options)};
  const bool takes_least = options.accountant == AccountantKind::kAuto;
  for (const AccountantKind kind :
       {AccountantKind::kRdp, AccountantKind::kZcdp, AccountantKind::kPld}) {
    for (const auto& [name, value] : metrics) {
      if (name != "privacy_epsilon_" + name_of(kind) || std::isnan(value)) continue;
      report.applied.push_back(name_of(kind));
      if (kind != options.accountant && !(takes_least && value < report.epsilon)) continue;
      report.epsilon = value;
      report.accountant = name_of(kind);
    }
  }
  return report;
}

void add_costs(const Job& job, const Assembly& parts, const RunDirectory& directory,
               double virtual_s, Metrics& metrics) {
  const Federation& federation = parts.federation;
  if (job.clock.is_on()) metrics.emplace_back("virtual_seconds", virtual_s);
  if (const auto privacy = privacy_report(job.privacy, metrics)) {
    metrics.emplace_back("privacy_epsilon", privacy->epsilon);
  }
  if (job.attack.is_on()) {
    const auto seed = static_cast<uint64_t>(job.run.seed);
    const auto attackers = attacking_clients(job.attack, federation.clients(), seed);
    metrics.emplace_back("attackers", static_cast<double>(attackers.size()));
  }
  if (const auto bytes = directory.update_bytes()) {
    metrics.emplace_back("update_bytes", *bytes);
    metrics.emplace_back("update_bytes_per_client",
                         *bytes / static_cast<double>(federation.clients()));
  }
}

void write_present_model(const Job& job, Assembly& parts, const std::string& path) {
  write_row(job, parts, path, parts.protocol().model_row());
}

void write_best(const Job& job, Assembly& parts, RunDirectory& directory) {
  write_present_model(job, parts, directory.file("best.h5"));
  write_adapters(job, parts, directory, "best-adapters");
  write_samples(parts, RunDirectory::kBestScores, directory);
}

void write_start(const Assembly& parts, RunDirectory& directory) {
  directory.write_partition(parts.federation);
  if (parts.model) directory.write_features(parts.federation.names());
}

void write_results(const Job& job, Assembly& parts, const LastEvaluation& last,
                   RunDirectory& directory) {
  for (const auto& [name, text] : parts.result_files()) write_file(directory.file(name), text);
  if (!parts.protocol().has_model()) return;
  directory.write_clients(last.clients, parts.federation, asked_of(job),
                          parts.protocol().columns());
  if (const std::string& table = parts.protocol().confusion(); !table.empty()) {
    write_file(directory.file("confusion.csv"), table);
  }
  write_samples(parts, RunDirectory::kScores, directory);
  const std::string& folder = job.run.out;
  write_present_model(job, parts, folder + "/model.h5");
  write_adapters(job, parts, directory, "adapters");
  if (job.run.state_dict == "true") write_present_model(job, parts, folder + "/state_dict.pt");
  if (job.run.state_dict == "safetensors") {
    write_present_model(job, parts, folder + "/model.safetensors");
  }
  const auto averaged = parts.protocol().averaged_row();
  if (!averaged.empty()) write_row(job, parts, folder + "/averaged.h5", averaged);
}

}  // namespace hanse

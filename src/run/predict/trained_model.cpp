#include "predict/trained_model.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "assemble/assemble.hpp"
#include "assemble/bounds.hpp"
#include "assemble/protocols.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/clustered_model.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/store/checkpoint.hpp"
#include "hanse/store/weights.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

// The tensors of a file, by their names.
class Tensors {
 public:
  explicit Tensors(const std::string& path) : path_(path), file_(read_weights(path)) {
    for (const NamedTensor& tensor : file_.tensors) by_name_.emplace(tensor.name, &tensor);
    for (const auto& [also, name] : file_.same) {
      if (const NamedTensor* tensor = find(name)) by_name_.emplace(also, tensor);
    }
  }

  void write(const ParameterSlot& slot, float* out) const {
    const NamedTensor* tensor = find(slot.name);
    for (const std::string& also : slot.also) tensor = tensor ? tensor : find(also);
    if (!tensor) refuse(fmt::format("the file has no {}", slot.name));
    if (tensor->shape != slot.shape) {
      refuse(fmt::format("{} has the shape {} in the file, {} in the model", slot.name,
                         tensor->shape, slot.shape));
    }
    std::ranges::copy(tensor->values, out);
    add_adapter(slot, out);
  }

 private:
  const NamedTensor* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument(what, path_, "the file is of another model than the run's job.cfg");
  }

  // W <- W + s B A, with A [rank, in] and B [out, rank].
  void add_adapter(const ParameterSlot& slot, float* out) const {
    const NamedTensor *a = find(slot.name + ".lora_A"), *b = find(slot.name + ".lora_B");
    if (!a || !b) return;
    const double scale = file_.adapter_scale.value_or(1);
    const int64_t rank = a->shape.front(), in = a->shape.back(), rows = b->shape.front();
    if (b->shape.back() != rank || rows * in != slot.size)
      refuse(slot.name + " has no such adapter");
    for (int64_t o = 0; o < rows; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < rank; ++r) {
          sum += static_cast<double>(b->values[to_index(o * rank + r)]) *
                 static_cast<double>(a->values[to_index(r * in + i)]);
        }
        out[o * in + i] = static_cast<float>(static_cast<double>(out[o * in + i]) + scale * sum);
      }
    }
  }

  std::string path_;
  WeightFile file_;
  std::map<std::string, const NamedTensor*> by_name_;
};

// The job as its clients trained.
Job as_trained(const Job& job) {
  const ProtocolKind& protocol = protocol_kind(job);
  return protocol.bound ? bound_options(job, *protocol.bound) : job;
}

// The newest checkpoint, which is to be of the round of the model.
std::string last_checkpoint(const std::string& run) {
  const auto found =
      newest_checkpoint(run + "/checkpoints", [](const std::string&, const std::string&) {});
  const auto summary = nlohmann::json::parse(std::ifstream(run + "/summary.json"), nullptr, false);
  const int64_t rounds = summary.is_object() ? summary.value("rounds", int64_t{-1}) : -1;
  if (found && found->round == rounds) return found->file;
  throw InvalidArgument(
      "the clients' own tensors are those of the run's last checkpoint, and there is none of its "
      "last round",
      run + "/checkpoints", fmt::format("`hanse resume {}` ends the run", shell_word(run)));
}

}  // namespace

std::string chosen_file(const std::string& run, const std::string& choice) {
  const auto in_run = [&](const std::string& name) { return run + "/" + name + ".h5"; };
  if (choice == "auto") {
    for (const char* name : {"best", "model"}) {
      if (fs::exists(in_run(name))) return in_run(name);
    }
    throw InvalidArgument("the run has no model.h5", run,
                          "it writes one at its end; repeats have theirs in RUN/repeats/0, ...");
  }
  for (const std::string& file : {in_run(choice), choice}) {
    if (fs::is_regular_file(file)) return file;
  }
  throw InvalidArgument(fmt::format("there is no {} and no file {}", in_run(choice), choice),
                        "--model", "best, model or averaged, or a model's file");
}

TrainedModel read_trained(const Job& job, const FeatureRecord& record, const std::string& file) {
  Job plain = job;
  plain.run.state_dict = "false";
  plain.client.objective.clear();
  load_libraries(plain);
  set_model_threads(std::max<int64_t>(job.run.threads, 1));
  TrainedModel trained{make_model(job.model, record.shape, record.labels), {}};
  if (has_clusters(job)) {
    trained.model = std::make_unique<ClusteredModel>(
        std::move(trained.model), split_list(job.client.clustered), job.client.models, 0);
  }
  const ParameterLayout& layout = trained.model->layout();
  trained.row.resize(to_index(layout.n_params()));
  const Tensors tensors(file);
  for (const ParameterSlot& slot : layout.slots()) {
    tensors.write(slot, trained.row.data() + slot.offset);
  }
  return trained;
}

void take_copy(int64_t cluster, TrainedModel& trained) {
  if (cluster == 0) return;
  const auto* const clustered = dynamic_cast<const ClusteredModel*>(trained.model.get());
  const int64_t copies = clustered != nullptr ? clustered->places().copies() : 1;
  if (cluster >= copies) {
    throw InvalidArgument(fmt::format("there is no cluster {}", cluster), "--cluster",
                          copies == 1 ? "the run has one model for all clusters"
                                      : fmt::format("the run has those from 0 to {}", copies - 1));
  }
  std::vector<float> plain(to_index(clustered->places().plain_size()));
  clustered->places().take(trained.row, cluster, plain);
  clustered->places().put(plain, 0, trained.row);
}

bool keeps_own_tensors(const Job& job) {
  const Job trained = as_trained(job);
  return has_clusters(job) || trained.client.alone || !trained.client.personal.empty() ||
         update_traits(trained.client).own_models;
}

void take_own_tensors(const Job& job, const std::string& run, const std::string& client,
                      TrainedModel& trained) {
  const Job job_of_clients = as_trained(job);
  if (job.client.lora.is_any() || !job.client.train.empty()) {
    throw InvalidArgument("clients that train a part of the model keep parts of that part",
                          "--client", "leave it out: the shared model predicts");
  }
  const int64_t number = number_of_client(run, client);
  std::vector<float> state = read_checkpoint_client(last_checkpoint(run), number);
  if (state.empty()) {
    throw InvalidArgument("the client has no tensors of its own: it never took part", client,
                          "leave --client out: the shared model predicts");
  }
  const Federation nobody;
  const auto update = make_update(job_of_clients, nobody, *trained.model, {});
  state.resize(std::max(state.size(), to_index(update->state_width())));
  update->own_model({.client = number, .row = trained.row, .state = state});
}

int64_t number_of_client(const std::string& run, const std::string& client) {
  std::ifstream table(run + "/clients.csv");
  std::string line;
  std::getline(table, line);
  std::vector<std::string> known;
  for (int64_t number = 0; std::getline(table, line); ++number) {
    const std::string rest = line.substr(std::min(line.find(','), line.size() - 1) + 1);
    const bool is_named = !rest.starts_with(",");
    const std::string called = is_named ? csv_field(client) : "";
    const bool is_it =
        rest.starts_with(called + ",") && (is_named || line.starts_with(client + ","));
    if (is_it) return parse_integer(line.substr(0, line.find(',')));
    known.push_back(is_named ? rest.substr(0, rest.find(',')) : std::to_string(number));
  }
  throw InvalidArgument(fmt::format("no client is called '{}'", printable(client)), "--client",
                        known.empty() ? "the run has no clients.csv" : suggestion(client, known));
}

}  // namespace hanse

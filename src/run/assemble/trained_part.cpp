#include "trained_part.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/kinds/clusters.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/clustered_model.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/run/summary.hpp"
#include "hanse/store/weights.hpp"
#include "peft_start.hpp"
#include "protocols.hpp"
#include "results/facts.hpp"
#include "warm_start.hpp"

namespace hanse {

namespace {

constexpr const char* kMoving = "*.lora_B";  // of client.lora-kind = ffa and fedsa

// Where *.lora_B is PEFT's B: "*.lora_A" where all adapters are of matrices that are stored the
// other way round, names where some are.
std::string peft_factors(const ParameterLayout& whole, const TrainedPart& part) {
  std::vector<ParameterSlot> matrices;
  for (const ParameterSlot& slot : whole.slots()) {
    const bool has_room =
        slot.shape.size() == 2 && part.rank <= slot.shape[0] && part.rank <= slot.shape[1];
    if (slot.trainable && has_room) matrices.push_back(slot);
  }
  std::vector<std::string> names;
  std::size_t turned = 0;
  for (const ParameterSlot& slot : matching(matrices, part.layers, "client.lora-layers")) {
    const bool is_turned = slot.use_as(slot.name) != MatrixUse::kDense;
    turned += is_turned ? 1 : 0;
    names.push_back(slot.name + (is_turned ? ".lora_A" : ".lora_B"));
  }
  if (turned == 0) return kMoving;
  return turned == names.size() ? "*.lora_A" : join(names, ",");
}

// What the job says of adapters; with those of a folder what that says.
PartOptions part_options(const Job& job, const ParameterLayout& layout) {
  if (!PeftStart::is_one(job.model)) return job.client;
  return PeftStart(job.model, layout).options_of(job.client);
}

TrainedPart part_of(const Job& job, const ParameterLayout& layout) {
  const PartOptions options = part_options(job, layout);
  const int64_t rank = options.lora.value;
  TrainedPart part{.train = {},
                   .rank = rank,
                   .layers = split_list(options.lora_layers),
                   .scale = rank > 0 ? static_cast<float>(adapter_scale(options, rank)) : 1,
                   .dropout = options.lora_dropout,
                   .path = options.lora_path,
                   .narrow = job.model.base_precision == BasePrecision::kBfloat16,
                   .moves_base = options.lora_kind == LoraKind::kFlora};
  const bool is_ffa = options.lora_kind == LoraKind::kFfa;
  for (const std::string& pattern : row_patterns(job)) {
    if (!is_ffa || pattern != kMoving) {
      part.train.push_back(pattern);
      continue;
    }
    for (const std::string& one : split_list(peft_factors(layout, part))) part.train.push_back(one);
  }
  return part;
}

// Both are in one list of names then.
void check_tuned(const Job& job, const ParameterLayout& layout) {
  matching(layout.slots(), split_list(job.client.train), "client.train");
  matching(layout.slots(), split_list(job.evaluate.tune), "evaluate.tune");
}

// A file of one model starts every copy, one of a run with as many copies each its own.
void start_copies(const Job& job, Assembly& assembly) {
  ClusteredModel& model = *assembly.clustered;
  const bool is_wide = has_tensor(job.model.start, copy_prefix(1));
  WarmStart start = warm_start(job.model, is_wide ? model.layout() : model.plain().layout());
  std::ranges::move(start.notes, std::back_inserter(assembly.greeting));
  (is_wide ? model : model.plain()).start_from(std::move(start.parts));
}

WarmStart started(const Job& job, const Assembly& assembly) {
  const PartModel* part = assembly.part;
  if (PeftStart::is_one(job.model)) {
    const PeftStart folder(job.model, part->network().layout());
    return folder.start(job.model, part->all_tensors());
  }
  return warm_start(job.model, part != nullptr ? part->all_tensors() : assembly.model->layout(),
                    part != nullptr ? part->adapters().scale() : 1);
}

// How the frozen tensors lie in memory, where bfloat16 was asked for.
std::string narrow_text(const Job& job, const PartModel& part) {
  if (job.model.base_precision == BasePrecision::kFloat32) return "";
  if (memory_of(part).is_narrow) return " in bfloat16";
  return fmt::format(" in float32, rounded to bfloat16 ({} reads its row in one piece),",
                     job.model.kind);
}

std::vector<std::string> start_files(const ModelOptions& options) {
  return PeftStart::is_one(options) ? peft_files(options.start) : weight_files(options.start);
}

}  // namespace

void take_part(const Job& job, Assembly& assembly) {
  if (!protocol_kind(job).reading.reads("client.train")) return;
  if (tunes_beyond_training(job)) check_tuned(job, assembly.model->layout());
  const TrainedPart part = part_of(job, assembly.model->layout());
  if (!PartModel::is_needed(part, assembly.model->layout())) {
    if (!part.narrow) return;
    throw InvalidArgument("no tensor is frozen", "model.base-precision",
                          "float32; client.lora and client.train freeze some");
  }
  if (part.rank > 0 && job.model.precision != Precision::kFloat32 &&
      !has_narrow_adapters(job.model.kind)) {
    throw InvalidArgument(
        fmt::format("adapters of {} have products in float32 alone", job.model.kind), "client.lora",
        "model.precision = float32");
  }
  auto model = std::make_unique<PartModel>(std::move(assembly.model), part);
  assembly.part = model.get();
  assembly.model = std::move(model);
}

void take_clusters(const Job& job, Assembly& assembly) {
  if (!has_clusters(job)) return;
  require_clients_for_copies(job, assembly.federation.clients());
  try {
    auto model = std::make_unique<ClusteredModel>(std::move(assembly.model),
                                                  split_list(job.client.clustered),
                                                  job.client.models, seed_of(job, job.model.seed));
    assembly.clustered = model.get();
    assembly.model = std::move(model);
  } catch (const ModelTooLarge& error) {
    throw InvalidArgument(first_line(error), "federation.models", "fewer copies");
  }
}

void take_fixed_copies(Job& trained, Communicator& comm, Assembly& assembly) {
  if (assembly.clustered == nullptr) return;
  ClientOptions& client = trained.client;
  if (client.cluster_by == ClusterBy::kFile) {
    note_file("federation.clusters-path", client.clusters_path, comm, assembly);
  }
  agree_on(comm, [&] { client.copies_of = fixed_copies(trained, assembly.federation); });
}

void start_model(const Job& job, Communicator& comm, Assembly& assembly) {
  PartModel* part = assembly.part;
  if (!job.model.start.empty()) {
    agree_on(comm, [&] {
      if (assembly.clustered != nullptr) return start_copies(job, assembly);
      if (part != nullptr && assembly.host->rank() != 0) return;
      auto start = started(job, assembly);
      std::ranges::move(start.notes, std::back_inserter(assembly.greeting));
      if (part == nullptr) return assembly.model->start_from(std::move(start.parts));
      part->start_whole_from(std::move(start.parts));
    });
    std::vector<std::string> files;
    agree_on(comm, [&] { files = start_files(job.model); });
    note_files("model.start", files, comm, assembly);
  }
  if (part == nullptr) return;
  agree_on(comm, [&] {
    part->hold(*assembly.host, seed_of(job, job.model.seed));
    assembly.files[kFrozenParameters] = part->start_digest();
  });
}

std::string with_peft_factors(const std::string& patterns, const Job& job,
                              const Assembly& assembly) {
  if (assembly.part == nullptr || job.client.lora_kind != LoraKind::kFedsa) return patterns;
  std::vector<std::string> all = split_list(patterns);
  const ParameterLayout& whole = assembly.part->network().layout();
  std::ranges::replace(all, kMoving, peft_factors(whole, part_of(job, whole)));
  return join(all, ",");
}

std::string frozen_text(const Job& job, const Assembly& assembly) {
  if (assembly.part == nullptr) return "";
  const PartModel& part = *assembly.part;
  std::string text = fmt::format("{} frozen parameters, which a host holds once{} and nobody sends",
                                 part.all_tensors().n_frozen(), narrow_text(job, part));
  if (const int64_t adapters = part.adapters().count(); adapters > 0) {
    text += fmt::format("; adapters of rank {} on {} {}", part.adapters().rank(), adapters,
                        adapters == 1 ? "matrix" : "matrices");
    if (const int64_t n = part.adapters().split_count(); n > 0) {
      text += n == adapters ? ", split" : fmt::format(", {} of them split", n);
    }
    if (part.adapters().scale() != 1) text += fmt::format(", scale {:g}", part.adapters().scale());
  }
  if (const auto& small = small_matrices_of(part); !small.empty()) {
    text += fmt::format(", none on {} {}{}", small.front().name, small.front().shape,
                        small.size() == 1
                            ? ", which is smaller"
                            : fmt::format(" and {} more, which are smaller", small.size() - 1));
  }
  const LoraKind kind = job.client.lora_kind;
  if (kind == LoraKind::kRolora) {
    text += "; client.lora-kind = rolora: client.alternate = " + job.client.alternate;
  }
  if (kind != LoraKind::kFfa && kind != LoraKind::kFedsa) return text;
  const std::string moving =
      peft_factors(part.network().layout(), part_of(job, part.network().layout()));
  return text + fmt::format("; client.lora-kind = {}: {} = {}", name_of(kind),
                            kind == LoraKind::kFfa ? "client.train" : "client.personal", moving);
}

std::vector<std::string> clusters_text(const Job& job, const Assembly& assembly) {
  if (assembly.clustered == nullptr) {
    const bool asked = protocol_kind(job).reading.reads("client.clustered");
    if (!asked || job.client.clustered.empty()) return {};
    return {"federation.models = 1: all clients have the one copy of client.clustered"};
  }
  const CopyPlaces& places = assembly.clustered->places();
  const char* takes = "in every round that of its least loss (client.cluster-by = loss)";
  if (job.client.cluster_by == ClusterBy::kFile) takes = "that of federation.clusters-path";
  if (job.client.cluster_by == ClusterBy::kLabels) {
    takes = "that of its cluster by shares of labels (client.cluster-by = labels)";
  }
  std::vector<std::string> lines{
      fmt::format("{} copies of {} of the {} parameters, of which a client takes one: {}",
                  places.copies(), places.copy_size(), places.trained(), takes)};
  if (places.buffers().size() > 0) {
    lines.push_back("buffers have no copies: all clusters share them");
  }
  const bool has_common = assembly.federation.common_test().size() > 0;
  if (job.evaluate.view == EvaluateView::kGlobal) {
    lines.push_back("evaluate.view = global: evaluations are of the model with copy 0");
  } else {
    lines.push_back(fmt::format(
        "evaluations are of each client's model with the copy that it took last; who never took "
        "part takes that of the least loss on its training samples{}",
        has_common ? "; the common test set is measured with copy 0" : ""));
  }
  return lines;
}

}  // namespace hanse

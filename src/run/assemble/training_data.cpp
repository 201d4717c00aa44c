#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "assemble.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/data/rounded_features.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/model/clustered_model.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/run/summary.hpp"
#include "protocols.hpp"
#include "results/facts.hpp"
#include "trained_part.hpp"

namespace hanse {

namespace {

// Checks the whole numbers among the values of some samples, which are those of `owner`.
void check_whole(const Federation& federation, const std::string& owner, const SampleRange& range,
                 const std::vector<WholeNumbers>& all) {
  constexpr int64_t kSamples = 256;  // at once
  const int64_t size = federation.sample_values();
  std::vector<float> values;
  for (int64_t begin = range.begin; begin < range.end; begin += kSamples) {
    const SampleRange part{begin, std::min(begin + kSamples, range.end)};
    values.resize(to_index(part.size() * size));
    federation.copy(part, values.data());
    for (const WholeNumbers& whole : all) {
      const int64_t first = whole.first, last = std::min(whole.last, size);
      for (int64_t i = 0; i < part.size(); ++i) {
        const std::span<const float> sample(values.data() + i * size + first,
                                            to_index(last - first));
        const auto wrong =
            std::ranges::find_if_not(sample, [&](float value) { return whole.hold(value); });
        if (wrong == sample.end()) continue;
        throw InvalidArgument(fmt::format("{} has the value {}, {}", owner, *wrong, whole.what),
                              whole.key, whole.hint);
      }
    }
  }
}

// Checks samples that a network reads as whole numbers; ranks share the clients. Collective.
void check_whole_numbers(Communicator& comm, const Assembly& assembly) {
  const auto all = assembly.model->whole_numbers();
  if (all.empty()) return;
  const Federation& federation = assembly.federation;
  agree_on(comm, [&] {
    const int64_t clients = federation.clients() + federation.held_out();
    for (int64_t id = comm.rank(); id < clients; id += comm.size()) {
      for (const SampleRange& range :
           {federation.train(id), federation.validation(id), federation.test(id)}) {
        check_whole(federation, client_label(federation, id), range, all);
      }
    }
    if (comm.rank() == 0) {
      check_whole(federation, "the common test set", federation.common_test(), all);
    }
  });
}

void build_model(const Job& job, Communicator& comm, Assembly& assembly) {
  const Federation& federation = assembly.federation;
  agree_on(comm, [&] {
    assembly.model = make_model(job.model, federation.sample_shape(), federation.label_form());
    take_part(job, assembly);
    take_clusters(job, assembly);
  });
  note_file("model.path", model_file(job.model), comm, assembly);
  start_model(job, comm, assembly);
  check_whole_numbers(comm, assembly);
}

// Numbers that are exact in float32 may not be so as factors of products.
void warn_of_rounded_features(const Job& job, Communicator& comm, const Assembly& assembly) {
  if (job.model.precision != Precision::kBfloat16 || assembly.model->vocabulary() > 0) return;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    const bool may_be_tokens = !assembly.model->whole_numbers().empty();
    const std::string text = rounded_in_bfloat16(assembly.federation, may_be_tokens);
    if (text.empty()) return;
    warning(text + (job.data.kind == "csv" ? "; data.standardize centres them before that"
                                           : "; hint: centre and scale them before"));
  });
}

// The first classes, by their names, that no client trains on, and so nobody learns.
std::string untrained_classes(const Federation& federation) {
  if (federation.classes() == 0) return "";
  constexpr std::size_t kShown = 5;
  std::vector<char> seen(static_cast<std::size_t>(federation.classes()), 0);
  std::vector<char> trained = seen;
  const auto mark = [&](SampleRange range, std::vector<char>& marks) {
    for (const int32_t label : labels_of(federation, range)) {
      if (label >= 0) marks[static_cast<std::size_t>(label)] = 1;
    }
  };
  for (int64_t c = 0; c < federation.clients() + federation.held_out(); ++c) {
    if (c < federation.clients()) mark(federation.train(c), trained);
    if (federation.has_test(c)) mark(federation.test(c), seen);
  }
  mark(federation.common_test(), seen);
  std::vector<std::string> names;
  std::size_t count = 0;
  for (std::size_t k = 0; k < seen.size(); ++k) {
    if (!seen[k] || trained[k]) continue;
    const std::string_view name = federation.names().classes.at(static_cast<int64_t>(k));
    if (++count <= kShown) names.push_back(name.empty() ? std::to_string(k) : std::string(name));
  }
  if (count == 0) return "";
  return fmt::format("{} of {} classes have test samples alone, and no client trains on them: {}{}",
                     count, seen.size(), join(names, ", "), count > kShown ? ", ..." : "");
}

// Greets: "mnist: linear with 7850 parameters, 100 clients with ...", and the model's buffers.
void greet(const Job& job, const Communicator& comm, Assembly& assembly) {
  const Federation& federation = assembly.federation;
  const int64_t held_out = federation.held_out();
  const ParameterLayout& layout = assembly.model->layout();
  assembly.greeting.push_back(
      fmt::format("{}: {} with {} parameters, {} clients with {} training samples{}, {} rank{}",
                  job.run.name, job.model.kind, assembly.client_model().layout().n_trainable(),
                  federation.clients(), federation.train_samples(),
                  held_out > 0 ? fmt::format(", {} clients held out", held_out) : "", comm.size(),
                  comm.size() == 1 ? "" : "s"));
  if (const int64_t samples = federation.validation_samples(); samples > 0) {
    assembly.greeting.push_back(
        fmt::format("{} more of their samples are for validation", samples));
  }
  if (const int64_t common = federation.common_test().size(); common > 0) {
    assembly.greeting.push_back(
        fmt::format("{} test samples of no client evaluate the shared model", common));
  }
  for (const std::string& line : {frozen_text(job, assembly), buffers_text(layout)}) {
    if (!line.empty()) assembly.greeting.push_back(line);
  }
  for (const std::string& line : clusters_text(job, assembly)) assembly.greeting.push_back(line);
  const EvaluatedOn on = clients_evaluated_on(federation, asked_of(job).on);
  if (on.training > 0) {
    assembly.greeting.push_back(fmt::format(
        "{} of {} clients have no {} samples: they are evaluated on those they train on",
        on.training, federation.clients(), on.validation ? "validation" : "test"));
  }
  const std::string untrained = comm.rank() == 0 ? untrained_classes(federation) : "";
  if (!untrained.empty()) assembly.greeting.push_back(untrained);
}

// Do results depend on the family of kernels? Products in bfloat16 have the same bits in all;
// online federation and bandits have others, in float32 and float64.
bool depends_on_kernels(const Job& job) {
  const bool has_others = job.run.protocol == "online" || job.run.protocol == "bandit";
  return job.model.precision != Precision::kBfloat16 || has_others || uses_torch();
}

}  // namespace

Model& Assembly::client_model() { return clustered != nullptr ? clustered->plain() : *model; }

Model& Assembly::network() { return part != nullptr ? part->network() : client_model(); }

std::unique_ptr<Model> Assembly::replace_network(std::unique_ptr<Model> other) {
  if (part != nullptr) return part->replace_network(std::move(other));
  return std::exchange(clustered != nullptr ? clustered->network() : model, std::move(other));
}

void load_libraries(const Job& job) {
  const bool has_objective =
      !job.client.objective.empty() && protocol_kind(job).reading.reads("client.objective");
  if (needs_torch(job.model.kind) || job.run.state_dict == "true" || has_objective) torch_library();
}

void load_samples_and_model(const Job& job, Communicator& comm, Assembly& assembly) {
  agree_on(comm, [&] { require_model_threads(job.run.threads); });
  set_model_threads(job.run.threads);
  agree_on(comm, [&] { load_libraries(job); });
  if (uses_torch()) {
    require_same(comm, "LibTorch", torch_library().version(),
                 "set HANSE_TORCH to the same version on every host");
  }
  if (depends_on_kernels(job)) {
    require_same(comm, "kernels", kernel_family(),
                 "set HANSE_KERNELS to the oldest of them on every host, e.g. "
                 "HANSE_KERNELS=Haswell");
  }
  agree_on(comm, [&] {  // a file may be damaged on one host alone
    const Scope phase(Phase::kReading);
    DataOptions data = job.data;
    data.rows = job.evaluate.scores && protocol_kind(job).reading.reads("evaluate.scores");
    keep_freed_memory(false);
    assembly.federation =
        Federation::load(data, job.federation, seed_of(job, job.data.seed), *assembly.host);
    keep_freed_memory(true);
  });
  const int64_t idle =
      protocol_kind(job).reading.reads("attack.idle") ? idle_attackers(job.attack) : 0;
  agree_on(comm, [&] {
    if (idle > 0) assembly.federation = assembly.federation.with_idle(idle);
  });
  require_same(comm, "data", fmt::format("{:016x}", assembly.federation.digest()),
               "every host needs the same files");
  agree_on(comm, [&] {
    const Federation& federation = assembly.federation;
    check_asked(asked_of(job), federation.label_form());
    if (job.evaluate.on != EvaluateOn::kTest &&
        federation.validation_samples() + federation.validation_clients() == 0) {
      throw InvalidArgument("there are no validation samples", "evaluate.on",
                            "data.validation-fraction=0.1, or federation.validation-clients");
    }
  });
  build_model(job, comm, assembly);
  warn_of_rounded_features(job, comm, assembly);
  greet(job, comm, assembly);
}

namespace {

// Warns of batches that are larger than those by which a file was compared with its module.
void warn_of_rows(const std::vector<BatchTrial>& trials, const Model& model) {
  const int64_t compared = model.compared_rows();
  int64_t most = 0;
  for (const BatchTrial& trial : trials) most = std::max(most, trial.rows);
  if (compared == 0 || most <= compared) return;
  warning(
      fmt::format("batches have up to {} rows, and hanse.export has compared the network of "
                  "model.path with its module in up to {}: one that depends on the size of the "
                  "batch may differ there; hint: client.batch = {}",
                  most, compared, compared));
}

}  // namespace

void try_batches(const std::vector<BatchTrial>& trials, Communicator& comm, Assembly& assembly) {
  warn_of_rows(trials, *assembly.model);
  agree_on(comm, [&] {
    for (auto i = static_cast<std::size_t>(comm.rank()); i < trials.size();
         i += static_cast<std::size_t>(comm.size())) {
      try_batch(trials[i], assembly.federation, *assembly.model);
    }
  });
}

std::string buffers_text(const ParameterLayout& layout) {
  std::vector<std::string> parts;
  if (const int64_t values = layout.n_params() - layout.n_trainable(); values > 0) {
    parts.push_back(fmt::format(
        "{} values in {} buffers are averaged like parameters, without the server's optimizer",
        values,
        std::count_if(layout.slots().begin(), layout.slots().end(),
                      [](const ParameterSlot& slot) { return !slot.trainable; })));
  }
  if (!layout.carried().empty()) {
    parts.push_back(fmt::format("{} integer buffers stay as they are", layout.carried().size()));
  }
  return join(parts, "; ");
}

}  // namespace hanse

#include "hanse/model/peft.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/text.hpp"
#include "hanse/model/tensor_files.hpp"

namespace hanse {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kLongestConfig = 1 << 20;
constexpr int64_t kHighestRank = 1 << 20;
constexpr std::string_view kPrefix = "base_model.model.";

[[noreturn]] void refuse(const std::string& what, const std::string& path,
                         const std::string& hint = "save it again by PEFT's save_pretrained()") {
  throw InvalidArgument("adapters that are not read: " + what, path, hint);
}

class ConfigReader {
 public:
  ConfigReader(std::string_view text, const std::string& path) : path_(path) {
    if (std::ssize(text) > kLongestConfig) refuse("the file is too long", path_);
    config_ = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!config_.is_object()) refuse("the file is no JSON object", path_);
  }

  PeftConfig read() const {
    refuse_others();
    PeftConfig config;
    const json& rank = at("r");
    if (!rank.is_number_integer() || rank < 1 || rank > kHighestRank) {
      refuse("r is no whole number from 1 on", path_);
    }
    config.rank = rank.get<int64_t>();
    config.alpha = at("lora_alpha").is_number() ? at("lora_alpha").get<double>() : 0;
    if (!(config.alpha > 0 && config.alpha < 1e30))
      refuse("lora_alpha is no number above 0", path_);
    config.root = at("use_rslora") == true;
    require_same("rank_pattern", static_cast<double>(config.rank), "rank");
    require_same("alpha_pattern", config.alpha, "alpha");
    return config;
  }

 private:
  const json& at(const char* key) const {
    static const json kNone;
    const auto found = config_.find(key);
    return found == config_.end() ? kNone : *found;
  }
  bool is_empty(const char* key) const {
    const json& value = at(key);
    return value.is_null() || value == false || (!value.is_number() && value.empty());
  }

  // What is more than W_0 + s B A.
  void refuse_others() const {
    const json& type = at("peft_type");
    if (type != "LORA") {
      refuse(fmt::format("peft_type is {}, and LORA is read", printable(type.dump())), path_,
             "train it anew with client.lora");
    }
    if (!is_empty("use_dora")) refuse("use_dora adds magnitudes to the matrices", path_, kPlain);
    if (const json& bias = at("bias"); !bias.is_null() && bias != "none") {
      refuse("biases are trained beside them", path_, "bias = \"none\", and client.train = *.bias");
    }
    if (!is_empty("modules_to_save")) {
      refuse("modules_to_save holds whole modules", path_,
             "train them whole: client.train, from model.start of a state dict");
    }
    for (const char* key : {"lora_bias", "use_qalora", "trainable_token_indices",
                            "target_parameters", "layer_replication", "alora_invocation_tokens"}) {
      if (!is_empty(key)) refuse(fmt::format("{} is set", key), path_, kPlain);
    }
    const json& start = at("init_lora_weights");
    for (const char* name : {"pissa", "olora", "loftq", "corda"}) {
      if (start.is_string() && start.get<std::string>().starts_with(name)) {
        refuse(fmt::format("init_lora_weights = {} has changed the base model", name), path_,
               "convert them in PEFT: path_initial_model_for_weight_conversion");
      }
    }
  }

  // Does each entry of a pattern give the same number as the rest has?
  void require_same(const char* key, double all, const char* what) const {
    if (is_empty(key)) return;
    const auto is_it = [&](const json& value) { return value.is_number() && value == all; };
    const json& pattern = at(key);
    if (pattern.is_object() && std::ranges::all_of(pattern, is_it)) return;
    refuse(fmt::format("{} gives layers a {} of their own", key, what), path_,
           "one for all layers is read");
  }

  static constexpr const char* kPlain = "plain LoRA is read";
  std::string path_;
  json config_;
};

std::string config_path(const std::string& folder) { return folder + "/adapter_config.json"; }

std::string tensors_path(const std::string& folder) {
  const std::string safe = folder + "/adapter_model.safetensors";
  const std::string old = folder + "/adapter_model.bin";
  return !fs::exists(safe) && fs::exists(old) ? old : safe;
}

// A tensor's module and factor: of "base_model.model.fc.lora_A.weight" fc and 'A'.
struct FactorName {
  std::string module;
  char factor = 'A';
  bool is_embedding = false;
};

FactorName factor_name(std::string name, const std::string& path) {
  if (name.starts_with(kPrefix)) name = name.substr(kPrefix.size());
  for (const bool is_embedding : {false, true}) {
    for (const char factor : {'A', 'B'}) {
      const std::string end = is_embedding ? fmt::format(".lora_embedding_{}", factor)
                                           : fmt::format(".lora_{}.weight", factor);
      if (name.size() <= end.size() || !name.ends_with(end)) continue;
      return {name.substr(0, name.size() - end.size()), factor, is_embedding};
    }
  }
  refuse(printable(name) + " is no factor of an adapter", path);
}

// "fc" of "base_model.model.fc.base_layer.weight"; empty: it is no such name.
std::string module_of_base(std::string name) {
  constexpr std::string_view kEnd = ".base_layer.weight";
  if (name.starts_with(kPrefix)) name = name.substr(kPrefix.size());
  if (name.size() <= kEnd.size() || !name.ends_with(kEnd)) return "";
  return name.substr(0, name.size() - kEnd.size());
}

std::vector<float> turned(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> result(values.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      result[to_index(j * rows + i)] = values[to_index(i * columns + j)];
    }
  }
  return result;
}

std::string module_of(const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  if (name.size() > kWeight.size() && name.ends_with(kWeight)) {
    return name.substr(0, name.size() - kWeight.size());
  }
  throw InvalidArgument(name + " is no module's weight, and PEFT knows adapters of modules alone",
                        "run.adapters", "choose other matrices by client.lora-layers");
}

// A list of names, each of which PEFT also takes for the end of a longer one; where that would meet
// another module, a pattern of whole names.
json target_modules(const std::set<std::string>& targets, const ParameterLayout& all) {
  const auto meets_other = [&](const std::string& module) {
    return std::ranges::any_of(all.slots(), [&](const ParameterSlot& slot) {
      const std::string other = slot.name.substr(0, slot.name.rfind('.'));
      return other.ends_with("." + module) && !targets.contains(other);
    });
  };
  if (std::ranges::none_of(targets, meets_other)) return targets;
  std::vector<std::string> patterns;
  for (const std::string& module : targets) {
    std::string pattern;
    for (const char c : module) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') pattern += '\\';
      pattern += c;
    }
    patterns.push_back(pattern);
  }
  return fmt::format("{}", fmt::join(patterns, "|"));
}

}  // namespace

double PeftConfig::scale() const {
  const auto r = static_cast<double>(rank);
  return root ? alpha / std::sqrt(r) : alpha / r;
}

PeftConfig peft_config(std::string_view text, const std::string& path) {
  return ConfigReader(text, path).read();
}

std::vector<std::string> peft_files(const std::string& folder) {
  return {config_path(folder), tensors_path(folder)};
}

PeftFile read_peft(const std::string& folder) {
  for (const std::string& path : peft_files(folder)) {
    if (fs::is_regular_file(path)) continue;
    throw InvalidArgument(missing_text(path), "model.start",
                          "a folder of PEFT's save_pretrained(), or a file of weights");
  }
  PeftFile file{.config = peft_config(FileBytes(config_path(folder)).view(), config_path(folder)),
                .adapters = {}};
  const std::string path = tensors_path(folder);
  const int64_t rank = file.config.rank;
  WeightFile weights = path.ends_with(".bin") ? read_torch_file(path) : read_safetensors(path);
  std::map<std::string, PeftAdapter> adapters;
  for (NamedTensor& tensor : weights.tensors) {
    if (const std::string module = module_of_base(tensor.name); !module.empty()) {
      adapters[module].base = std::move(tensor);
      continue;
    }
    const FactorName name = factor_name(tensor.name, path);
    const std::size_t of_rank = name.factor == 'A' ? 0 : 1;
    if (tensor.shape.size() != 2 || tensor.shape[of_rank] != rank) {
      refuse(fmt::format("{} has the shape {}, and r is {}", printable(tensor.name), tensor.shape,
                         rank),
             path);
    }
    PeftAdapter& adapter = adapters[name.module];
    const bool is_known = !adapter.a.empty() || !adapter.b.empty();
    if (is_known && adapter.is_embedding != name.is_embedding) {
      refuse(printable(name.module) + " has factors of two kinds", path);
    }
    adapter.module = name.module;
    adapter.is_embedding = name.is_embedding;
    (of_rank == 0 ? adapter.in : adapter.out) = tensor.shape[1 - of_rank];
    (of_rank == 0 ? adapter.a : adapter.b) = std::move(tensor.values);
  }
  if (adapters.empty()) refuse("there are none", path);
  for (auto& [module, adapter] : adapters) {
    if (adapter.a.empty() || adapter.b.empty()) {
      refuse(printable(module) + " has one factor alone", path);
    }
    file.adapters.push_back(std::move(adapter));
  }
  return file;
}

OwnFactors own_factors(const PeftAdapter& theirs, const std::vector<int64_t>& shape,
                       MatrixUse use) {
  const int64_t rows = shape[0], columns = shape[1];
  const int64_t rank = std::ssize(theirs.a) / theirs.in;
  const bool fits = theirs.in == columns && theirs.out == rows;
  const bool fits_turned = theirs.in == rows && theirs.out == columns;
  const bool is_turned = theirs.is_embedding || use != MatrixUse::kDense || !fits;
  if (!(is_turned ? fits_turned : fits)) {
    throw InvalidArgument(fmt::format("the adapter of {} has {} inputs and {} outputs, and the "
                                      "matrix is {}",
                                      printable(theirs.module), theirs.in, theirs.out, shape),
                          "model.start", "the adapters are of another model");
  }
  if (!is_turned) return {theirs.a, theirs.b};
  return {turned(theirs.b, theirs.out, rank), turned(theirs.a, rank, theirs.in)};
}

PeftText write_peft(std::span<const NamedAdapter> adapters, const PeftConfig& config,
                    double dropout, const ParameterLayout& all) {
  ParameterLayout layout;
  std::vector<float> row;
  std::set<std::string> targets;
  bool some_turned = false;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape,
                       const std::vector<float>& values) {
    layout.append({.name = std::string(kPrefix) + name, .shape = std::move(shape)});
    row.insert(row.end(), values.begin(), values.end());
  };
  for (const auto& [matrix, a, b] : adapters) {
    const int64_t rows = matrix.shape[0], columns = matrix.shape[1], rank = config.rank;
    std::vector<std::string> names = {matrix.name};
    names.insert(names.end(), matrix.also.begin(), matrix.also.end());
    for (const std::string& name : names) {
      const std::string module = module_of(name);
      const MatrixUse use = matrix.use_as(name);
      targets.insert(module);
      some_turned = some_turned || use == MatrixUse::kTransposed;
      if (use == MatrixUse::kEmbedding) {
        add(module + ".lora_embedding_A", {rank, rows}, turned(b, rows, rank));
        add(module + ".lora_embedding_B", {columns, rank}, turned(a, rank, columns));
      } else if (use == MatrixUse::kTransposed) {
        add(module + ".lora_A.weight", {rank, rows}, turned(b, rows, rank));
        add(module + ".lora_B.weight", {columns, rank}, turned(a, rank, columns));
      } else {
        add(module + ".lora_A.weight", {rank, columns}, a);
        add(module + ".lora_B.weight", {rows, rank}, b);
      }
    }
  }
  const json note = {{"peft_type", "LORA"},
                     {"task_type", nullptr},
                     {"base_model_name_or_path", nullptr},
                     {"inference_mode", true},
                     {"r", config.rank},
                     {"lora_alpha", config.alpha},
                     {"use_rslora", config.root},
                     {"lora_dropout", dropout},
                     {"fan_in_fan_out", some_turned},
                     {"bias", "none"},
                     {"init_lora_weights", true},
                     {"modules_to_save", nullptr},
                     {"rank_pattern", json::object()},
                     {"alpha_pattern", json::object()},
                     {"target_modules", target_modules(targets, all)}};
  return {note.dump(2) + "\n", safetensors(layout, row)};
}

}  // namespace hanse

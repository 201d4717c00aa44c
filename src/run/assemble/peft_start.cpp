#include "peft_start.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

constexpr const char* kPeftStart = "model.start";
constexpr std::string_view kWeight = ".weight";

// "fc" of "fc.weight"; empty: no module's weight.
std::string module_called(const std::string& name) {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : "";
}

std::vector<std::string> names_of(const ParameterSlot& slot) {
  std::vector<std::string> names = {slot.name};
  names.insert(names.end(), slot.also.begin(), slot.also.end());
  return names;
}

// Adapters by the model's names of their modules.
class FoundAdapters {
 public:
  FoundAdapters(const std::vector<PeftAdapter>& adapters, const ParameterLayout& layout) {
    std::set<std::string> of_model, of_file;
    for (const ParameterSlot& slot : layout.slots()) {
      for (const std::string& name : names_of(slot)) of_model.insert(module_called(name));
    }
    for (const PeftAdapter& adapter : adapters) {
      of_file.insert(adapter.module);
      by_module_[adapter.module] = &adapter;
    }
    of_model.erase("");
    prefix_ = find_prefix(of_model, of_file);
  }

  const PeftAdapter* find(const std::string& name) {
    const std::string module = module_called(name);
    if (module.empty() || !module.starts_with(prefix_.of_model)) return nullptr;
    const auto found = by_module_.find(prefix_.of_file + module.substr(prefix_.of_model.size()));
    if (found == by_module_.end()) return nullptr;
    taken_.insert(found->first);
    return found->second;
  }

  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& [module, adapter] : by_module_) {
      if (!taken_.contains(module)) names.push_back(printable(module));
    }
    return names;
  }

 private:
  std::map<std::string, const PeftAdapter*> by_module_;
  std::set<std::string> taken_;
  Prefix prefix_;
};

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw InvalidArgument(what, kPeftStart, hint);
}

}  // namespace

bool PeftStart::is_one(const ModelOptions& options) {
  return std::filesystem::is_directory(options.start);
}

PeftStart::PeftStart(const ModelOptions& options, const ParameterLayout& layout) {
  const PeftFile file = read_peft(options.start);
  config_ = file.config;
  FoundAdapters adapters(file.adapters, layout);
  for (const ParameterSlot& slot : layout.slots()) {
    if (slot.shape.size() != 2) continue;
    std::vector<std::pair<std::string, OwnFactors>> known;
    const std::vector<std::string> names = names_of(slot);
    for (const std::string& name : names) {
      const PeftAdapter* theirs = adapters.find(name);
      if (theirs == nullptr) continue;
      known.emplace_back(name, own_factors(*theirs, slot.shape, slot.use_as(name)));
    }
    if (known.empty()) continue;
    const auto differs = [&](const auto& one) {
      return one.second.a != known[0].second.a || one.second.b != known[0].second.b;
    };
    if (known.size() < names.size() || std::ranges::any_of(known, differs)) {
      refuse(fmt::format(
                 "{} is one tensor under the names {}, and the folder has an adapter of {}",
                 slot.name, join(names, ", "),
                 known.size() < names.size() ? known[0].first + " alone" : "other values for each"),
             "export a model that does not tie them");
    }
    found_.push_back({slot.name, std::move(known[0].second), {}});
    for (const std::string& name : names) take_base(slot, adapters.find(name)->base);
  }
  const auto left = adapters.left();
  if (found_.empty() || !left.empty()) {
    refuse(fmt::format("the model has no matrix {}.weight, of which the folder has an adapter",
                       left.empty() ? "" : left.front()),
           "the names are those of the module that was exported");
  }
}

void PeftStart::take_base(const ParameterSlot& slot, const NamedTensor& base) {
  if (base.values.empty()) return;
  std::vector<float>& known = found_.back().base;
  if (base.shape != slot.shape || (!known.empty() && known != base.values)) {
    refuse(fmt::format("the folder has {} {} itself, and the model's is {}", slot.name, base.shape,
                       slot.shape),
           "export the model whose vocabulary was changed");
  }
  known = base.values;
}

std::vector<std::string> PeftStart::matrices() const {
  std::vector<std::string> names;
  for (const Found& one : found_) names.push_back(one.matrix);
  return names;
}

WarmStart PeftStart::start(const ModelOptions& options, const ParameterLayout& all) const {
  WarmStart start{.parts = {}, .notes = notes_};
  std::set<std::string> wanted;
  std::vector<std::string> missing;
  for (const ParameterSlot& slot : all.slots()) {
    const auto whole = std::ranges::find(found_, slot.name, &Found::matrix);
    if (whole != found_.end() && !whole->base.empty()) {
      start.parts.push_back({slot.offset, whole->base});
    }
    const bool is_a = slot.name.ends_with(".lora_A");
    if (!is_a && !slot.name.ends_with(".lora_B")) continue;
    const std::string matrix = slot.name.substr(0, slot.name.rfind(".lora_"));
    const auto found = std::ranges::find(found_, matrix, &Found::matrix);
    wanted.insert(matrix);
    if (found != found_.end()) {
      start.parts.push_back({slot.offset, is_a ? found->factors.a : found->factors.b});
    } else if (is_a) {
      missing.push_back(matrix + " (not in the folder)");
    }
  }
  for (const Found& one : found_) {
    if (!wanted.contains(one.matrix)) missing.push_back(one.matrix + " (without an adapter here)");
  }
  if (missing.empty()) return start;
  if (!options.start_partial) {
    refuse("the adapters are those of other matrices: " + join(missing, ", "),
           "client.lora-layers = *, with client.lora = auto, takes the folder's");
  }
  start.notes.push_back("model.start: not taken: " + join(missing, ", "));
  return start;
}

PartOptions PeftStart::options_of(PartOptions given) const {
  if (!given.lora.is_any()) {
    refuse("the folder has adapters, and the job none", "client.lora = auto");
  }
  if (given.lora.value == AdapterRank::kOfFile) {
    given.lora.value = config_.rank;
    given.lora_alpha = config_.alpha;
    given.lora_scale = config_.root ? LoraScale::kRoot : LoraScale::kRank;
  }
  const double own = adapter_scale(given, given.lora.value);
  if (given.lora.value != config_.rank || std::abs(own - config_.scale()) > 1e-12 * own) {
    refuse(fmt::format("the folder's adapters have rank {} and scale {:g}, the job's {} and {:g}",
                       config_.rank, config_.scale(), given.lora.value, own),
           "client.lora = auto takes the folder's");
  }
  if (given.lora_layers == "*") given.lora_layers = join(matrices(), ",");
  return given;
}

}  // namespace hanse

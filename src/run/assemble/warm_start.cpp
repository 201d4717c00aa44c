#include "warm_start.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/job/job.hpp"
#include "hanse/model/finite.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/store/weights.hpp"

namespace hanse {

namespace {

constexpr const char* kStart = "model.start";

WeightFile weights_of(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw InvalidArgument(missing_text(path), kStart,
                          "a model.h5 of a run, a state dict of torch.save, or safetensors");
  }
  return read_weights(path);
}

bool is_adapter(const std::string& name) {
  return name.ends_with(".lora_A") || name.ends_with(".lora_B");
}

// "fc2.weight [10, 200], fc2.bias [10], ...": the first few.
std::string told(const std::vector<std::string>& tensors) {
  constexpr std::size_t kTold = 4;
  const auto first = std::span(tensors).first(std::min(kTold, tensors.size()));
  return join(first, ", ") + (tensors.size() > kTold ? ", ..." : "");
}

// Counts, for each prefix of the first names, those that are one of the second behind it.
std::map<std::string, std::size_t> prefixes(const std::set<std::string>& longer,
                                            const std::set<std::string>& shorter) {
  std::map<std::string, std::size_t> found;
  for (const std::string& name : longer) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      if (shorter.contains(name.substr(dot + 1))) ++found[name.substr(0, dot + 1)];
    }
  }
  return found;
}

}  // namespace

Prefix find_prefix(const std::set<std::string>& model, const std::set<std::string>& file) {
  if (std::ranges::any_of(model, [&](const auto& name) { return file.contains(name); })) return {};
  std::size_t most = 0;
  std::vector<std::string> best;
  Prefix chosen;
  const auto compare = [&](const auto& found, std::string Prefix::*side) {
    for (const auto& [prefix, count] : found) {
      if (count < most) continue;
      if (count > most) best.clear();
      most = count;
      best.push_back(prefix);
      chosen = {};
      chosen.*side = prefix;
    }
  };
  compare(prefixes(file, model), &Prefix::of_file);
  compare(prefixes(model, file), &Prefix::of_model);
  if (best.size() < 2) return chosen;
  throw InvalidArgument(
      fmt::format("the model's names stand in the file behind several prefixes: {}", told(best)),
      kStart, "save one of them alone");
}

namespace {

// Finds the tensors of a file by the model's names.
class StartTensors {
 public:
  StartTensors(WeightFile file, const ParameterLayout& layout) : file_(std::move(file)) {
    std::set<std::string> of_model, of_file;
    for (const ParameterSlot& slot : layout.slots()) {
      of_model.insert(slot.name);
      of_model.insert(slot.also.begin(), slot.also.end());
    }
    for (std::size_t i = 0; i < file_.tensors.size(); ++i) {
      const std::string& name = file_.tensors[i].name;
      of_file.insert(name);
      places_.emplace(name, i);
    }
    for (const auto& [also, name] : file_.same) {
      of_file.insert(also);
      if (const auto at = places_.find(name); at != places_.end()) places_[also] = at->second;
    }
    taken_.resize(file_.tensors.size());
    prefix_ = find_prefix(of_model, of_file);
  }

  // Null: the file has none. A tensor that has several names, in the model or the file, is found by
  // each; `others` gets those by which the file has other values.
  NamedTensor* find(const ParameterSlot& slot, std::vector<std::string>& others) {
    NamedTensor* first = called(slot.name);
    for (const std::string& also : slot.also) {
      NamedTensor* tensor = called(also);
      if (first == nullptr) first = tensor;
      if (tensor == nullptr) continue;
      take(*tensor);
      if (tensor->shape == first->shape && tensor->values == first->values) continue;
      others.push_back(fmt::format("{} (the model ties it to {}, of other values in the file)",
                                   also, slot.name));
    }
    if (first != nullptr) take(*first);
    return first;
  }

  // Moved, unless another slot may have them too.
  std::vector<float> values_of(NamedTensor& tensor) const {
    return file_.same.empty() ? std::move(tensor.values) : tensor.values;
  }

  // Why a tensor of the model was not found.
  std::string why_missing(const ParameterSlot& slot) const {
    const auto found = file_.left_out.find(name_in_file(slot.name));
    return found == file_.left_out.end() ? "not in the file" : found->second + " in the file";
  }

  // A number of the tensor that float32 lacks; 0: there is none.
  double too_large(const NamedTensor& tensor) const {
    const auto found = file_.too_large.find(tensor.name);
    return found == file_.too_large.end() ? 0 : found->second;
  }

  std::string prefix_note() const {
    if (!prefix_.of_file.empty()) {
      return fmt::format("model.start: names in the file begin with {}, which is left out",
                         printable(prefix_.of_file));
    }
    if (prefix_.of_model.empty()) return "";
    return fmt::format(
        "model.start: names of the model begin with {}, which those in the file lack",
        prefix_.of_model);
  }

  // Names of those that were not found.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (!taken_[i]) names.push_back(printable(file_.tensors[i].name));
    }
    return names;
  }

  void require_scale(float scale) const {
    if (!file_.adapter_scale || *file_.adapter_scale == static_cast<double>(scale)) return;
    throw InvalidArgument(fmt::format("the file's adapters have the scale {:g}, and the job's {:g}",
                                      *file_.adapter_scale, scale),
                          kStart, "client.lora-alpha and client.lora-scale as in the file's run");
  }

  bool has_adapters() const {
    return std::ranges::any_of(file_.tensors, [](const auto& t) { return is_adapter(t.name); });
  }

 private:
  std::string name_in_file(const std::string& name) const {
    if (!name.starts_with(prefix_.of_model)) return "";
    return prefix_.of_file + name.substr(prefix_.of_model.size());
  }

  NamedTensor* called(const std::string& name) {
    const auto found = places_.find(name_in_file(name));
    return found == places_.end() ? nullptr : &file_.tensors[found->second];
  }

  void take(const NamedTensor& tensor) { taken_[to_index(&tensor - file_.tensors.data())] = 1; }

  WeightFile file_;
  std::map<std::string, std::size_t> places_;  // of tensors, by all their names
  std::vector<char> taken_;
  Prefix prefix_;
};

}  // namespace

bool has_tensor(const std::string& path, const std::string& prefix) {
  const WeightFile file = weights_of(path);
  return std::ranges::any_of(file.tensors,
                             [&](const NamedTensor& one) { return one.name.starts_with(prefix); });
}

WarmStart warm_start(const ModelOptions& options, const ParameterLayout& layout, float scale) {
  StartTensors tensors(weights_of(options.start), layout);
  tensors.require_scale(scale);
  std::vector<Model::StartPart> parts;
  std::vector<std::string> others;  // that differ
  std::size_t all = 0;
  for (const ParameterSlot& slot : layout.slots()) {
    if (is_adapter(slot.name) && !tensors.has_adapters()) continue;
    ++all;
    NamedTensor* found = tensors.find(slot, others);
    if (found == nullptr) {
      others.push_back(fmt::format("{} ({})", slot.name, tensors.why_missing(slot)));
    } else if (found->shape != slot.shape) {
      others.push_back(fmt::format("{} {} ({} in the file)", slot.name, slot.shape, found->shape));
    } else if (const double value = tensors.too_large(*found); value != 0) {
      throw InvalidArgument(fmt::format("{} has {:g}, and float32 ends at 3.4e+38 ({})", slot.name,
                                        value, options.start),
                            kStart, "scale the tensor, or save it as float32");
    } else if (const auto wrong = not_finite(found->name, found->values); !wrong.empty()) {
      throw InvalidArgument(fmt::format("{} ({})", wrong, options.start), kStart,
                            "the run that wrote it has diverged");
    } else {
      parts.push_back({slot.offset, tensors.values_of(*found)});
    }
  }
  std::vector<std::string> left = tensors.left();
  const bool has_lost_adapters = std::ranges::any_of(left, is_adapter);
  if (parts.empty()) {
    throw InvalidArgument(fmt::format("the file has no tensor of the model: {}; it has {}",
                                      told(others), left.empty() ? "none" : told(left)),
                          kStart, "the names are those of the model before it was saved");
  }
  for (std::string& name : left) name += " (not in the model)";
  const std::string names =
      told(others) + (others.empty() || left.empty() ? "" : ", ") + told(left);
  if (!names.empty() && !options.start_partial) {
    throw InvalidArgument("the file is of another model: " + names, kStart,
                          has_lost_adapters
                              ? "the file has adapters: hanse resume of its run with "
                                "--run.merge-adapters=true adds them to their matrices, and "
                                "client.lora trains them on"
                              : "model.start-partial = true takes the tensors that agree");
  }
  WarmStart start{.parts = std::move(parts)};
  if (const auto note = tensors.prefix_note(); !note.empty()) start.notes.push_back(note);
  if (!names.empty()) {
    start.notes.push_back(fmt::format("model.start: {} of {} tensors are taken; not {}",
                                      start.parts.size(), all, names));
  }
  return start;
}

void require_finite_start(const Job& job, const Protocol& protocol, const std::string& checkpoint) {
  const std::string wrong = not_finite(protocol.model_layout(), protocol.model_row());
  if (wrong.empty()) return;
  const std::string file = job.model.path.empty() ? job.model.start : job.model.path;
  throw InvalidArgument("the model is not finite before the first round: " + wrong,
                        !checkpoint.empty() ? checkpoint
                        : file.empty()      ? "model.kind = " + job.model.kind
                                            : file);
}

}  // namespace hanse

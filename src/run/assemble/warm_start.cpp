#include "warm_start.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/job/job.hpp"
#include "hanse/model/finite.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/store/model_file.hpp"

namespace hanse {

namespace {

constexpr const char* kStart = "model.start";

std::vector<NamedTensor> tensors_of(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw InvalidArgument(missing_text(path), kStart,
                          "a model.h5 of a run, or a state dict of torch.save");
  }
  std::string magic(2, '\0');
  std::ifstream(path, std::ios::binary).read(magic.data(), 2);
  return magic == "PK" ? torch_library().read_state_dict(path) : read_model(path);
}

// "fc2.weight [10, 200] (here [5, 200])", of which the first few are told.
std::string told(const std::vector<std::string>& tensors) {
  constexpr std::size_t kTold = 4;
  const auto first = std::span(tensors).first(std::min(kTold, tensors.size()));
  return join(first, ", ") + (tensors.size() > kTold ? ", ..." : "");
}

}  // namespace

WarmStart warm_start(const ModelOptions& options, const ParameterLayout& layout) {
  std::vector<NamedTensor> tensors = tensors_of(options.start);
  std::vector<Model::StartPart> parts;
  std::vector<std::string> others;  // that differ
  const auto is_adapter = [](const auto& tensor) {
    return tensor.name.ends_with(".lora_A") || tensor.name.ends_with(".lora_B");
  };
  const bool has_adapters = std::ranges::any_of(tensors, is_adapter);
  std::size_t all = 0;
  for (const ParameterSlot& slot : layout.slots()) {
    if (!has_adapters && is_adapter(slot)) continue;
    ++all;
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const NamedTensor& t) { return t.name == slot.name; });
    if (found == tensors.end()) {
      others.push_back(slot.name + " (not in the file)");
      continue;
    }
    if (found->shape == slot.shape) {
      if (const auto wrong = not_finite(found->name, found->values); !wrong.empty()) {
        throw InvalidArgument(fmt::format("{} ({})", wrong, options.start), kStart,
                              "the run that wrote it has diverged");
      }
      parts.push_back({slot.offset, std::move(found->values)});
    } else {
      others.push_back(fmt::format("{} {} ({} in the file)", slot.name, slot.shape, found->shape));
    }
    tensors.erase(found);
  }
  for (const NamedTensor& left : tensors) others.push_back(left.name + " (not in the model)");
  const std::string names = told(others);
  if (parts.empty()) {
    throw InvalidArgument("the file has no tensor of the model: " + names, kStart,
                          "hanse inspect prints the names of a model.h5");
  }
  if (!others.empty() && !options.start_partial) {
    throw InvalidArgument("the file is of another model: " + names, kStart,
                          "model.start-partial = true takes the tensors that agree");
  }
  if (others.empty()) return {std::move(parts), ""};
  const std::size_t taken = parts.size();
  return {std::move(parts),
          fmt::format("model.start: {} of {} tensors are taken; not {}", taken, all, names)};
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

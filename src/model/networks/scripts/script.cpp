#include "networks/scripts/script.hpp"

#include <cstdlib>
#include <filesystem>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/zip_directory.hpp"
#include "hanse/model/torch_library.hpp"
#include "networks/scripts/script_operators.hpp"

namespace hanse {

namespace {

std::mutex generator_in_use;  // there is one for all threads

constexpr const char* kCompared =
    "hanse.compared";  // a further file of hanse.export in the archive

}  // namespace

// The interpreter's message ends with the error itself, as in "builtins.ValueError: Expected more";
// other messages begin with it.
std::string one_line(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch ? of_torch->what_without_backtrace() : error.what();
  const std::string label = "Error: ";
  const std::size_t at = text.rfind(label);
  const std::string rest(
      trim(std::string_view(text).substr(at == std::string::npos ? 0 : at + label.size())));
  return rest.substr(0, rest.find('\n'));
}

torch::jit::Module read_script(const std::string& path, const std::string& key,
                               const std::string& hint, at::Device device, int64_t* compared) {
  if (!std::filesystem::is_regular_file(path)) {
    throw InvalidArgument(missing_text(path), key, hint);
  }
  check_archive({path, "TorchScript", "save it with torch.jit.script(model).save(path)"});
  add_script_operators();
  try {
    torch::jit::ExtraFilesMap notes = {{kCompared, ""}};
    torch::jit::Module module = torch::jit::load(path, device, notes);
    if (compared != nullptr) *compared = std::strtoll(notes.at(kCompared).c_str(), nullptr, 10);
    return module;
  } catch (const std::exception& error) {
    const std::string what = one_line(error);
    const bool lacks_operator = what.find("Unknown builtin op") != std::string::npos;
    throw InvalidArgument(
        fmt::format("no TorchScript that LibTorch {} reads: {}", TORCH_VERSION, what), path,
        lacks_operator ? newer_torch_hint(TORCH_VERSION)
                       : "save it with torch.jit.script(model).save(path), by a torch that is not "
                         "newer");
  }
}

ScriptCall::ScriptCall(uint64_t seed, at::Device device)
    : generator_(generator_in_use), as_it_is_(false) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(seed);
  if (device.is_cpu()) return;
  at::Generator there = at::globalContext().defaultGenerator(device);
  there.set_current_seed(seed);
}

}  // namespace hanse

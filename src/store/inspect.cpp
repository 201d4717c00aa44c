#include "hanse/store/inspect.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint_format.hpp"
#include "coefficients.hpp"
#include "hanse/base/error.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/store/checkpoint.hpp"

namespace hanse {

namespace {

constexpr int64_t kShownElements = 4;
constexpr int64_t kShownCharacters = 60;

std::string size_text(int64_t bytes) {
  static const std::vector<std::string> units = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string type_name(const hdf5::Dataset& dataset) {
  if (dataset.type() == hdf5::kTypeOf<int64_t>) return "int64";
  if (dataset.type() == hdf5::kTypeOf<double>) return "float64";
  if (dataset.type() == hdf5::kTypeOf<float>) return "float32";
  return dataset.is_text() ? "text" : "other";
}

template <class T>
std::string values_text(const hdf5::Dataset& dataset) {
  return fmt::format("{}", fmt::join(dataset.values<T>(), " "));
}

std::string quoted(const std::string& text) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' '; });
  return printable && std::ssize(text) <= kShownCharacters ? "\"" + text + "\"" : "";
}

// The value, if it is small enough to be shown.
std::string value_text(const hdf5::Dataset& dataset) {
  if (dataset.is_text()) return quoted(dataset.text());
  if (dataset.size() > kShownElements) return "";
  if (dataset.type() == hdf5::kTypeOf<int64_t>) return values_text<int64_t>(dataset);
  if (dataset.type() == hdf5::kTypeOf<double>) return values_text<double>(dataset);
  if (dataset.type() == hdf5::kTypeOf<float>) return values_text<float>(dataset);
  return "";
}

// A line "  NAME  TYPE  SHAPE  VALUE" for each dataset, names without their first `skip`
// characters.
std::string dataset_lines(const hdf5::File& file, const std::vector<std::string>& names,
                          std::size_t skip) {
  std::size_t width = 0;
  for (const auto& name : names) width = std::max(width, name.size() - skip);
  std::string lines;
  for (const auto& name : names) {
    const hdf5::Dataset dataset = file.dataset(name);
    const std::string extent = dataset.is_text() ? fmt::format("{} bytes", dataset.text().size())
                                                 : fmt::format("{}", dataset.shape());
    std::string line = fmt::format("  {:<{}}  {:<7}  {:<12}  {}", name.substr(skip), width,
                                   type_name(dataset), extent, value_text(dataset));
    line.erase(line.find_last_not_of(' ') + 1);
    lines += line + "\n";
  }
  return lines;
}

std::string heading(const std::string& path, const std::string& what) {
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  return fmt::format("{}: {}, {}\n", path, what, size_text(bytes));
}

std::string checkpoint_contents(const std::string& path) {
  const hdf5::Section section;
  const hdf5::File file = hdf5::File::open_to_read(path);
  std::vector<std::string> names;
  if (file.contains(kStateGroup)) names = file.dataset_names(kStateGroup);
  std::string text = fmt::format("round: {}\ndigest: ok\nserver state: {} arrays\n",
                                 file.read_attribute("round"), names.size());
  text += dataset_lines(file, names, kStateGroup.size() + 1);
  if (!file.contains("/clients")) return text + "clients: no states\n";
  const auto shape = file.dataset(kClientRows).shape();
  if (shape.size() != 2) throw InvalidArgument(kClientRows + " is no matrix", path);
  return text + fmt::format("clients: {} with state, {} float32 each\n", shape.at(0), shape.at(1));
}

std::string inspect_checkpoint(const std::string& path, bool verify) {
  const std::string head = heading(path, "checkpoint");
  if (const auto damage = checkpoint_damage(path)) {
    if (verify) throw InvalidArgument("the checkpoint is damaged: " + *damage, path);
    const auto round = round_of_name(std::filesystem::path(path).filename().string());
    return head + (round ? fmt::format("round: {} (by its name)\n", *round) : "") +
           "digest: DAMAGED, " + *damage + "\n";
  }
  return head + checkpoint_contents(path);
}

bool is_model(const hdf5::File& file) {
  if (!file.contains("/row")) return false;
  const hdf5::Dataset row = file.dataset("/row");
  return row.type() == hdf5::kTypeOf<float> && row.shape().size() == 1;
}

// What a linear model's file says of each feature; nothing where it knows none, or is of another
// model.
std::string coefficient_lines(const hdf5::File& file, const std::vector<std::string>& names,
                              const std::string& path) {
  if (!file.has_attribute("features") || names.size() != 2) return "";
  const auto text = file.read_text_attribute("features");
  if (!text) return "";
  const FeatureRecord record = read_features(*text, path);
  const hdf5::Dataset bias = file.dataset(names[0]), weight = file.dataset(names[1]);
  const std::vector<int64_t> linear = {bias.size(), std::ssize(record.values)};
  const bool is_float = bias.type() == hdf5::kTypeOf<float> && weight.type() == bias.type();
  if (!is_float || bias.shape().size() != 1 || weight.shape() != linear) return "";
  return coefficients_text(record, weight.values<float>(), bias.values<float>());
}

// "2 ": the scale of the adapters, where it is not 1.
std::string adapter_scale_text(const hdf5::File& file) {
  if (!file.has_attribute("adapter_scale")) return "";
  return file.read_text_attribute("adapter_scale").value_or("?") + " ";
}

std::string inspect_model(const hdf5::File& file, const std::string& path) {
  std::vector<std::string> names = file.dataset_names("/");
  std::erase(names, "/row");
  std::string text =
      heading(path, "model") + fmt::format("parameters: {}\n", file.dataset("/row").size());
  if (file.has_attribute("frozen")) {
    text += fmt::format("frozen: {} of them\n", file.read_attribute("frozen"));
  }
  const auto adapters = std::ranges::count_if(
      names, [](const std::string& name) { return name.ends_with(".lora_A"); });
  if (adapters > 0)
    text += fmt::format("adapters: {}, NAME + {}NAME.lora_B NAME.lora_A\n", adapters,
                        adapter_scale_text(file));
  text += fmt::format("tensors: {}\n", names.size()) + dataset_lines(file, names, 1);
  return text + coefficient_lines(file, names, path);
}

// Checks the seal before the library reads the file.
void check_seal(const std::string& path) {
  for (const SealKind* kind : {&kDataSeal, &kModelSeal}) {
    if (const auto damage = damage_if_sealed(path, *kind)) throw IoError(*damage, path);
  }
}

std::string inspect_any(const std::string& path, bool verify) {
  check_seal(path);
  const hdf5::Section section;
  const hdf5::File file = hdf5::File::open_to_read(path);
  if (is_hanse_file(file)) {
    return heading(path, "data for data.kind = hanse") + hanse_file_text(path, verify);
  }
  if (verify) {
    throw InvalidArgument("the file carries no digest to compare its content with", path,
                          "checkpoints and the files of hanse convert do");
  }
  if (is_model(file)) return inspect_model(file, path);
  const auto names = file.dataset_names("/");
  return heading(path, "HDF5 file") + fmt::format("datasets: {}\n", names.size()) +
         dataset_lines(file, names, 1);
}

// The first bytes of the file.
std::string beginning_of(const std::string& path, std::size_t bytes) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) {
    const std::string reason = in ? "it is a folder" : errno_text();
    throw InvalidArgument("cannot open the file: " + reason, path);
  }
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

}  // namespace

std::string inspect_file(const std::string& path, bool verify) {
  const std::string magic = kCheckpointSeal.magic;
  if (beginning_of(path, magic.size()) == magic) return inspect_checkpoint(path, verify);
  try {
    return inspect_any(path, verify);
  } catch (const IoError& error) {
    throw InvalidArgument(std::string("no readable HDF5 file: ") + error.what(), "",
                          "checkpoints, model.h5 and the files of hanse convert can be inspected");
  }
}

}  // namespace hanse

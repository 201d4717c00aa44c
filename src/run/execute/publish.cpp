// hanse publish: the part of a private run that its guarantee covers.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "execution.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/execute.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/store/atomic_file.hpp"
#include "repeats.hpp"

namespace hanse {

namespace {

namespace fs = std::filesystem;

// Columns of rounds.csv that follow from what was released, or from nothing of the clients.
constexpr const char* kColumns[] = {"round", "clip", "clipped_share", "noise_sd",
                                    "privacy_epsilon"};
constexpr const char* kModels[] = {"model.h5", "averaged.h5"};

[[noreturn]] void refuse(const std::string& what, const std::string& where,
                         const std::string& hint) {
  throw InvalidArgument(what, where, hint);
}

void check_may_be_published(const Job& job, const std::string& folder) {
  if (!job.privacy.is_on()) {
    refuse("the run is not private: nothing of it may be published", "privacy.kind",
           "run the job with privacy.kind = central");
  }
  if (const std::string flaw = privacy_flaw(job.privacy); !flaw.empty()) {
    refuse(flaw + ": nothing of the run may be published", folder,
           "run the job with privacy.seed = system and integer noise");
  }
  if (has_repeats(job)) {
    refuse("each repeat costs its epsilon, and all together their sum", folder,
           fmt::format("publish one: {}", repeat_folder(job, 0)));
  }
  const char* chooser = !job.run.target.empty() ? "run.target"
                        : job.run.patience > 0  ? "run.patience"
                                                : nullptr;
  if (chooser != nullptr) {
    refuse("numbers without noise have chosen the last round, which the guarantee does not cover",
           chooser, "run the job without it");
  }
  if (!fs::exists(folder + "/summary.json")) {
    refuse("the run has not come to its end", folder,
           fmt::format("`hanse resume {}` goes on", shell_word(folder)));
  }
}

void check_new(const std::string& out) {
  std::error_code code;
  if (!fs::exists(out, code) || (fs::is_directory(out, code) && fs::is_empty(out, code))) return;
  refuse("the folder is there", out, "name a new one");
}

// The columns of the table that may be published.
std::string covered_columns(const std::string& path) {
  std::ifstream file(path);
  std::string line, text;
  std::vector<std::size_t> places;
  for (bool is_header = true; std::getline(file, line); is_header = false) {
    const auto fields = split_list(line);
    for (std::size_t i = 0; is_header && i < fields.size(); ++i) {
      if (std::ranges::count(kColumns, fields[i]) > 0) places.push_back(i);
    }
    std::vector<std::string> kept;
    for (const std::size_t place : places)
      kept.push_back(place < fields.size() ? fields[place] : "");
    text += join(kept, ",") + "\n";
  }
  if (places.empty()) throw IoError("the table cannot be read", path);
  return text;
}

}  // namespace

std::string publish_run(const std::string& run_directory, const std::string& out) {
  check_run_directory(run_directory);
  KeyedJob job(catalog());
  load_job(run_directory + "/job.cfg", {}, job);
  job.run.out = run_directory;
  check_may_be_published(job, run_directory);
  check_new(out);
  const fs::path temporary = out + ".tmp";
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  std::vector<std::string> names;
  for (const char* name : kModels) {
    const fs::path model = fs::path(run_directory) / name;
    if (!fs::exists(model)) continue;
    fs::copy_file(model, temporary / name);
    names.emplace_back(name);
  }
  const std::string table = covered_columns(run_directory + "/rounds.csv");
  write_file(temporary / "rounds.csv", table);
  fs::rename(temporary, out);
  return fmt::format("{}: {}, and {} of rounds.csv\n", out, join(names, ", "),
                     table.substr(0, table.find('\n')));
}

}  // namespace hanse

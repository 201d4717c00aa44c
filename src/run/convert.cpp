#include "hanse/run/convert.hpp"

#include <csignal>
#include <filesystem>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

namespace {

std::string folder_of(const std::string& file) {
  const auto folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? "." : folder.string();
}

void check_target(const std::string& out, bool overwrite) {
  std::error_code code;
  if (std::filesystem::is_directory(out, code)) {
    throw InvalidArgument("the output is a folder, not a file", out, "name a file, e.g. data.h5");
  }
  if (!overwrite && std::filesystem::exists(out, code)) {
    throw InvalidArgument("the output exists", out,
                          "choose another name, or pass --run.overwrite=true");
  }
}

}  // namespace

std::string convert_job(const std::string& job_file, const Overrides& overrides,
                        const std::string& out) {
  KeyedJob job(catalog());
  load_job(job_file, overrides, job);
  check_data(job.data, job.federation);
  check_target(out, job.run.overwrite);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of the write, not a death
  TemporaryFile file(out + ".tmp");
  const ScratchMemory scratch(folder_of(out));
  const auto sizes =
      write_hanse_file(file.path(), job.data, job.federation, seed_of(job, job.data.seed));
  file.publish(out);
  return fmt::format("{}: {} clients{}, {} samples, {:.1f} MB\n", out, sizes.clients,
                     sizes.held_out > 0 ? fmt::format(" and {} held out", sizes.held_out) : "",
                     sizes.samples, 1e-6 * static_cast<double>(sizes.bytes));
}

}  // namespace hanse

#include "model_output.hpp"

#include "hanse/model/part_model.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/store/atomic_file.hpp"
#include "hanse/store/model_file.hpp"

namespace hanse {

namespace {

void write_named(const std::string& path, const ParameterLayout& layout,
                 std::span<const float> row) {
  if (path.ends_with(".pt")) return write_file(path, torch_library().state_dict(layout, row));
  write_model(path, layout, row);
}

void write_row(const Job& job, Assembly& parts, const std::string& path,
               std::span<const float> row) {
  if (parts.part == nullptr) return write_named(path, parts.protocol().model_layout(), row);
  const NamedRow whole = parts.part->whole(row, job.run.merge_adapters);
  write_named(path, whole.layout, whole.row);
}

}  // namespace

void write_present_model(const Job& job, Assembly& parts, const std::string& path) {
  write_row(job, parts, path, parts.protocol().model_row());
}

void write_final_models(const Job& job, Assembly& parts) {
  const std::string& folder = job.run.out;
  write_present_model(job, parts, folder + "/model.h5");
  if (job.run.state_dict) write_present_model(job, parts, folder + "/state_dict.pt");
  const auto averaged = parts.protocol().averaged_row();
  if (!averaged.empty()) write_row(job, parts, folder + "/averaged.h5", averaged);
}

}  // namespace hanse

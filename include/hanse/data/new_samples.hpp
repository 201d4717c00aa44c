// Samples that a trained model is to look at, read and prepared as those of its run were.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/data/feature_record.hpp"
#include "hanse/data/options.hpp"

namespace hanse {

// What a level that the run does not know counts as.
enum class UnknownLevels { kRefuse, kMissing };
constexpr auto choices_of(UnknownLevels) { return std::array{"refuse", "missing"}; }

class NewSamples {
 public:
  virtual ~NewSamples() = default;
  // The names of the texts that belong to each sample: `id`, and then columns of the data that the
  // model does not read.
  virtual const std::vector<std::string>& names() const = 0;
  // Reads the next sample: its values, for the model, and its texts, one a name. False at the end.
  // Throws InvalidArgument.
  virtual bool next(std::span<float> values, std::vector<std::string>& texts) = 0;
};

// Opens `data.path`, data of the kind that the run had: a table, whose columns are matched by their
// names in any order, or other data, in their own order. A sample's id is the table's column `id`,
// unless the model reads that, else its number from 0 on. `record` and `own` outlive the result.
// Throws InvalidArgument: no such file, a column that is missing, a row that is no sample of the
// model (all rows are looked at before the first is returned), a kind that makes its samples up,
// texts whose words the run has numbered itself.
// Cost: a table is read twice, one row in memory; other data as a run reads them.
std::unique_ptr<NewSamples> open_new_samples(const DataOptions& data, const FeatureRecord& record,
                                             const Preparation& own, UnknownLevels unknown);

}  // namespace hanse

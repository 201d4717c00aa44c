// model.start: a folder of PEFT's adapters.
#pragma once

#include <string>
#include <vector>

#include "hanse/client/options.hpp"
#include "hanse/model/options.hpp"
#include "hanse/model/peft.hpp"
#include "warm_start.hpp"

namespace hanse {

// The adapters of a folder, for the matrices of a model.
class PeftStart {
 public:
  // Is model.start one?
  static bool is_one(const ModelOptions& options);

  // Finds the matrix of each adapter in the model's own layout, as warm_start() finds tensors.
  // Throws InvalidArgument: as read_peft(); a module that the model has not; shapes that do not
  // fit; a tensor of several names that has an adapter under one of them alone, or others.
  PeftStart(const ModelOptions& options, const ParameterLayout& layout);

  const PeftConfig& config() const { return config_; }
  // The names of the matrices.
  std::vector<std::string> matrices() const;
  // The values for a layout that has the factors of these matrices. Throws InvalidArgument: it has
  // others, unless the start may be partial.
  WarmStart start(const ModelOptions& options, const ParameterLayout& all) const;

  // Sets rank, scale and layers of a job that leaves them to the folder. Throws InvalidArgument
  // where the job says otherwise.
  PartOptions options_of(PartOptions given) const;

 private:
  struct Found {
    std::string matrix;
    OwnFactors factors;
    std::vector<float> base;  // the matrix itself; empty: as the model starts
  };
  // Notes the matrix itself, where the folder has it.
  void take_base(const ParameterSlot& slot, const NamedTensor& base);

  PeftConfig config_;
  std::vector<Found> found_;
  std::vector<std::string> notes_;
};

}  // namespace hanse

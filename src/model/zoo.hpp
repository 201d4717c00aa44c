// What the options of a model mean, for whoever builds one.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/model/model.hpp"

namespace hanse {

// The loss of this name, for data of so many classes (0: regression). Throws InvalidArgument when
// they do not fit together.
LossKind loss_kind(const std::string& name, int64_t classes);

}  // namespace hanse

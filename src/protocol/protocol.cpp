#include "hanse/protocol/protocol.hpp"

#include <cmath>

#include <fmt/format.h>

namespace hanse {

std::string number_or_nothing(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.9g}", value);
}

}  // namespace hanse

#include "hanse/rules/aggregation/aggregator_options.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

ByzantineCount ByzantineCount::parse(std::string_view text) {
  if (text == "auto") return {};
  const auto number = number_in(text);
  if (number && std::isfinite(*number) && *number >= 0 &&
      (*number < 0.5 || *number == std::floor(*number))) {
    return {number};
  }
  throw InvalidArgument(fmt::format("'{}' is no number of participants", text), "",
                        "auto, a whole number, or a share below 0.5");
}

std::string ByzantineCount::text() const { return number ? fmt::format("{}", *number) : "auto"; }

int64_t ByzantineCount::of(int64_t k, double attack_share) const {
  const double value = number.value_or(attack_share);
  if (value >= 1) return static_cast<int64_t>(value);
  // A share that is a whole number of participants but for rounding is that number.
  const double count = value * static_cast<double>(k);
  return static_cast<int64_t>(std::ceil(count * (1 - 1e-12)));
}

int64_t loss_batches(const std::string& text) {
  if (text == "full") return 0;
  const std::string open = "batches(";
  try {
    if (text.rfind(open, 0) == 0 && text.back() == ')') {
      const int64_t n = parse_integer(text.substr(open.size(), text.size() - open.size() - 1));
      if (n >= 1) return n;
    }
  } catch (const InvalidArgument&) {
  }
  throw InvalidArgument(fmt::format("unknown value '{}'", text), "aggregator.loss",
                        "known: full, batches(n) with n >= 1");
}

}  // namespace hanse

// Features that a network reads as whole numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace hanse {

// Is a feature a token of a model with this vocabulary()? NaN is none.
inline bool is_token(float value, int64_t vocabulary) {
  return value >= 0 && value < static_cast<float>(vocabulary) &&
         value == static_cast<float>(static_cast<int64_t>(value));
}

// Values of a sample, those in [first, last), that a network reads as whole numbers in [least,
// most].
struct WholeNumbers {
  int64_t first, last;
  double least, most;
  std::string what;       // another number is: continues "a client has the value 0.5, "
  std::string key, hint;  // of the error that says so

  // NaN is none.
  bool hold(float value) const {
    const auto number = static_cast<double>(value);
    return number >= least && number <= most && std::trunc(number) == number;
  }
};

}  // namespace hanse

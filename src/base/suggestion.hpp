// What messages suggest where a key or a value is not known.
#pragma once

#include <span>
#include <string>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

// Says which sections or keys exist, and the nearest.
InvalidArgument unknown_key(const std::string& key, const std::string& where,
                            std::span<const Option> options);

// Where the value of a key that chooses a kind is unknown, and the kind of another key: "did you
// mean client.update = prox?", also for fedprox. Empty: it is not.
std::string hint_of_other_key(const Option& option, const std::string& value,
                              std::span<const Option> options);

// On characters that a reader does not see as part of a value; empty: it has none.
std::string hint_of_characters(const std::string& value);

}  // namespace hanse

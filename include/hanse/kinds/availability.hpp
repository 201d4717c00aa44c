// sampler.availability: which clients are there in a round.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/rules/sampling/availability.hpp"

namespace hanse {

// "always" (empty), a probability in (0, 1], "blocks(n)" or "blocks(n, rounds)", or the path of a
// schedule: CSV lines "client,first round,last round", both included; lines that begin with '#' are
// comments, as is a header. A client that no line names is always there.
// Throws InvalidArgument that names the file, line and field.
Availability make_availability(const std::string& text, int64_t clients);

// Is everybody there in every round?
bool is_always(const std::string& text);

// Is it the path of a schedule? Throws InvalidArgument: numbers out of range.
bool is_schedule(const std::string& text);

// Checks without knowing the clients: the form, and that a file exists.
void check_availability(const std::string& text);

}  // namespace hanse

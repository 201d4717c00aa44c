// Fields of a trace, read with their place in the message, and numbers written in full.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace hanse {

using Json = nlohmann::json;

// All of these throw InvalidArgument that names `where`.

const Json& field(const Json& object, const std::string& name, const std::string& where);

// A finite number.
double number(const Json& value, const std::string& where);

int64_t integer(const Json& value, int64_t low, int64_t high, const std::string& where);

// The items of an array of `expected` numbers, each >= `low`.
std::vector<double> numbers(const Json& array, std::size_t expected, double low,
                            const std::string& where);
// numbers() of a field.
std::vector<double> numbers(const Json& object, const std::string& name, std::size_t expected,
                            double low, const std::string& where);

// integer() of a field's items, each >= 0.
std::vector<int64_t> whole_numbers(const Json& object, const std::string& name,
                                   std::size_t expected, const std::string& where);

// The client ids of an array, in [0, clients); `repeats`: one may stand twice.
std::vector<int64_t> ids(const Json& array, int64_t clients, bool repeats,
                         const std::string& where);

// The round's distinct clients of that name; all of them when it has no such field.
std::vector<int64_t> clients_in(const Json& round, const std::string& name, int64_t clients,
                                const std::string& where);

// The number of clients of a trace.
int64_t clients_of(const Json& trace);

// The array "rounds" of a trace.
const Json& rounds_of(const Json& trace);

// {"rounds": [...]}: what `replay` makes of each round, an object at `where`.
Json each_round(const Json& trace,
                const std::function<Json(const Json& round, const std::string& where)>& replay);

// Rows of n numbers.
Json to_rows(std::span<const double> values, std::size_t n);

// JSON with 17 significant digits a number: each double parses back to itself.
std::string to_text(const nlohmann::ordered_json& value);

// "rounds[3].weights[0] is 0.25, but 0.26": the first number, or the like, in which two results
// differ; nothing when they are the same, each number bit for bit.
std::optional<std::string> first_difference(const Json& one, const Json& other,
                                            const std::string& where = "");

}  // namespace hanse

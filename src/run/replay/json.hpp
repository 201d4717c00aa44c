// Fields of a trace, read with their place in the message, and numbers written in full.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "hanse/rules/aggregation/aggregator.hpp"

namespace hanse {

struct Job;

using Json = nlohmann::json;

// All of these throw InvalidArgument that names `where`.

const Json& field(const Json& object, const std::string& name, const std::string& where);

// The array "rounds" of a trace.
const Json& rounds_of(const Json& trace);

// A finite number.
double number(const Json& value, const std::string& where);

// A number of items, each >= `low`, from an array of `expected` of them.
std::vector<double> numbers(const Json& object, const std::string& name, std::size_t expected,
                            double low, const std::string& where);
// The same, or `absent` for everybody when there is no such field.
std::vector<double> numbers_or(const Json& object, const std::string& name, std::size_t expected,
                               double absent, const std::string& where);

int64_t integer(const Json& value, int64_t low, int64_t high, const std::string& where);

// The client ids of an array, in [0, clients); `repeats`: one may stand twice.
std::vector<int64_t> ids(const Json& array, int64_t clients, bool repeats,
                         const std::string& where);

// The round's "participants", distinct clients; all of them when it names none.
std::vector<int64_t> participants(const Json& round, int64_t clients, const std::string& where);

// The round's "sizes" [count] as shares of `total`, or of their own sum when it is 0; equal shares
// when it has none and they are not `needed`.
std::vector<double> shares_of_sizes(const Json& round, std::size_t count, bool needed, double total,
                                    const std::string& where);

// What the rule decides on the report of one round.
Mix mix_of(Aggregator& rule, const RoundReport& report, const std::string& where);

// The number of clients of a trace.
int64_t clients_of(const Json& trace);

// JSON with 17 significant digits a number: each double parses back to itself.
std::string to_text(const Json& value);

// One family's replay: the trace with its rule, whose options are set in `job`.
Json replay_aggregator(const Json& trace, const Job& job);
// The same of a rule that works on inner products.
Json replay_gram(const Json& trace, Aggregator& rule);
Json replay_rate(const Json& trace, const Job& job);
Json replay_sampler(const Json& trace, const Job& job);
Json replay_bandit(const Json& trace, const Job& job);
Json replay_online(const Json& trace, const Job& job);

}  // namespace hanse

// The fields of a trace's rounds that rules are told: a field a row of rules/told.hpp.
#pragma once

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "hanse/rules/told.hpp"
#include "json_fields.hpp"

namespace hanse {

// [[n x n]], or a list of one such matrix a layer.
template <class T>
Json matrices(std::span<const T> entries, std::size_t n) {
  Json layers = Json::array();
  for (; !entries.empty(); entries = entries.subspan(n)) {
    if (layers.empty() || layers.back().size() == n) layers.push_back(Json::array());
    layers.back().push_back(entries.first(n));
  }
  return layers.size() == 1 ? layers[0] : layers;
}

// Adds the numbers that were told to a round of a trace, in the order of their rows; a matrix has
// n rows.
template <class Report>
void add_told(const Report& told, std::size_t n, nlohmann::ordered_json& round) {
  for_each_told<Report>([&](const auto& row) {
    const auto numbers = told.*row.member;
    if (numbers.empty()) return;
    round[row.name] = row.matrices ? matrices(numbers, n) : Json(numbers);
  });
}

// Reads what `told` lacks of the numbers of `count` participants: those that the rule asks for
// (is_told()), and those that are told wherever they are known if the round has them.
template <class Report, class Rule>
void read_told(const Json& round, std::size_t count, const Rule& rule, const std::string& where,
               OwnedReport<Report>& told) {
  for_each_told<Report>([&]<class T, class... Of>(const ToldNumber<T, Of...>& row) {
    if (!(told.report().*row.member).empty() || !is_told(row, rule)) return;
    if ((!row.asked || count == 0) && !round.contains(row.name)) return;
    if constexpr (std::is_same_v<T, double>) {
      told.keep(row.member, numbers(round, row.name, count, row.least, where));
    } else {
      told.keep(row.member, whole_numbers(round, row.name, count, where));
    }
  });
}

}  // namespace hanse

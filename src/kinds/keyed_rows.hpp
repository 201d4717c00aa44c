// Rows of a family whose names, summaries and makers stand in a table of a module below.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "hanse/job/kind.hpp"

namespace hanse {

// What such a kind has in a job file.
struct KindInJob {
  const char* name;
  void (*keys)(KindKeys& keys, Job& job) = nullptr;
  void (*check)(const Job& job) = nullptr;
};

// A row for each of `kinds`, structs with a name and a summary; kinds that `in_job` does not name
// have no keys. Throws std::logic_error when it names a kind that is not there.
template <class Kinds, std::size_t kCount>
std::vector<KindRow> keyed_rows(const Kinds& kinds, const KindInJob (&in_job)[kCount]) {
  std::vector<KindRow> rows;
  for (const auto& kind : kinds) rows.push_back({kind.name, kind.summary});
  for (const KindInJob& keyed : in_job) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const KindRow& each) { return each.name == keyed.name; });
    if (row == rows.end()) throw std::logic_error("no kind " + std::string(keyed.name));
    row->keys = keyed.keys;
    row->check = keyed.check;
  }
  return rows;
}

}  // namespace hanse

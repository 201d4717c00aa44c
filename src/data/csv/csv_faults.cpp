#include "csv/csv_faults.hpp"

#include <utility>

#include <fmt/format.h>

#include "csv/csv_scanner.hpp"
#include "hanse/base/log.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostFaults = 20;

std::string_view hint_in(std::string_view fault) {
  const std::size_t at = fault.find("; hint: ");
  return at == fault.npos ? "" : fault.substr(at);
}

}  // namespace

void CsvFaults::add(const InvalidArgument& fault) {
  if (dynamic_cast<const NotUtf8*>(&fault) != nullptr && std::exchange(is_encoded_, true)) return;
  ++count_;
  if (first_.size() < kMostFaults) first_.emplace_back(fault.what());
}

void CsvFaults::refuse() const {
  if (count_ == 0) return;
  if (count_ == 1) throw InvalidArgument(first_.front());
  std::string_view told;  // hint of the line above
  for (const std::string& fault : first_) {
    const std::string_view hint = hint_in(fault);
    notice(hint == told ? fault.substr(0, fault.size() - hint.size()) : fault);
    told = hint;
  }
  throw InvalidArgument(fmt::format("{} faults, {} told above; the first: {}", count_,
                                    count_ > std::ssize(first_) ? "20 of them" : "all",
                                    first_.front()));
}

}  // namespace hanse

#include "hanse/protocol/footprint.hpp"

namespace hanse {

namespace {

using Bytes = std::map<std::string, double>;

double sum_of(const Bytes& parts) {
  double sum = 0;
  for (const auto& [name, bytes] : parts) sum += bytes;
  return sum;
}

double part_of(const Bytes& parts, const std::string& name) {
  const auto found = parts.find(name);
  return found == parts.end() ? 0 : found->second;
}

}  // namespace

double RoundFootprint::bytes_sent() const { return sum_of(sent_); }
double RoundFootprint::memory_bytes() const { return sum_of(memory_); }

double RoundFootprint::sent_bytes_of(const std::string& kind) const { return part_of(sent_, kind); }

double RoundFootprint::memory_bytes_of(const std::string& part) const {
  return part_of(memory_, part);
}

void RoundFootprint::add(const std::string& kind, double bytes, double messages,
                         double operations) {
  if (others_ == 0) return;
  sent_[kind] += bytes;
  messages_ += messages;
  operations_ += operations;
}

}  // namespace hanse

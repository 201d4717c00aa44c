#include "hanse/protocol/footprint.hpp"

#include <algorithm>
#include <numeric>

namespace hanse {

namespace {

template <class Item>
double sum_of(const std::vector<Item>& items, double Item::*number) {
  return std::accumulate(items.begin(), items.end(), 0.0,
                         [&](double sum, const Item& item) { return sum + item.*number; });
}

template <class Item>
double bytes_of(const std::vector<Item>& items, std::string Item::*name,
                const std::string& wanted) {
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const Item& item) { return item.*name == wanted; });
  return found == items.end() ? 0 : found->bytes;
}

}  // namespace

double RoundFootprint::bytes_sent() const { return sum_of(sent, &Sent::bytes); }
double RoundFootprint::messages() const { return sum_of(sent, &Sent::messages); }
double RoundFootprint::operations() const { return sum_of(sent, &Sent::operations); }
double RoundFootprint::memory_bytes() const { return sum_of(memory, &Kept::bytes); }

double RoundFootprint::sent_bytes_of(const std::string& kind) const {
  return bytes_of(sent, &Sent::kind, kind);
}

double RoundFootprint::memory_bytes_of(const std::string& part) const {
  return bytes_of(memory, &Kept::part, part);
}

void FootprintTally::add(const std::string& kind, double bytes, double messages,
                         double operations) {
  if (others_ == 0) return;
  auto& sent = footprint_.sent;
  auto found =
      std::find_if(sent.begin(), sent.end(), [&](const auto& one) { return one.kind == kind; });
  if (found == sent.end()) found = sent.insert(found, {.kind = kind});
  found->bytes += bytes;
  found->messages += messages;
  found->operations += operations;
}

void FootprintTally::keep(const std::string& part, double bytes) {
  if (bytes > 0) footprint_.memory.push_back({part, bytes});
}

}  // namespace hanse

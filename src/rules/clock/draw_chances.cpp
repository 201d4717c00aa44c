#include "hanse/rules/clock/draw_chances.hpp"

#include "hanse/base/index.hpp"

namespace hanse {

DrawChances::DrawChances(int64_t clients)
    : there_(to_index(clients), 1), before_(to_index(clients)), came_(to_index(clients)) {}

void DrawChances::flip(std::size_t client) {
  if (there_[client]) {
    before_[client] += drawn_ - came_[client];
  } else {
    came_[client] = drawn_;
  }
  there_[client] = 1 - there_[client];
}

void DrawChances::toggle(std::span<const int64_t> clients) {
  if (!resumes_) {
    for (const int64_t client : clients) flip(to_index(client));
    return;
  }
  resumes_ = false;
  std::vector<int64_t> there(there_.size(), 1);
  for (const int64_t client : clients) there[to_index(client)] = 0;
  for (std::size_t client = 0; client < there.size(); ++client) {
    if (there[client] != there_[client]) flip(client);
  }
}

void DrawChances::draw(int64_t n, int64_t there) {
  if (resumes_) toggle({});
  const auto draws = static_cast<double>(n);
  all_ += draws / static_cast<double>(there_.size());
  drawn_ += draws / static_cast<double>(there);
}

double DrawChances::factor(int64_t client) const {
  const std::size_t i = to_index(client);
  return all_ / (before_[i] + (there_[i] ? drawn_ - came_[i] : 0));
}

void DrawChances::visit(StateFields& fields) {
  fields.numbers("sums", {&all_, &drawn_});
  fields.fixed("there", there_);
  fields.fixed("before", before_);
  fields.fixed("came", came_);
  if (fields.loads()) resumes_ = true;
}

}  // namespace hanse

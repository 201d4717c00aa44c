#include "hanse/data/names.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/text.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

Names Names::share(const std::vector<std::string>& names, Communicator& host) {
  std::vector<int64_t> places = {0};
  for (const std::string& name : names) places.push_back(places.back() + std::ssize(name));
  std::array<int64_t, 2> sizes = {std::ssize(names), places.back()};
  host.bcast(std::span(sizes), 0);
  Names shared;
  shared.size_ = sizes[0];
  if (shared.empty()) return shared;
  const auto head = (sizes[0] + 1) * static_cast<int64_t>(sizeof(int64_t));
  std::shared_ptr<std::byte> memory;
  agree_on(host, [&] { memory = host.allocate_shared(head + sizes[1]); });
  if (host.rank() == 0) {
    std::memcpy(memory.get(), places.data(), static_cast<std::size_t>(head));
    std::byte* end = memory.get() + head;
    for (const std::string& name : names) {
      std::memcpy(end, name.data(), name.size());
      end += name.size();
    }
  }
  host.barrier();
  shared.memory_ = memory;
  return shared;
}

Names Names::of(std::span<const int64_t> numbers) const {
  if (empty()) return {};
  std::vector<std::string> chosen;
  for (const int64_t number : numbers) chosen.emplace_back(at(number));
  return share(chosen, *make_single_communicator());
}

std::string_view Names::at(int64_t i) const {
  if (empty()) return {};
  const auto* characters = reinterpret_cast<const char*>(places() + size_ + 1);
  return {characters + places()[i], static_cast<std::size_t>(places()[i + 1] - places()[i])};
}

std::string Names::digest() const {
  if (empty()) return {};
  const int64_t bytes = (size_ + 1) * static_cast<int64_t>(sizeof(int64_t)) + places()[size_];
  return digest_hex({memory_.get(), static_cast<std::size_t>(bytes)});
}

void require_utf8(std::span<const std::string> names, const std::string& what,
                  const std::string& where) {
  const auto other = std::ranges::find_if_not(names, is_utf8);
  if (other == names.end()) return;
  throw InvalidArgument(
      fmt::format("{} is no UTF-8", label_of("the name of " + what, other - names.begin(), *other)),
      where,
      "save the file as UTF-8 (iconv -f latin1 -t utf-8 FILE), or rename the "
      "folder");
}

std::string label_of(const std::string& what, int64_t number, std::string_view name) {
  if (name.empty()) return fmt::format("{} {}", what, number);
  return fmt::format("{} '{}'", what, printable(name));
}

}  // namespace hanse

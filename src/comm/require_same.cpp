#include "hanse/comm/require_same.hpp"

#include <fmt/format.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"

namespace hanse {

void require_same(Communicator& comm, const std::string& what, const std::string& text,
                  const std::string& hint) {
  const std::string first = bcast_text(comm, text, 0);
  agree_on(comm, [&] {
    if (text == first) return;
    const auto brief = [](const std::string& value) {
      return value.size() <= 60 ? value : "digest " + digest_hex(std::as_bytes(std::span(value)));
    };
    throw InvalidArgument(
        fmt::format("ranks have different {}: '{}' and '{}'", what, brief(first), brief(text)), "",
        hint);
  });
}

}  // namespace hanse

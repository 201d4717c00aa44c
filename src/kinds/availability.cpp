#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "hanse/kinds/samplers.hpp"
#include "lines.hpp"

namespace hanse {

namespace {

constexpr const char* kOption = "sampler.availability";
constexpr const char* kKnown =
    "known: always, a probability in (0, 1], blocks(n), blocks(n, rounds), or the path of a file";

// Nothing when the text is no number.
std::optional<double> as_probability(const std::string& text) {
  const auto value = number_in(text);
  if (!value || (*value > 0 && *value <= 1)) return value;
  throw InvalidArgument(fmt::format("{} is not in (0, 1]", *value), kOption, kKnown);
}

struct Blocks {
  int64_t count = 1;
  int64_t rounds = 1;
};

std::optional<Blocks> as_blocks(const std::string& text) {
  const std::string open = "blocks(";
  if (text.rfind(open, 0) != 0 || text.back() != ')') return std::nullopt;
  const auto fields = split_list(text.substr(open.size(), text.size() - open.size() - 1));
  Blocks blocks;
  try {
    if (fields.empty() || fields.size() > 2) throw InvalidArgument("");
    blocks.count = parse_integer(fields[0]);
    if (fields.size() == 2) blocks.rounds = parse_integer(fields[1]);
    if (blocks.count < 1 || blocks.rounds < 1) throw InvalidArgument("");
  } catch (const InvalidArgument&) {
    throw InvalidArgument(fmt::format("'{}' needs whole numbers of at least 1", text), kOption,
                          kKnown);
  }
  return blocks;
}

Presence parse_presence(const std::string& line, int64_t clients, const std::string& where) {
  const auto fields = split_list(line);
  Presence presence;
  try {
    if (fields.size() != 3) throw InvalidArgument("");
    presence = {.client = parse_integer(fields[0]),
                .first = parse_integer(fields[1]),
                .last = parse_integer(fields[2])};
  } catch (const InvalidArgument&) {
    throw InvalidArgument(fmt::format("'{}' is not three whole numbers", line), where,
                          "a line is: client,first round,last round");
  }
  if (presence.client < 0 || presence.client >= clients) {
    throw InvalidArgument(fmt::format("client {} is outside [0, {})", presence.client, clients),
                          where);
  }
  if (presence.first < 1 || presence.last < presence.first) {
    throw InvalidArgument(
        fmt::format("rounds {} to {} are no range", presence.first, presence.last), where,
        "rounds count from 1");
  }
  return presence;
}

std::vector<Presence> read_schedule(const std::string& path, int64_t clients) {
  std::vector<Presence> presences;
  each_line(path, "schedule of clients", kKnown,
            [&](const std::string& line, int64_t number, const std::string& where) {
              if (number == 1 && line.starts_with("client")) return;  // a header
              presences.push_back(parse_presence(line, clients, where));
            });
  return presences;
}

}  // namespace

bool is_always(const std::string& text) { return text == "always"; }

Availability make_availability(const std::string& text, int64_t clients) {
  if (is_always(text)) return nullptr;
  if (const auto probability = as_probability(text)) {
    return make_independent_availability(clients, *probability);
  }
  if (const auto blocks = as_blocks(text)) {
    if (blocks->count > clients) {
      throw InvalidArgument(fmt::format("{} blocks of {} clients", blocks->count, clients),
                            kOption);
    }
    return make_block_availability(clients, blocks->count, blocks->rounds);
  }
  return make_scheduled_availability(read_schedule(text, clients));
}

bool is_schedule(const std::string& text) {
  return !is_always(text) && !as_probability(text) && !as_blocks(text);
}

void check_availability(const std::string& text) {
  if (!is_schedule(text) || std::filesystem::is_regular_file(text)) return;
  throw InvalidArgument(fmt::format("unknown value '{}'; {}", text, missing_text(text)), kOption,
                        kKnown);
}

}  // namespace hanse

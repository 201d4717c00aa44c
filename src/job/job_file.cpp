#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"

namespace hanse {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kHardSpace = "\xC2\xA0";  // U+00A0, which looks like a space

// Is it UTF-16, by its mark or by the zero byte of its first character?
bool is_utf16(const std::string& text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
         (text.size() > 1 && (text[0] == '\0') != (text[1] == '\0'));
}

// Makes every end of a line a line feed.
std::string with_line_feeds(const std::string& text) {
  std::string lines;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends_here = text[i] == '\r' && text.substr(i + 1, 1) != "\n";
    lines += ends_here ? '\n' : text[i];
  }
  return lines;
}

// Throws InvalidArgument for a file that is no text: messages would print its lines.
std::istringstream open_job(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw InvalidArgument("the job file is a directory", path, "name a .cfg file");
  }
  std::ifstream file(path);
  if (!file) {
    throw InvalidArgument("cannot read the job file: " + errno_text(), path,
                          "jobs/ holds examples");
  }
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (is_utf16(text)) {
    throw InvalidArgument("the job file is UTF-16", path, "save it as UTF-8");
  }
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  const auto is_control = [](unsigned char c) { return std::iscntrl(c) && !std::isspace(c); };
  if (std::ranges::any_of(text, is_control)) {
    throw InvalidArgument("the job file is no text", path, "name a .cfg file");
  }
  return std::istringstream(with_line_feeds(text));
}

// Strips spaces at both ends, non-breaking ones included.
std::string_view bare(std::string_view text) {
  for (std::size_t before = text.size() + 1; text.size() < before;) {
    before = text.size();
    text = trim(text);
    if (text.starts_with(kHardSpace)) text.remove_prefix(kHardSpace.size());
    if (text.ends_with(kHardSpace)) text.remove_suffix(kHardSpace.size());
  }
  return text;
}

struct Line {
  std::string key, value;
  int number;
};

std::vector<Line> parse_lines(const std::string& path) {
  std::vector<Line> parsed;
  std::istringstream lines = open_job(path);
  std::string section;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto where = fmt::format("{}:{}", path, number);
    const auto hash = line.find('#');
    if (hash != std::string::npos && hash > 0 &&
        !std::isspace(static_cast<unsigned char>(line[hash - 1]))) {
      throw InvalidArgument("'#' inside a value", where, "a comment needs a space before its '#'");
    }
    const std::string content(bare(std::string_view(line).substr(0, hash)));
    if (content.empty()) continue;
    if (content.front() == '[' && content.back() == ']') {
      section = std::string(bare(content.substr(1, content.size() - 2))) + ".";
      continue;
    }
    const auto equals = content.find('=');
    if (equals == std::string::npos) {
      throw InvalidArgument(fmt::format("'{}' is neither [section] nor key = value", content),
                            where);
    }
    const std::string key = section + std::string(bare(content.substr(0, equals)));
    for (const Line& earlier : parsed) {
      if (earlier.key != key) continue;
      throw InvalidArgument(fmt::format("key '{}' stands twice", key), where,
                            fmt::format("first on line {}", earlier.number));
    }
    parsed.push_back({key, std::string(bare(content.substr(equals + 1))), number});
  }
  return parsed;
}

}  // namespace

Overrides job_lines(const std::string& path) {
  Overrides lines;
  for (const Line& line : parse_lines(path)) lines.emplace_back(line.key, line.value);
  return lines;
}

void read_job(const std::string& path, const Overrides& overrides, KeyedJob& job) {
  for (const Line& line : parse_lines(path)) {
    job.table.set(line.key, line.value, fmt::format("{}:{}", path, line.number));
  }
  for (const auto& [key, value] : overrides) job.table.set(key, value, "--" + key);
  job.table.resolve();
}

void require_writable(const KeyedJob& job) {
  for (const Option& option : job.table.options()) {
    if (option.format().find_first_of("#\r\n") == std::string::npos) continue;
    throw InvalidArgument("a value with '#' or a line break cannot stand in a job file", option.key,
                          "choose another name");
  }
}

std::string job_text(const KeyedJob& job) {
  std::string text = "# Every option of the run; `hanse run` accepts this file.\n";
  std::string section;
  for (const Option& option : job.table.options()) {
    if (option.section() != section) {
      section = option.section();
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("{} = {}\n", option.key.substr(section.size() + 1), option.format());
  }
  return text;
}

}  // namespace hanse

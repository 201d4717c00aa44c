#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"

namespace hanse {

namespace {

namespace po = boost::program_options;

std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw InvalidArgument("the job file is a directory", path, "name a .cfg file");
  }
  std::ifstream file(path);
  if (!file) {
    throw InvalidArgument("cannot read the job file: " + errno_text(), path,
                          "jobs/ holds examples");
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Boost's parser knows no line numbers, takes a key twice and cuts values at any '#': a
// scan of the lines beforehand finds the numbers and what it would get wrong.
std::map<std::string, int> scan_lines(const std::string& text, const std::string& path) {
  std::map<std::string, int> line_of;
  std::istringstream lines(text);
  std::string section;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto where = fmt::format("{}:{}", path, number);
    const auto hash = line.find('#');
    if (hash != std::string::npos && hash > 0 &&
        !std::isspace(static_cast<unsigned char>(line[hash - 1]))) {
      throw InvalidArgument("'#' inside a value", where, "a comment needs a space before its '#'");
    }
    const std::string content(trim(std::string_view(line).substr(0, hash)));
    if (content.empty()) continue;
    if (content.front() == '[' && content.back() == ']') {
      section = content.substr(1, content.size() - 2) + ".";
      continue;
    }
    const auto equals = content.find('=');
    if (equals == std::string::npos) {
      throw InvalidArgument(fmt::format("'{}' is neither [section] nor key = value", content),
                            where);
    }
    const std::string key = section + std::string(trim(content.substr(0, equals)));
    if (!line_of.emplace(key, number).second) {
      throw InvalidArgument(fmt::format("key '{}' stands twice", key), where,
                            fmt::format("first on line {}", line_of.at(key)));
    }
  }
  return line_of;
}

po::options_description describe(const OptionTable& table) {
  po::options_description description;
  for (const Option& option : table.options()) {
    description.add_options()(option.key.c_str(), po::value<std::string>());
  }
  return description;
}

}  // namespace

void read_job(const std::string& path, const Overrides& overrides, KeyedJob& job) {
  const std::string text = read_text(path);
  const auto line_of = scan_lines(text, path);
  std::istringstream stream(text);
  try {
    const auto parsed = po::parse_config_file(stream, describe(job.table), true);
    for (const auto& option : parsed.options) {
      const auto line = line_of.find(option.string_key);
      const auto where = line == line_of.end() ? path : fmt::format("{}:{}", path, line->second);
      job.table.set(option.string_key, option.value.empty() ? "" : option.value.front(), where);
    }
  } catch (const po::error& error) {
    throw InvalidArgument(error.what(), path);
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

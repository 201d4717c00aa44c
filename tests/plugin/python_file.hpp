// Files of rules in Python.
#pragma once

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "hanse/base/rule_file.hpp"

namespace hanse {

// A file of the test with this text; each has a name of its own, as modules are loaded once.
inline RuleSource python(const std::string& section, const std::string& text,
                         const std::string& args = "") {
  static int files = 0;
  const std::string path = testing::TempDir() + "/rule_" + std::to_string(++files) + ".py";
  std::ofstream(path) << text;
  return {.section = section, .file = {.path = path, .args = args}, .python = true};
}

}  // namespace hanse

// main() of the hanse program, called by launcher.cpp.
#include <cstdio>
#include <string>
#include <vector>

#include "hanse/cli/program.hpp"
#include "hanse/cli/start.hpp"

extern "C" int hanse_main(int argc, char** argv, const hanse::Start& start) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto status = hanse::execute_command(arguments, start);
  std::fflush(stdout);
  return static_cast<int>(status);
}

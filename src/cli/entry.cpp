// main() of the hanse program, called by launcher.cpp.
#include <cstdio>
#include <string>
#include <vector>

#include "hanse/cli/program.hpp"

extern "C" int hanse_main(int argc, char** argv, double start_s) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto status = hanse::execute_command(arguments, start_s);
  std::fflush(stdout);
  return static_cast<int>(status);
}

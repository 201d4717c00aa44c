#include "hanse/base/log.hpp"

#include <atomic>
#include <memory>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "hanse/base/text.hpp"

namespace hanse {

namespace {

std::atomic<bool> speaks_here{true};

spdlog::logger& logger() {
  static const auto instance = [] {
    auto created = std::make_shared<spdlog::logger>(
        "hanse", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("hanse: %v");
    created->flush_on(spdlog::level::info);
    return created;
  }();
  return *instance;
}

}  // namespace

void set_speaker(bool speaks) { speaks_here = speaks; }

void notice(const std::string& text) {
  if (speaks_here) logger().info(printable(text));
}

void warning(const std::string& text) {
  if (speaks_here) logger().warn("warning: " + printable(text));
}

void report_error(const std::string& text) { logger().error("error: " + printable(text)); }

}  // namespace hanse
